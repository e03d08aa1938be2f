# SPDX-License-Identifier: Apache-2.0
"""Ways of attaching that the running kernel has, asked of the kernel itself, and uprobe_multi links through the bpf system
call."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Sequence
from enum import StrEnum
from functools import cache

from ssllatency.c_library import c_library

BPF_SYSCALL = {"x86_64": 321, "aarch64": 280}
_BPF_PROG_LOAD, _BPF_LINK_CREATE = 5, 28
_BPF_PROG_TYPE_KPROBE = 2
TRACE_UPROBE_MULTI, TRACE_UPROBE_SESSION = 48, 57  # enum bpf_attach_type
_RETURN = 1  # BPF_F_UPROBE_MULTI_RETURN
_ATTRIBUTE_SIZE = 128
_RETURN_ZERO = struct.pack("<BBhiBBhi", 0xB7, 0, 0, 0, 0x95, 0, 0, 0)  # r0 = 0; exit


class Method(StrEnum):
    """A way of attaching probes. PERF: a perf event each, since Linux 5.15 with cookies. MULTI: many in a link, since 6.6.
    SESSION: a link for entry and return together, since 6.13."""

    PERF = "perf"
    MULTI = "multi"
    SESSION = "session"


# The Linux version that each came with, for the message on kernels without it.
SINCE = {Method.PERF: "5.15", Method.MULTI: "6.6", Method.SESSION: "6.13"}


class Link:
    """A uprobe_multi link; closing it detaches its probes."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def close(self) -> None:
        """Detaches; may be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def bpf(command: int, attributes: bytes) -> int:
    """The bpf system call: its result, or minus the error number."""
    number = BPF_SYSCALL.get(os.uname().machine)
    if number is None:
        return -errno.ENOSYS
    buffer = ctypes.create_string_buffer(attributes.ljust(_ATTRIBUTE_SIZE, b"\0"), _ATTRIBUTE_SIZE)
    result = c_library().syscall(number, command, buffer, _ATTRIBUTE_SIZE)
    return int(result) if result >= 0 else -ctypes.get_errno()


def _link_attributes(
    program: int, attach_type: int, path: int, arrays: tuple[int, int, int], count: int, flags: int, pid: int
) -> bytes:
    """union bpf_attr of BPF_LINK_CREATE for uprobe_multi (linux/bpf.h): arrays are offsets, reference counters, cookies."""
    return struct.pack("<IIII4QIIi", program, 0, attach_type, 0, path, *arrays, count, flags, pid)


def create_link(
    program: int, path: str, sites: Sequence[tuple[int, int]], *, pid: int = 0, at_return: bool = False, session: bool = False
) -> Link:
    """Attaches `program` at all `sites`, (file offset, cookie) each, of the file at `path`.

    `pid` 0 is every process. All sites or none are attached; OSError where the kernel refuses one.
    """
    offsets = (ctypes.c_uint64 * len(sites))(*(offset for offset, _ in sites))
    cookies = (ctypes.c_uint64 * len(sites))(*(cookie for _, cookie in sites))
    name = ctypes.create_string_buffer(path.encode())
    attributes = _link_attributes(
        program,
        TRACE_UPROBE_SESSION if session else TRACE_UPROBE_MULTI,
        ctypes.addressof(name),
        (ctypes.addressof(offsets), 0, ctypes.addressof(cookies)),
        len(sites),
        _RETURN if at_return else 0,
        pid,
    )
    fd = bpf(_BPF_LINK_CREATE, attributes)
    if fd < 0:
        raise OSError(-fd, os.strerror(-fd))
    return Link(fd)


def load_empty_program(attach_type: int) -> int:
    """The descriptor of a uprobe program that does nothing. OSError where the kernel refuses it."""
    program = _load_empty_program(attach_type)
    if program < 0:
        raise OSError(-program, os.strerror(-program))
    return program


def _load_empty_program(attach_type: int) -> int:
    code = ctypes.create_string_buffer(_RETURN_ZERO, len(_RETURN_ZERO))
    name = ctypes.create_string_buffer(b"GPL")
    instructions, no_log = len(_RETURN_ZERO) // 8, (0, 0, 0, 0, 0)
    pointers = (ctypes.addressof(code), ctypes.addressof(name))
    layout = "<IIQQIIQII16sII"
    head = struct.pack(layout, _BPF_PROG_TYPE_KPROBE, instructions, *pointers, *no_log, b"ssll_ask", 0, attach_type)
    return bpf(_BPF_PROG_LOAD, head)


def _answer(attach_type: int, pid: int) -> int:
    """The kernel's error for a link on "/", which is no regular file: EBADF where it knows the attach type."""
    program = _load_empty_program(attach_type)
    if program < 0:
        return -program
    offset = ctypes.c_uint64(0)
    path = ctypes.create_string_buffer(b"/")
    arrays = (ctypes.addressof(offset), 0, 0)
    result = bpf(_BPF_LINK_CREATE, _link_attributes(program, attach_type, ctypes.addressof(path), arrays, 1, 0, pid))
    os.close(program)
    if result >= 0:
        os.close(result)
    return -result


@cache
def _answer_to(method: Method) -> int:
    return _answer(TRACE_UPROBE_SESSION if method is Method.SESSION else TRACE_UPROBE_MULTI, 0)


def best_method() -> Method:
    """The newest way of attaching that this kernel has."""
    newest_first = (Method.SESSION, Method.MULTI)
    return next((method for method in newest_first if _answer_to(method) == errno.EBADF), Method.PERF)


def lacks(method: Method) -> bool:
    """Whether this kernel lacks this way of attaching; False where the user isn't allowed to ask."""
    return method is not Method.PERF and _answer_to(method) not in (errno.EBADF, errno.EPERM, errno.EACCES)


@cache
def filters_whole_processes() -> bool:
    """Whether a uprobe_multi link with a pid covers all threads of the process; else it covers the thread of that number only.

    Since Linux 6.10 (commit 46ba0e49b642), and in stable kernels with the fix: those refuse a negative pid before they look at
    the path.
    """
    return _answer(TRACE_UPROBE_MULTI, -1) == errno.EINVAL
