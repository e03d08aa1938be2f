# SPDX-License-Identifier: Apache-2.0
"""Rights that a process gives up before it parses files that strangers wrote, so that a flaw in a parser leads nowhere.

`tie` ties its life to its parent's; `limit` bounds its time and memory; `confine` takes its capabilities and the memory that it
shares with others, and leaves it the system calls of pure computation: memory, and the descriptors that it has open. Where the
kernel has no seccomp filters that much isn't had, and the rest is.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from contextlib import suppress

from ssllatency.elf.room import most_parsed
from ssllatency.forked import close_others, drop_capabilities, forbid_inspection, unmap_shared
from ssllatency.host.kernel_text import kernel_text
from ssllatency.system_calls import Answer, CallRule, limit_to, program

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_PROT_EXEC = 4

# By machine: AUDIT_ARCH_*, mmap and mprotect, and the calls that are left: read, write, close, fstat, lseek, munmap,
# brk, rt_sigaction, rt_sigprocmask, rt_sigreturn, pread64, madvise, mremap, getpid, exit, sigaltstack, gettid, futex,
# clock_gettime, gettimeofday, sched_yield, exit_group, getrandom.
_CALLS = {
    "x86_64": (
        *(0xC000003E, (9, 10)),
        (0, 1, 3, 5, 8, 11, 12, 13, 14, 15, 17, 28, 25, 39, 60, 131, 186, 202, 228, 96, 24, 231, 318),
    ),
    "aarch64": (
        *(0xC00000B7, (222, 226)),
        (63, 64, 57, 80, 62, 215, 214, 134, 135, 139, 67, 233, 216, 172, 93, 132, 178, 98, 113, 169, 124, 94, 278),
    ),
}


def tie(parent: int) -> None:
    """Has this process killed when its parent is gone, and leave no core file.

    Signals do to it what they do to a program that has no handlers; Ctrl-C, which ends a trace, must not reach it.
    """
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    _lower(resource.RLIMIT_CORE, 0)


def limit(processor_s: int) -> None:
    """Bounds this process's processor time, and the memory that it takes from now on."""
    _lower(resource.RLIMIT_CPU, processor_s, spare=1)  # so that the signal tells which bound it was
    _lower(resource.RLIMIT_AS, _address_space() + most_parsed())


def _lower(kind: int, value: int, spare: int = 0) -> None:
    hard = resource.getrlimit(kind)[1]
    most = value + spare if hard == resource.RLIM_INFINITY else min(value + spare, hard)
    resource.setrlimit(kind, (min(value, most), most))


def _address_space() -> int:
    """The bytes of address space that this process has."""
    return int(kernel_text("/proc/self/statm").split()[0]) * resource.getpagesize()


def close_all_but(*kept: int) -> None:
    """Closes all descriptors but these; the standard ones lead to /dev/null."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    close_others({0, 1, 2, *kept})


def confine(keep: int) -> None:
    """Closes all descriptors but `keep`, and gives up what only computing doesn't need. There is no way back."""
    close_all_but(keep)
    unmap_shared()
    forbid_inspection()
    ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    calls = _CALLS.get(os.uname().machine)
    if calls:
        architecture, mappings, others = calls
        drop_capabilities()
        rules = [CallRule(number, Answer.ALLOWED) for number in others]
        rules += [CallRule(number, Answer.REFUSED, 2, bits=_PROT_EXEC, otherwise=Answer.ALLOWED) for number in mappings]
        with suppress(OSError):
            limit_to(program(rules, Answer.REFUSED, architecture))
