# SPDX-License-Identifier: Apache-2.0
"""The engine bcc: compiles bpf/bcc/ssllatency.bcc.c when it attaches, and loads it. The only module that imports bcc.

The headers are the default engine's. What bcc can't do with them is done without it: maps are created first, and the C code
refers to them by their descriptors; probes are attached by system calls, as bcc's own attachment carries no cookie, reads the
target's file with a library of its own, and may leave events behind in tracefs.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from ssllatency import abi
from ssllatency.engines.attach.attachment import Attachment
from ssllatency.engines.attach.images import is_known_to_bcc, without_operations
from ssllatency.engines.base import AttachError, Request
from ssllatency.engines.bpf import libbpf
from ssllatency.engines.bpf.objects import sources_path
from ssllatency.engines.sessions.trace import TraceSession
from ssllatency.errors import SsllatencyError
from ssllatency.host.kernel_text import kernel_text
from ssllatency.model.histogram import octave_bounds

_PROGRAMS = ("at_entry", "at_exit", "at_return", "at_free", "at_error")
_TARGETS = {"x86_64": "x86", "aarch64": "arm64"}  # as the headers ask for the machine
# Maps that only programs ask for which bcc has none of: for sessions, and for Go functions.
_OF_OTHERS = frozenset({"no_session_program", "goroutines", "goroutine_shares", "goroutines_taken"})
_ARRAY, _MMAPABLE = 2, 1 << 10  # BPF_MAP_TYPE_ARRAY, BPF_F_MMAPABLE


class Mantissas(ctypes.Structure):
    """The table in a map."""

    _fields_ = (("boundaries", ctypes.c_uint64 * 16),)


_VALUES: dict[str, type[ctypes.Structure]] = {"config": abi.Config, "counters": abi.Counters, "mantissa": Mantissas}


def import_bcc() -> Any:
    """bcc's module; SsllatencyError where this machine's Python has none."""
    try:
        import bcc
    except (ImportError, OSError) as error:
        raise SsllatencyError(f"bcc can't be used ({error}): install it (apt-get install python3-bpfcc).") from None
    return bcc


class _Map(libbpf.Map):
    """A map through libbcc."""

    def __init__(self, calls: Any, fd: int, key_size: int, value_size: int) -> None:
        super().__init__(fd, key_size, value_size)
        self._calls = calls

    def _update(self, key: object, value: object) -> int:
        return _error(self._calls.bpf_update_elem(self.fd, key, value, 0))

    def _delete(self, key: bytes) -> int:
        return _error(self._calls.bpf_delete_elem(self.fd, key))

    def _lookup(self, key: bytes, value: object) -> int:
        return _error(self._calls.bpf_lookup_elem(self.fd, key, value))

    def _lookup_batch(self, *arguments: object) -> int:
        start, position, keys, values, count = arguments
        word = ctypes.POINTER(ctypes.c_uint32)
        here, there = (ctypes.cast(key, word) if key else None for key in (start, position))  # type: ignore[arg-type]
        return _error(self._calls.bpf_lookup_batch(self.fd, here, there, keys, values, count))


class BccObject:
    """The programs and maps of `trace`, as bcc makes them: the interface of libbpf's BpfObject."""

    sessions = False

    def __init__(self) -> None:
        self._bcc = import_bcc()
        self._shapes = {name: shape for name, shape in abi.MAPS.items() if name not in _OF_OTHERS}
        for name, kind in _VALUES.items():
            self._shapes[name] = abi.MapShape(_ARRAY, 4, ctypes.sizeof(kind), 1, _MMAPABLE)
        self._values = {name: kind() for name, kind in _VALUES.items()}
        self._values["mantissa"] = Mantissas((ctypes.c_uint64 * 16)(*octave_bounds(63)))
        self._attach_types: dict[str, int] = {}
        self._maps: dict[str, int] = {}
        self._program_fds: dict[str, int] = {}
        self._module: Any = None
        self._late: list[str] = []

    @property
    def late_programs(self) -> Sequence[str]:
        """Those of groups."""
        return self._late

    def program_names(self) -> Sequence[str]:
        """All programs."""
        return _PROGRAMS

    def choose_program(self, name: str, *, load: bool, attach_type: int = 0, group: str = "") -> None:
        """Before loading: whether the program is loaded, and for which BPF_TRACE_* attachment. All are loaded together."""
        if load and group:
            self._late.append(name)
        if load:
            self._attach_types[name] = attach_type

    def resize_map(self, name: str, entries: int) -> None:
        """Before loading: the number of entries the map is made for."""
        self._shapes[name] = self._shapes[name]._replace(entries=entries)

    def reuse_map(self, name: str, descriptor: int) -> None:
        """Before loading: has the one with this descriptor stand for the map of that name."""
        self._maps[name] = os.dup(descriptor)

    def section(self, name: str, kind: type[ctypes.Structure]) -> ctypes.Structure:
        """Before loading: a value that libbpf would keep in the data section of this name."""
        value = self._values[name.rpartition(".")[2]]
        assert isinstance(value, kind)
        return value

    def load(self) -> None:
        """Makes the maps, compiles and loads; SsllatencyError with bcc's last message where that fails."""
        for name, shape in self._shapes.items():
            if name in self._maps:
                continue
            self._maps[name] = self._create(name, shape)
        for name, value in self._values.items():
            self.map(name, 4, ctypes.sizeof(value)).update(ctypes.c_uint32(0), value)
        said: list[str] = []
        try:
            with _words(said):
                self._compile()
        except Exception as error:  # bcc raises nothing narrower
            raise SsllatencyError(_refusal(error, said)) from None

    def _create(self, name: str, shape: abi.MapShape) -> int:
        created = self._bcc.lib.bcc_create_map
        kind, key_size, value_size, entries, flags = shape
        descriptor = int(created(kind, name.encode(), key_size, value_size, entries, flags))
        if descriptor < 0:
            reason = os.strerror(ctypes.get_errno())
            raise SsllatencyError(f"the kernel made no map ({reason}): `ssllatency doctor` says what is missing.")
        return descriptor

    def _compile(self) -> None:
        folder = sources_path()
        text = (folder / "bcc" / "ssllatency.bcc.c").read_bytes()
        # Warnings are for the headers of kernels, which newer and older compilers read differently.
        machine = os.uname().machine
        flags = ["-w", f"-D__TARGET_ARCH_{_TARGETS.get(machine, machine)}", f"-I{folder / 'bcc'}", f"-I{folder}"]
        flags += [f"-DSSLL_FD_{name}={descriptor}" for name, descriptor in self._maps.items()]
        self._module = self._bcc.BPF(text=text, cflags=flags)
        for name, attach_type in self._attach_types.items():
            loaded = self._module.load_func(name.encode(), self._bcc.BPF.KPROBE, attach_type=attach_type)
            self._program_fds[name] = loaded.fd

    def live_section(self, name: str, kind: type[ctypes.Structure]) -> ctypes.Structure:
        """After loading: the memory of a value or mmapable array, as the programs use it."""
        return kind.from_buffer(mmap.mmap(self._maps[name.rpartition(".")[2]], ctypes.sizeof(kind)))

    def map(self, name: str, key_size: int, value_size: int) -> _Map:
        """A map by its name; sizes in bytes."""
        return _Map(self._bcc.lib, self._maps[name], key_size, value_size)

    def has_map(self, name: str) -> bool:
        """Whether there is a map of that name."""
        return name in self._shapes

    def map_fd(self, name: str) -> int:
        """The map's descriptor."""
        return self._maps[name]

    def program_fd(self, name: str) -> int:
        """The descriptor of a loaded program."""
        return self._program_fds[name]

    def close(self) -> None:
        """Frees the programs and maps; may be called twice."""
        if self._module is not None:
            self._module.cleanup()
            self._module = None
        while self._maps:
            os.close(self._maps.popitem()[1])


class BccEngine:
    """Attaches plans by programs that bcc has compiled and loaded."""

    name = "bcc"
    abilities = TraceSession.abilities

    def attach(self, request: Request) -> TraceSession:
        """Attaches all probes of the request or none."""
        if request.floor:
            raise SsllatencyError("empty programs are the libbpf engine's only: leave out --floor.", 2)
        if request.images and not request.wait and not any(map(is_known_to_bcc, request.images)):
            raise AttachError("none of the functions can be traced by bcc: use another engine.")
        images = tuple(image if is_known_to_bcc(image) else without_operations(image, self.name) for image in request.images)
        request = replace(request, images=images)
        session = _BccSession(Attachment(request, BccObject()), self.name)
        session.attach()
        return session


class _BccSession(TraceSession):
    def name_of(self, pid: int, kept: str) -> str:
        """The kernel side keeps the name of the thread that it saw first: the process's own, while there is one, is better."""
        with suppress(OSError):
            return kernel_text(f"/proc/{pid}/comm").removesuffix("\n")
        return kept


def _error(result: int) -> int:
    """libbcc gives minus the error number, or -1 and errno, by its version."""
    return -ctypes.get_errno() if result == -1 and ctypes.get_errno() else int(result)


@contextmanager
def _words(said: list[str]) -> Iterator[None]:
    """The words that the compiler and the verifier write to standard error meanwhile, by lines."""
    kept, caught = os.dup(2), os.memfd_create("bcc")
    os.dup2(caught, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        with os.fdopen(caught, "rb") as file:
            file.seek(0)
            said += file.read().decode(errors="replace").splitlines()


def _refusal(error: Exception, said: list[str]) -> str:
    """A failure of bcc as a sentence: the compiler's first error, or else the last line that was written."""
    lines = [line.strip() for line in said if line.strip() and not line.startswith("processed ")]
    first = next((line for line in lines if "error:" in line), lines[-1] if lines else str(error))
    return f"bcc couldn't compile or load the programs ({first}): `ssllatency doctor` says what is missing."
