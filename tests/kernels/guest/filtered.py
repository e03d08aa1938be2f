# SPDX-License-Identifier: Apache-2.0
"""Runs a command under a seccomp filter that kills at the system calls uretprobe (335) and uprobe (336) of x86-64, as a filter
does that was written before they were there and kills at what it doesn't know."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct
import sys

_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2  # prctl(2)
_LOAD_NUMBER, _EQUAL, _RETURN = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_UNKNOWN = (335, 336)
_ENOSYS_STATUS, _OTHER_STATUS = 50, 51


def install() -> None:
    """Puts this process, and what it executes, under the filter."""
    first, second = _UNKNOWN
    steps = [
        (_LOAD_NUMBER, 0, 0, 0),
        (_EQUAL, 2, 0, first),
        (_EQUAL, 1, 0, second),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _KILL),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code)), 16)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if libc.prctl(_SECCOMP, _FILTER, program, 0, 0):
        raise OSError(ctypes.get_errno(), "no seccomp filter")


def unknown_call_ends_in(number: int) -> str:
    """How a process under the filter ends that makes this system call: the signal that kills it, "ENOSYS", or "returned"."""
    pid = os.fork()
    if pid == 0:
        install()
        failed = ctypes.CDLL(None, use_errno=True).syscall(number) < 0
        os._exit(_ENOSYS_STATUS if failed and ctypes.get_errno() == errno.ENOSYS else _OTHER_STATUS)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return "ENOSYS" if os.WEXITSTATUS(status) == _ENOSYS_STATUS else "returned"


if __name__ == "__main__":
    install()
    os.execvp(sys.argv[1], sys.argv[1:])
