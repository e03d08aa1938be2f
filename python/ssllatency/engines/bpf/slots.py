# SPDX-License-Identifier: Apache-2.0
"""Running calls in slots, as bpf/common/slots.bpf.h keeps them: reads the table in place, and frees the slots of processes that
have ended."""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Callable, Iterator

from ssllatency import abi
from ssllatency.engines.bpf.words import memory_of

_TAG = struct.Struct("<Q")
_FILLED = re.compile(rb"[^\0]")
_AT_A_TIME = 512  # slots
_TGID_MASK, _OPERATION_MASK = (1 << 22) - 1, 0xFF


def process_of(tag: int) -> int:
    """The process of a slot in use."""
    return tag >> abi.Tag.TGID & _TGID_MASK


def operation_of(tag: int) -> int:
    """The operation of a slot in use."""
    return tag >> abi.Tag.OPERATION & _OPERATION_MASK


def _tags(memory: memoryview, size: int) -> Iterator[tuple[int, int]]:
    """The tags that aren't 0 of slots of this size, each after its slot's number."""
    slots = bytes(memory)
    if slots == bytes(len(slots)):
        return
    empty = bytes(len(slots) // size)
    planes = (slots[place::size] for place in range(_TAG.size))
    for number in sorted({filled.start() for plane in planes if plane != empty for filled in _FILLED.finditer(plane)}):
        yield number, *_TAG.unpack_from(slots, number * size)


class Slots:
    """The table in `memory`, whose member `slots` has them, each with its tag as the first word."""

    def __init__(self, memory: ctypes.Structure) -> None:
        self._memory = memory
        self._size = ctypes.sizeof(memory.slots[0])

    def used(self) -> list[tuple[int, int]]:
        """The tags of the slots in use, each after its slot's number. A slot that was used keeps all but its tag, so that most
        have something in them: the same byte of hundreds of tags is looked at together."""
        memory, size = memory_of(self._memory), self._size
        return [
            (first + number, tag)
            for first in range(0, len(memory) // size, _AT_A_TIME)
            for number, tag in _tags(memory[first * size : (first + _AT_A_TIME) * size], size)
        ]

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
