# SPDX-License-Identifier: Apache-2.0
"""Running calls in slots, as bpf/common/slots.bpf.h keeps them: reads the table in place, and frees the slots of processes that
have ended."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from ssllatency import abi
from ssllatency.engines.bpf.words import filled_words

_TGID_MASK, _OPERATION_MASK = (1 << 22) - 1, 0xFF


def process_of(tag: int) -> int:
    """The process of a slot in use."""
    return tag >> abi.Tag.TGID & _TGID_MASK


def operation_of(tag: int) -> int:
    """The operation of a slot in use."""
    return tag >> abi.Tag.OPERATION & _OPERATION_MASK


class Slots:
    """The table in `memory`, whose member `slots` has them, each with its tag as the first word."""

    def __init__(self, memory: ctypes.Structure) -> None:
        self._memory = memory
        self._words = ctypes.sizeof(memory.slots[0]) // 8

    def used(self) -> list[tuple[int, int]]:
        """The tags of the slots in use, each after its slot's number."""
        words = filled_words(self._memory)
        return [(place // self._words, word) for place, word in words if place % self._words == 0]

    def free(self, number: int) -> None:
        """Frees a slot, whose call isn't seen to end any more."""
        self._memory.slots[number].tag = 0

    def free_ended(self, alive: Callable[[int], bool]) -> tuple[int, int]:
        """Frees the slots of processes that aren't alive; how many remain in use, and how many it freed."""
        used = [(number, process_of(tag)) for number, tag in self.used()]
        gone = {pid for pid in {pid for _, pid in used} if not alive(pid)}
        ended = [number for number, pid in used if pid in gone]
        for number in ended:
            self.free(number)
        return len(used) - len(ended), len(ended)
