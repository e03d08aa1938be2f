# SPDX-License-Identifier: Apache-2.0
"""Whether this kernel has seccomp filters decide about the system call by which return probes return on x86-64.

Since Linux 6.11 a return probe's trampoline makes a system call (uretprobe, 335), which no filter written before knows. Since
6.13.3 filters aren't asked about it (commit cf6cb56ef244), and in stable kernels with the fix: the version doesn't tell. So a
process of its own puts itself under a filter and makes that call.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

import ssllatency
from ssllatency.system_calls import Answer, CallRule, limit_to, program

_URETPROBE = 335
_X86_64 = 0xC000003E  # AUDIT_ARCH_X86_64
_NOT_ASKED = 3
_PROCESS = f"import sys; sys.path.insert(0, sys.argv[1]); from {__name__} import ask; sys.exit(ask())"
_TIMEOUT_S = 5.0


def decides_on_return_probes() -> bool:
    """Whether it does; True too where that can't be found out."""
    import subprocess  # takes a while to bring in, and most kernels don't call for it

    if os.uname().machine != "x86_64":
        return False
    try:
        command = [sys.executable, "-S", "-E", "-c", _PROCESS, str(Path(ssllatency.__file__).parents[1])]
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return True
    return done.returncode != _NOT_ASKED


def ask() -> int:
    """The exit status of the process of its own. Made from anywhere but the trampoline, the call is a SIGILL where no filter is
    asked."""
    illegal: list[int] = []
    signal.signal(signal.SIGILL, lambda number, _: illegal.append(number))
    try:
        limit_to(program([CallRule(_URETPROBE, Answer.REFUSED)], Answer.ALLOWED, _X86_64))
    except OSError:
        return 0
    ctypes.CDLL(None).syscall(_URETPROBE)
    return _NOT_ASKED if illegal else 0
