# SPDX-License-Identifier: Apache-2.0
"""The distribution's libbpf (1.0 or later) through ctypes: the one module that calls it.

Opens a BPF object from memory, sizes its maps, sets its configuration, loads it, and reads its maps. Uprobes are attached
without it: by perf event in `perf`, by uprobe_multi links, which it knows only since 1.3, in `kernel`.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import re
import struct
from collections.abc import Iterator, Sequence
from functools import cache
from threading import Thread
from types import TracebackType

from ssllatency.c_library import c_library
from ssllatency.errors import SsllatencyError

SONAME = "libbpf.so.1"
_BATCH, _BATCH_BYTES = 64, 1 << 18  # entries of a map that are copied at a time, and about how many bytes of them
_DEBUG = 2  # LIBBPF_DEBUG
_LONGEST_MESSAGE = (1 << 24) + 4096  # the verifier's listing is one message, of 16 MiB at most
_PRINT_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class _OpenOptions(ctypes.Structure):
    """The head of struct bpf_object_open_opts: libbpf takes what comes after as zero."""

    _fields_ = (("sz", ctypes.c_size_t), ("object_name", ctypes.c_char_p))


_POINTER = ctypes.c_void_p
_SIGNATURES: dict[str, tuple[object, tuple[object, ...]]] = {
    "libbpf_set_print": (_POINTER, (_PRINT_FUNCTION,)),
    "bpf_object__open_mem": (_POINTER, (ctypes.c_char_p, ctypes.c_size_t, _POINTER)),
    "bpf_object__load": (ctypes.c_int, (_POINTER,)),
    "bpf_object__close": (None, (_POINTER,)),
    "bpf_object__find_program_by_name": (_POINTER, (_POINTER, ctypes.c_char_p)),
    "bpf_object__find_map_by_name": (_POINTER, (_POINTER, ctypes.c_char_p)),
    "bpf_object__next_program": (_POINTER, (_POINTER, _POINTER)),
    "bpf_object__next_map": (_POINTER, (_POINTER, _POINTER)),
    "bpf_program__name": (ctypes.c_char_p, (_POINTER,)),
    "bpf_program__section_name": (ctypes.c_char_p, (_POINTER,)),
    "bpf_program__set_autoload": (ctypes.c_int, (_POINTER, ctypes.c_bool)),
    "bpf_program__set_expected_attach_type": (ctypes.c_int, (_POINTER, ctypes.c_int)),
    "bpf_program__fd": (ctypes.c_int, (_POINTER,)),
    "bpf_program__attach": (_POINTER, (_POINTER,)),
    "bpf_link__destroy": (ctypes.c_int, (_POINTER,)),
    "bpf_map__fd": (ctypes.c_int, (_POINTER,)),
    "bpf_map__reuse_fd": (ctypes.c_int, (_POINTER, ctypes.c_int)),
    "bpf_map__set_max_entries": (ctypes.c_int, (_POINTER, ctypes.c_uint32)),
    "bpf_map__initial_value": (_POINTER, (_POINTER, ctypes.POINTER(ctypes.c_size_t))),
    "bpf_map_update_elem": (ctypes.c_int, (ctypes.c_int, _POINTER, _POINTER, ctypes.c_uint64)),
    "bpf_map_delete_elem": (ctypes.c_int, (ctypes.c_int, _POINTER)),
    "bpf_map_lookup_elem": (ctypes.c_int, (ctypes.c_int, _POINTER, _POINTER)),
    "bpf_map_lookup_batch": (
        ctypes.c_int,
        (ctypes.c_int, _POINTER, _POINTER, _POINTER, _POINTER, ctypes.POINTER(ctypes.c_uint32), _POINTER),
    ),
}

_messages: list[str] = []
_NO_MESSAGES = _PRINT_FUNCTION()


@_PRINT_FUNCTION  # type: ignore[untyped-decorator]
def _keep_message(level: int, template: bytes, arguments: int) -> int:
    """libbpf's messages are kept for the sentence of an error instead of going to standard error. Not the hundreds of each
    loading that say what went well: keeping them took longer than the loading."""
    if level >= _DEBUG:
        return 0
    with mmap.mmap(-1, _LONGEST_MESSAGE) as memory:  # of which only what is written takes memory
        text = ctypes.c_char.from_buffer(memory)
        size, print_to = ctypes.c_size_t(len(memory)), c_library().vsnprintf
        length = print_to(ctypes.byref(text), size, ctypes.c_char_p(template), ctypes.c_void_p(arguments))
        del text
        _messages.append(memory[: min(max(length, 0), len(memory) - 1)].decode(errors="replace").strip())
    del _messages[:-200]
    return 0


@cache
def library() -> ctypes.CDLL:
    """libbpf with its functions' types set; SsllatencyError where the machine has none that will do."""
    try:
        loaded = ctypes.CDLL(SONAME, use_errno=True)
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise SsllatencyError(
            f"{SONAME} can't be used ({error}): install libbpf 1.0 or later (apt-get install libbpf1)."
        ) from None
    return loaded


class Map:
    """A loaded map. Keys and values are ctypes structures or bytes of the map's own sizes."""

    def __init__(self, fd: int, key_size: int, value_size: int) -> None:
        self.fd, self._key_size, self._value_size = fd, key_size, value_size

    def update(self, key: ctypes._CData, value: ctypes._CData) -> None:
        """Inserts or replaces; OSError where the kernel refuses (ENOSPC, E2BIG …)."""
        result = self._update(ctypes.byref(key), ctypes.byref(value))
        if result < 0:
            raise OSError(-result, os.strerror(-result))

    def push(self, value: ctypes._CData) -> None:
        """Puts a value on a stack; OSError where the kernel refuses."""
        result = self._update(None, ctypes.byref(value))
        if result < 0:
            raise OSError(-result, os.strerror(-result))

    def delete(self, key: bytes) -> bool:
        """Whether the key was there."""
        return self._delete(key) == 0

    def lookup(self, key: bytes) -> bytes | None:
        """The value of a key; None where it isn't there."""
        value = ctypes.create_string_buffer(self._value_size)
        return value.raw if self._lookup(key, value) == 0 else None

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """All pairs of a hash map, copied in batches: safe while the kernel adds and deletes."""
        for keys, values in self._batches():
            yield from zip(_pieces(keys, self._key_size), _pieces(values, self._value_size), strict=True)

    def views(self) -> Iterator[tuple[bytes, memoryview]]:
        """All pairs of a hash map, each value only valid until the next pair is asked for."""
        size = self._value_size
        for keys, values in self._batches():
            for number, key in enumerate(_pieces(keys, self._key_size)):
                yield key, values[number * size : (number + 1) * size]

    def _batches(self) -> Iterator[tuple[memoryview, memoryview]]:
        """Keys and values, each batch only valid until the next one is asked for."""
        size, position, first = self._batch(), ctypes.create_string_buffer(max(self._key_size, 8)), True
        keys, values = self._buffers(size)
        while True:
            count = ctypes.c_uint32(size)
            start = None if first else position
            result = self._lookup_batch(start, position, keys, values, ctypes.byref(count))
            if result == -errno.ENOSPC and size < 1 << 16:  # one bucket holds more than the batch
                size *= 2
                keys, values = self._buffers(size)
                continue
            if result not in (0, -errno.ENOENT):
                raise OSError(-result, os.strerror(-result))
            yield memoryview(keys)[: count.value * self._key_size], memoryview(values)[: count.value * self._value_size]
            if result:
                return
            first = False

    def _batch(self) -> int:
        """Return how many entries are copied at a time: of large ones few, as memory for many takes longer to get than to
        fill."""
        return max(4, min(_BATCH, _BATCH_BYTES // self._value_size))

    def _buffers(self, entries: int) -> tuple[ctypes.Array[ctypes.c_char], ctypes.Array[ctypes.c_char]]:
        """For keys and values."""
        return ctypes.create_string_buffer(entries * self._key_size), ctypes.create_string_buffer(entries * self._value_size)

    # Another library than libbpf does the four calls below in its own way; each returns minus the error number.
    def _update(self, key: object, value: object) -> int:
        return int(library().bpf_map_update_elem(self.fd, key, value, 0))

    def _delete(self, key: bytes) -> int:
        return int(library().bpf_map_delete_elem(self.fd, key))

    def _lookup(self, key: bytes, value: object) -> int:
        return int(library().bpf_map_lookup_elem(self.fd, key, value))

    def _lookup_batch(self, *arguments: object) -> int:
        return int(library().bpf_map_lookup_batch(self.fd, *arguments, None))


def _pieces(memory: memoryview, size: int) -> list[bytes]:
    """The memory in pieces of so many bytes: all at once, as copying one by one takes five times as long."""
    return [piece for (piece,) in struct.iter_unpack(f"{size}s", memory)]


class BpfObject:
    """A BPF object: opened, adjusted, loaded, closed. A context manager; closing detaches nothing that has its own link.

    What is known early about an object can be used to have it loaded while other work goes on: one that is opened and adjusted
    for that, and loaded ahead, becomes the next of its name that is loaded, if all is adjusted as it was in the first.

    Programs that few need are loaded when one of them is asked for: from the same object, opened once more, with the same maps.
    """

    sessions = True
    _ahead: dict[str, BpfObject] = {}  # noqa: RUF012 - by name, those that are loaded ahead

    def __init__(self, content: bytes, name: str) -> None:
        self._library = library()
        self._name = name
        self._adjusted: dict[tuple[str, str], object] = {}
        self._sections: dict[str, tuple[int, int]] = {}  # address and size of those that were asked for
        self._loading: Thread | None = None
        self._refused = True
        self._groups: dict[str, tuple[str, int]] = {}  # of programs that aren't loaded yet, with what they are attached as
        self._late: dict[str, int] = {}  # programs of `_opened_again`
        self._opened_again: list[int] = []
        if not self._ahead:
            self._library.libbpf_set_print(_keep_message)  # anew, for libbcc takes the process's messages when it is loaded
        self._content = content  # libbpf reads it until the object is loaded
        self._handle: int | None = self._open()

    def _open(self) -> int:
        options = _OpenOptions(ctypes.sizeof(_OpenOptions), self._name.encode())
        handle = self._library.bpf_object__open_mem(self._content, len(self._content), ctypes.byref(options))
        if not handle:
            raise SsllatencyError(f"libbpf can't open the BPF object: {complaint(_messages)}. Build it again (make clean all).")
        return int(handle)

    def __enter__(self) -> BpfObject:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Frees the object, its maps and programs; may be called twice."""
        if self._handle:
            self._library.bpf_object__close(self._handle)
            self._handle = None
        while self._opened_again:
            self._library.bpf_object__close(self._opened_again.pop())

    def _program(self, name: str) -> int:
        program = self._library.bpf_object__find_program_by_name(self._handle, name.encode())
        if not program:
            raise SsllatencyError(f"the BPF object has no program {name}: build it again (make clean all).")
        return int(program)

    def _map(self, name: str) -> int:
        bpf_map = self._library.bpf_object__find_map_by_name(self._handle, name.encode())
        if not bpf_map:
            raise SsllatencyError(f"the BPF object has no map {name}: build it again (make clean all).")
        return int(bpf_map)

    def program_names(self) -> list[str]:
        """All programs of the object."""
        return list(self._programs_of(self._handle))

    def _programs_of(self, handle: int | None) -> dict[str, int]:
        programs, program = {}, self._library.bpf_object__next_program(handle, None)
        while program:
            programs[self._library.bpf_program__name(program).decode()] = int(program)
            program = self._library.bpf_object__next_program(handle, program)
        return programs

    def _maps_of(self, handle: int | None) -> Iterator[int]:
        found = self._library.bpf_object__next_map(handle, None)
        while found:
            yield int(found)
            found = self._library.bpf_object__next_map(handle, found)

    def section_of(self, name: str) -> str:
        """The section of a program: its type, and what it is attached to."""
        section: bytes = self._library.bpf_program__section_name(self._program(name))
        return section.decode()

    def has_map(self, name: str) -> bool:
        """Whether the object has a map of this name."""
        return bool(self._library.bpf_object__find_map_by_name(self._handle, name.encode()))

    def choose_program(self, name: str, *, load: bool, attach_type: int = 0, group: str = "") -> None:
        """Before loading: whether the program is loaded, and for which BPF_TRACE_* attachment. Those of a `group` are loaded
        later, once program_fd() is asked for one of them."""
        self._adjusted["program", name] = load, attach_type, group
        if load and group:
            self._groups[name] = group, attach_type
        self._library.bpf_program__set_autoload(self._program(name), load and not group)
        self._library.bpf_program__set_expected_attach_type(self._program(name), attach_type)

    def resize_map(self, name: str, entries: int) -> None:
        """Before loading: the number of entries the map is made for."""
        self._adjusted["size", name] = entries
        self._library.bpf_map__set_max_entries(self._map(name), entries)

    def reuse_map(self, name: str, descriptor: int) -> None:
        """Before loading: has the one with this descriptor stand for the map of that name."""
        self._adjusted["map", name] = descriptor
        self._library.bpf_map__reuse_fd(self._map(name), descriptor)

    def section(self, name: str, kind: type[ctypes.Structure]) -> ctypes.Structure:
        """Before loading: a data section's initial value as one structure."""
        size = ctypes.c_size_t()
        address = self._library.bpf_map__initial_value(self._map(name), ctypes.byref(size))
        if not address or size.value < ctypes.sizeof(kind):
            raise SsllatencyError(f"the BPF object's section {name} isn't the one expected: build it again (make clean all).")
        self._sections[name] = int(address), size.value
        return kind.from_address(address)

    def live_section(self, name: str, kind: type[ctypes.Structure]) -> ctypes.Structure:
        """After loading: the memory of a section or mmapable array, as the programs use it.

        libbpf itself maps sections only for skeletons before 1.5.
        """
        return kind.from_buffer(mmap.mmap(self.map_fd(name), ctypes.sizeof(kind)))

    def load_ahead(self) -> None:
        """Has a thread load it, for the next object of its name. Says nothing where the kernel refuses: the next will."""
        self._adjusted["content", ""] = self._content
        self._adjusted |= self._contents_of_sections()
        # Each of the hundreds of messages would wait for Python's lock, which the other threads have.
        self._library.libbpf_set_print(_NO_MESSAGES)
        self._ahead[self._name] = self
        self._loading = Thread(target=self._load_ahead, daemon=True)
        self._loading.start()

    def _load_ahead(self) -> None:
        self._refused = bool(self._library.bpf_object__load(self._handle))

    def _contents_of_sections(self) -> dict[tuple[str, str], object]:
        return {("section", name): ctypes.string_at(*place) for name, place in self._sections.items()}

    def _take_over(self) -> bool:
        """Becomes the object that was loaded ahead, if there is one that serves."""
        ahead = self._ahead.get(self._name)
        if ahead is None or ahead._loading is None:
            return False
        ahead._loading.join()
        del self._ahead[self._name]
        adjusted = {**self._adjusted, ("content", ""): self._content, **self._contents_of_sections()}
        serves = not ahead._refused and adjusted == ahead._adjusted
        if serves:
            self._handle, ahead._handle = ahead._handle, self._handle
        ahead.close()
        self._library.libbpf_set_print(_keep_message)
        return serves

    def load(self) -> None:
        """Creates the maps and has the verifier check the programs; SsllatencyError where the kernel refuses."""
        result = 0
        if not self._take_over():
            _messages.clear()  # those of another object, which may have been refused for another reason
            result = self._library.bpf_object__load(self._handle)
        if result:
            reason = f"{os.strerror(-result)}; {complaint(_messages)}"
            raise SsllatencyError(f"the kernel didn't load the BPF programs ({reason}): {_advice(-result)}")
        if not self._groups:
            self._content = b""

    def _load_group(self, group: str) -> None:
        """Loads the programs of a group beside what is loaded; SsllatencyError where the kernel refuses."""
        types = {name: attach_type for name, (of, attach_type) in self._groups.items() if of == group}
        handle = self._open()
        self._opened_again.append(handle)
        programs = self._programs_of(handle)
        for name, program in programs.items():
            self._library.bpf_program__set_autoload(program, name in types)
            self._library.bpf_program__set_expected_attach_type(program, types.get(name, 0))
        for loaded, opened in zip(self._maps_of(self._handle), self._maps_of(handle), strict=True):
            self._library.bpf_map__reuse_fd(opened, self._library.bpf_map__fd(loaded))
        _messages.clear()
        if result := self._library.bpf_object__load(handle):
            reason = f"{os.strerror(-result)}; {complaint(_messages)}"
            raise SsllatencyError(f"the kernel didn't load the BPF programs for {group} ({reason}): {_advice(-result)}")
        for name in types:
            self._late[name] = programs[name]
            del self._groups[name]
        if not self._groups:
            self._content = b""

    def map(self, name: str, key_size: int, value_size: int) -> Map:
        """A loaded map by its name; sizes in bytes."""
        return Map(self.map_fd(name), key_size, value_size)

    def map_fd(self, name: str) -> int:
        """The file descriptor of a loaded map."""
        return int(self._library.bpf_map__fd(self._map(name)))

    def program_fd(self, name: str) -> int:
        """The file descriptor of a program that is loaded, or of a group: SsllatencyError where the kernel refuses that."""
        if name in self._groups:
            self._load_group(self._groups[name][0])
        return int(self._library.bpf_program__fd(self._late.get(name) or self._program(name)))

    @property
    def late_programs(self) -> Sequence[str]:
        """Those of groups that have been loaded."""
        return tuple(self._late)

    def attach_by_section(self, name: str) -> LibbpfLink:
        """A program attached to what its section names, as a raw tracepoint. OSError where the kernel refuses; SsllatencyError
        where it refuses to load the group of the program."""
        self.program_fd(name)
        ctypes.set_errno(0)
        link = self._library.bpf_program__attach(self._late.get(name) or self._program(name))
        if not link:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return LibbpfLink(link)


class LibbpfLink:
    """A program attached by libbpf."""

    def __init__(self, handle: int) -> None:
        self._handle: int | None = handle

    def close(self) -> None:
        """Detaches; may be called twice."""
        if self._handle:
            library().bpf_link__destroy(self._handle)
            self._handle = None


def complaint(messages: Sequence[str]) -> str:
    """The most informative of libbpf's messages: which program the verifier refused, and why; else libbpf's last line."""
    for message in reversed(messages):
        refused = re.match(r"libbpf: prog '(\w+)': -- BEGIN PROG LOAD LOG --\n(.*)", message, re.DOTALL)
        if refused and (words := _verdict(refused[2])):
            return f"program {refused[1]}: {words}"
    lines = [message.splitlines()[0] for message in messages if message.startswith("libbpf:")]
    return lines[-1].removeprefix("libbpf: ").rstrip(".") if lines else "libbpf gave no reason"


def _verdict(listing: str) -> str:
    """The verifier's last lines, without the statistics that follow them."""
    statistics = ("-- END PROG LOAD LOG --", "processed ", "verification time ", "stack depth ")
    lines = [line.strip() for line in listing.splitlines()]
    return next((line for line in reversed(lines) if line and not line.startswith(statistics)), "")


def _advice(error: int) -> str:
    """Return what the user can do about a kernel that loads no programs, by the error's number."""
    if error in (errno.EPERM, errno.ENOMEM):
        return "`ssllatency doctor` says what is missing."
    return "please report it with the kernel's version (uname -r); meanwhile `trace --engine bpftrace` may serve."
