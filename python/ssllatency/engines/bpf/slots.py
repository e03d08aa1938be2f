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

    def free(self, number: int, tag: int) -> None:
        """Frees the slot of a call that isn't seen to end any more, unless it is another one's by now."""
        if self._memory.slots[number].tag == tag:
            self._memory.slots[number].tag = 0

    def free_ended(self, alive: Callable[[int], bool]) -> tuple[int, int]:
        """Frees the slots of processes that aren't alive; how many remain in use, and how many it freed."""
        used = self.used()
        gone = {pid for pid in {process_of(tag) for _, tag in used} if not alive(pid)}
        ended = [(number, tag) for number, tag in used if process_of(tag) in gone]
        for number, tag in ended:
            self.free(number, tag)
        return len(used) - len(ended), len(ended)
