# SPDX-License-Identifier: Apache-2.0
"""The slot that a process has in the kernel side's tables by process, as bpf/common/maps.bpf.h computes it.

Processes of one slot share a limit, or an account of hits. Where it was known who shares one, somebody who forks until a PID
fits could use up a limit of another process's, or have the cost of their own calls charged to it.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

from ssllatency import abi

SLOTS, _BITS = int(abi.ProcessSlot.PROCESS_SLOTS), int(abi.ProcessSlot.BITS)
_WORD = (1 << 64) - 1


class SlotCounts(ctypes.Structure):
    """A map's memory: what the processes of each slot have of something."""

    _fields_ = (("of", ctypes.c_uint64 * SLOTS),)


@cache
def secret() -> int:
    """The odd number of this run, which its objects have in common."""
    return int.from_bytes(os.urandom(8), "little") | 1  # secrets would bring in four modules


def slot_of(pid: int) -> int:
    """The slot of the process."""
    block, place = divmod(pid, SLOTS)
    return place ^ (block * secret() & _WORD) >> (64 - _BITS)
