# SPDX-License-Identifier: Apache-2.0
"""Descriptors, memory and rights of a tracer's that a process which it has forked doesn't need, and gives up."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import struct
from collections.abc import Collection

from ssllatency.host.kernel_text import kernel_lines

_PR_SET_DUMPABLE = 4
_CAPABILITY_VERSION_3 = 0x20080522
_CAPSET = {"x86_64": 126, "aarch64": 91}


def close_others(keep: Collection[int]) -> None:
    """Close all descriptors but these."""
    first = 0
    for descriptor in sorted(keep):
        if first < descriptor:  # an empty range would be that of all
            os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def unmap_shared() -> None:
    """Unmap what this process could write to for others to see: the memory in which the BPF programs count, and that by which a
    ring's reader says how far it has read. Nothing in this process may use it. Python's collector rests from now on."""
    gc.disable()  # else what belonged to unmapped memory might be freed, and unmap what is there by now
    unmap = ctypes.CDLL(None).munmap
    unmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    for line in kernel_lines("/proc/self/maps"):
        addresses, permissions = line.split(maxsplit=2)[:2]
        if permissions[1] == "w" and permissions[3] == "s":
            start, end = (int(address, 16) for address in addresses.split("-"))
            unmap(start, end - start)


def forbid_inspection() -> None:
    """Keep processes without CAP_SYS_PTRACE from reading and changing this one."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def drop_capabilities() -> None:
    """Give up all capabilities of this process, where the machine's system calls are known."""
    number = _CAPSET.get(os.uname().machine)
    if number is not None:
        ctypes.CDLL(None).syscall(number, struct.pack("<Ii", _CAPABILITY_VERSION_3, 0), bytes(24))
