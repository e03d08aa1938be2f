# SPDX-License-Identifier: Apache-2.0
"""The hits of probes, as the programs count them: by processor, by the process's slot, and by what the kernel does at each."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import field

from ssllatency import abi
from ssllatency.data_class import dataclass
from ssllatency.engines.bpf.loadable import Loadable
from ssllatency.engines.bpf.process_slots import SLOTS
from ssllatency.engines.bpf.words import filled_words, memory_of
from ssllatency.host.processors import processors
from ssllatency.probes.costs import WORK_NS, HitCosts

Counts = tuple[tuple[int, int, int, int], ...]  # hits of a table: processor, slot, kind, and how many

_WORDS_OF_CORE = SLOTS * int(abi.Hit.HITS)


def possible_cores() -> int:
    """One more than the highest number that a processor of this machine can have."""
    return max(processors("possible")) + 1


@dataclass
class Hits:
    """Counts by kind (enum ssll_hit): by slot (see slot_of), and by processor."""

    by_slot: dict[int, list[int]] = field(default_factory=dict)
    by_core: dict[int, list[int]] = field(default_factory=dict)

    def add(self, core: int, slot: int, kind: int, count: int) -> None:
        """Adds so many hits."""
        for counts in (self.by_slot.setdefault(slot, [0] * abi.Hit.HITS), self.by_core.setdefault(core, [0] * abi.Hit.HITS)):
            counts[kind] += count

    @classmethod
    def of(cls, tables: Iterable[Counts]) -> Hits:
        """Those of all tables."""
        hits = cls()
        for counts in tables:
            for core, slot, kind, count in counts:
                hits.add(core, slot, kind, count)
        return hits

    def of_slots(self, slots: Iterable[int]) -> list[int]:
        """The counts of these slots, added up."""
        return added(self.by_slot[slot] for slot in slots if slot in self.by_slot)


def added(counts: Iterable[Sequence[int]]) -> list[int]:
    """Counts by kind, added up."""
    return [sum(column) for column in zip([0] * abi.Hit.HITS, *counts, strict=True)]


def cost_ns(counts: Sequence[int], costs: HitCosts) -> int:
    """The time that the kernel takes to get to the programs and back at so many hits."""
    emulated, single_stepped, optimised, back = counts
    return (
        emulated * costs.emulated + single_stepped * costs.single_stepped + optimised * costs.optimised + back * costs.returning
    )


def costs_amid(counts: Sequence[int], costs: HitCosts, cpu_ns: int) -> HitCosts:
    """The time that hits take between which the processes did other work; `cpu_ns` is all their processor time meanwhile. Where
    that isn't known, 0, there was enough of it for all that other work adds to a hit."""
    *at_sites, _ = counts
    number = sum(at_sites)
    if not number:
        return costs
    return costs.amid(max(0, cpu_ns - cost_ns(counts, costs)) / number if cpu_ns else WORK_NS)


def make_room(opened: Loadable) -> None:
    """Before loading: sizes the object's map for the processors that this machine can have."""
    opened.resize_map("hits", possible_cores() * SLOTS)


class HitTable:
    """The map of one loaded object."""

    def __init__(self, loaded: Loadable) -> None:
        cores = possible_cores()
        words = ctypes.c_uint64 * (cores * _WORDS_OF_CORE)
        memory = type("HitMemory", (ctypes.Structure,), {"_fields_": (("words", words),)})
        self._memory = memory_of(loaded.live_section("hits", memory))
        self._seen = bytearray()
        self._counts: Counts = ()

    def read(self) -> Counts:
        """Return the counts so far; the same object as long as nothing more was."""
        if self._seen != self._memory:
            self._seen = bytearray(self._memory)
            words = ((*divmod(number, _WORDS_OF_CORE), count) for number, count in filled_words(bytes(self._seen)))
            self._counts = tuple((core, *divmod(place, int(abi.Hit.HITS)), count) for core, place, count in words)
        return self._counts
