# SPDX-License-Identifier: Apache-2.0
"""Running calls in slots, as bpf/common/slots.bpf.h keeps them: reads the table in place, and frees the slots of processes that
have ended, or that run another program now."""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Callable, Iterator, Mapping

from ssllatency import abi
from ssllatency.engines.bpf.executed import NOT_KNOWN, Executed
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
        self._over: set[tuple[int, int, int]] = set()  # slots with their tags and times

    def used(self) -> list[tuple[int, int]]:
        """The tags of the slots in use, each after its slot's number. A slot that was used keeps all but its tag, so that most
        have something in them: the same byte of hundreds of tags is looked at together."""
        memory, size = memory_of(self._memory), self._size
        return [
            (first + number, tag)
            for first in range(0, len(memory) // size, _AT_A_TIME)
            for number, tag in _tags(memory[first * size : (first + _AT_A_TIME) * size], size)
        ]

    def free(self, number: int, tag: int, program_ns: int = 0) -> bool:
        """Frees the slot of a call that isn't seen to end any more, unless it is another one's by now, which may be one at the
        same place of the program that its process executed at `program_ns`. Whether it did."""
        slot = self._memory.slots[number]
        if slot.tag != tag or (program_ns and not 0 < slot.began_ns < program_ns):
            return False
        slot.tag = 0
        return True

    def free_ended(self, alive: Callable[[int], bool], executed: Executed = NOT_KNOWN) -> tuple[int, int]:
        """Frees the slots of processes that aren't alive, and of calls from before their process `executed` its program; how
        many remain in use, and how many it freed. Only slots that keep when their calls began may be asked for the latter."""
        used = self.used()
        pids = {process_of(tag) for _, tag in used}
        gone = {pid for pid in pids if not alive(pid)}
        programs_ns = {pid: at_ns for pid in pids - gone if (at_ns := executed.at_ns(pid))}
        over = self._over_still(used, programs_ns)
        ended = [(number, tag) for number, tag in used if process_of(tag) in gone or number in over]
        freed = sum(self.free(number, tag, programs_ns.get(process_of(tag), 0)) for number, tag in ended)
        return len(used) - freed, freed

    def _over_still(self, used: list[tuple[int, int]], programs_ns: Mapping[int, int]) -> set[int]:
        """The slots of calls that began before those times of their processes, if they were found the last time, too: a slot
        that is just being taken has the time of another call in it yet."""
        over = {
            (number, tag, began_ns)
            for number, tag in used
            if (program_ns := programs_ns.get(process_of(tag), 0))
            and 0 < (began_ns := self._memory.slots[number].began_ns) < program_ns
        }
        still, self._over = over & self._over, over - self._over
        return {number for number, _, _ in still}
