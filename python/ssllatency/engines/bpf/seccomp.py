# SPDX-License-Identifier: Apache-2.0
"""Whether this kernel has seccomp filters decide about the system call by which return probes return on x86-64.

Since Linux 6.11 a return probe's trampoline makes a system call (uretprobe, 335), which no filter written before knows. Since
6.13.3 filters aren't asked about it (commit cf6cb56ef244), and in stable kernels with the fix: the version doesn't tell. So a
process of its own puts itself under a filter and makes that call. Run as a program, this module is that process.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct
import sys

_URETPROBE = 335
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2  # prctl(2)
_LOAD_NUMBER, _EQUAL, _RETURN = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM  # SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO
_NOT_ASKED = 3
_TIMEOUT_S = 5.0


def decides_on_return_probes() -> bool:
    """Whether it does; True too where that can't be found out."""
    import subprocess  # takes a while to bring in, and most kernels don't call for it

    if os.uname().machine != "x86_64":
        return False
    try:
        done = subprocess.run([sys.executable, "-S", "-E", __file__], capture_output=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return True
    return done.returncode != _NOT_ASKED


def _refuse_the_call() -> bool:
    """Puts this process under a filter that refuses the call; whether the kernel allowed that."""
    steps = [(_LOAD_NUMBER, 0, 0, 0), (_EQUAL, 0, 1, _URETPROBE), (_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code)), 16)
    libc = ctypes.CDLL(None)
    return bool(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0 and libc.prctl(_SECCOMP, _FILTER, program, 0, 0) == 0)


def _main() -> int:
    """Made from anywhere but the trampoline, the call is a SIGILL where no filter is asked."""
    illegal: list[int] = []
    signal.signal(signal.SIGILL, lambda number, _: illegal.append(number))
    if not _refuse_the_call():
        return 0
    ctypes.CDLL(None).syscall(_URETPROBE)
    return _NOT_ASKED if illegal else 0


if __name__ == "__main__":
    sys.exit(_main())
