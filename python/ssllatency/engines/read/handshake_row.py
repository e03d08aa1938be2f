# SPDX-License-Identifier: Apache-2.0
"""A row of handshakes, in the memory that the programs count in. What has changed since it was read last is read again, part by
part, and nothing else: of a row's 130 KB few are ever filled, and most rows are as they were. Of a part's buckets, the lines
of memory that hold something are copied: it is the way from memory that takes time.

A part is read from its end to its beginning, against the order in which the programs count: where that happens meanwhile, the
end is another one the next time, and the part is read again. Whether it did is told by two numbers, of what was begun to be
counted and of what was counted: where they are the same nobody has to look whether the parts add up.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from dataclasses import replace

from ssllatency import abi
from ssllatency.engines.bpf.ordering import keep_order
from ssllatency.engines.read.collect import Marks
from ssllatency.engines.read.names import ENDINGS
from ssllatency.model.arithmetic.handshake_sums import group_identity
from ssllatency.model.handshakes import Fact, Group, Label, LabelValue, Part, Times
from ssllatency.model.histogram import FIRST_BUCKET
from ssllatency.model.times_on_demand import PartsOnDemand, RawTimes

_WORD = 8  # bytes of a count
_BUCKETS_SIZE = abi.Times.underflow.offset  # the buckets come first
_LINE = int(abi.Geometry.LINE)
_LINE_SIZE = _LINE * _WORD
_AFTER_BUCKETS = struct.Struct("<3Q32sQ")  # underflow, overflow, total, extremes, lines
_EXTREMES = struct.Struct("<4Q")  # the two greatest, and the two least
_PARTS = [
    (number, part, number * (_BUCKETS_SIZE + _AFTER_BUCKETS.size))
    for number, part in sorted((abi.Part[part.value.upper()], part) for part in Part)
]
_IN_ORDER = tuple(Part)
# What is behind the buckets of each part, all at once: a tenth of what it takes one by one.
_ENDS = struct.Struct("<" + f"{_BUCKETS_SIZE}x{_AFTER_BUCKETS.size}s" * len(_PARTS))
_NO_ENDS = (bytes(_AFTER_BUCKETS.size),) * len(_PARTS)
_NUMBER, _BEGUN_AT, _CHANGES_AT = struct.Struct("<Q"), abi.HandshakeRow.begun.offset, abi.HandshakeRow.changes.offset
_FACTS = {abi.Fact[fact.name]: fact for fact in Fact}
Extremes = bytes  # of _EXTREMES
_COUNTS_AT = abi.HandshakeRow.resumed.offset  # and they come last
_COUNTS = struct.Struct(f"<{(ctypes.sizeof(abi.HandshakeRow) - _COUNTS_AT) // _WORD}Q")


class HandshakeRowReader:
    """Reads the row of a key. `parts`: those that occurred, each with its number and its extremes, as marks_of() takes
    them; `counts`: how many were resumed, and of so many of which that is known. `labels` belongs to who reads the rows."""

    def __init__(self, raw_key: bytes) -> None:
        self.key = abi.Labels.from_buffer_copy(raw_key)
        self.process: int = self.key.values[abi.Label.PROCESS]
        self.is_other = bool(self.key.known >> abi.Label.OTHER & 1)
        self.labels: tuple[str, Mapping[Label, LabelValue]] | None = None  # after the process's name
        self.parts: dict[Part, tuple[abi.Part, Extremes, RawTimes]] = {}
        self.counts = 0, 0
        self.facts: dict[Fact, int] = {}
        self._memory: bytes | memoryview = b""
        self._changes = -1
        self._is_settled = False  # whether nothing was being counted while it was read last
        self._ends: tuple[bytes, ...] = _NO_ENDS  # of each part: what is behind its buckets
        self._group: Group | None = None
        self._identity: tuple[Mapping[Label, LabelValue], tuple[object, ...]] | None = None  # after the labels it is made of

    def look(self, memory: bytes | memoryview) -> None:
        """Reads what has changed since the last time, or was changing by then. `memory` is the same object as long as it is the
        same row's."""
        (changes,) = _NUMBER.unpack_from(memory, _CHANGES_AT)  # before the rest, which may be ahead of it
        if memory is not self._memory:
            self._memory, self._ends, self.parts, self._group = memory, _NO_ENDS, {}, None
        elif changes == self._changes and self.is_whole:
            return
        self._changes = changes
        keep_order()
        if not self._is_settled:
            self._ends = _NO_ENDS  # what is behind buckets may have been seen before these
        before = self.counts, self.facts
        self._read_parts(memory)
        resumed, known, *facts = _COUNTS.unpack_from(memory, _COUNTS_AT)
        self.counts = resumed, known
        self.facts = {fact: facts[number] for number, fact in _FACTS.items() if facts[number]}
        keep_order()
        self._is_settled = _NUMBER.unpack_from(memory, _BEGUN_AT) == (changes,)
        if before != (self.counts, self.facts):
            self._group = None

    @property
    def is_whole(self) -> bool:
        """Whether all that was made of the row is of the same handshakes."""
        return self._group is not None and (self._is_settled or self._group.adds_up)

    def _read_parts(self, memory: bytes | memoryview) -> None:
        ends = _ENDS.unpack_from(memory)  # before the buckets
        if ends == self._ends:
            return
        for (number, part, start), end, before in zip(_PARTS, ends, self._ends, strict=True):
            if end != before:
                underflow, overflow, total_ns, extremes, lines = _AFTER_BUCKETS.unpack(end)
                packed, first = _buckets(memory, start, lines)
                if packed or underflow or overflow:
                    self.parts[part] = number, extremes, (total_ns, (packed, first, underflow, overflow))
        self._ends, self._group = ends, None

    def group(self, labels: Mapping[Label, LabelValue], extremes: Mapping[Part, tuple[int | None, int | None]]) -> Group:
        """The row as a group, with extremes of all its parts or none; the same object as long as nothing of it is another."""
        before = self._group
        if (
            before
            and before.labels == labels
            and all((before.parts[part].min_ns, before.parts[part].max_ns) == found for part, found in extremes.items())
        ):
            return before
        parts: Mapping[Part, Times] = PartsOnDemand({part: self.parts[part][2] for part in _IN_ORDER if part in self.parts})
        if extremes:
            parts = {part: replace(times, min_ns=extremes[part][0], max_ns=extremes[part][1]) for part, times in parts.items()}
        self._group = Group(labels, ENDINGS[abi.Ending(self.key.ending)], parts, self.is_other, *self.counts, self.facts)
        return self._group

    def identity(self, group: Group) -> tuple[object, ...]:
        """The key by which this group, which is the row's, is told apart."""
        if self._identity is None or self._identity[0] is not group.labels:
            self._identity = group.labels, group_identity(group)
        return self._identity[1]


def marks_of(extremes: Extremes) -> Marks:
    """The two greatest and the two least as they are kept elsewhere."""
    words = _EXTREMES.unpack(extremes)
    return Marks(words[2:], words[:2])


def _buckets(memory: bytes | memoryview, start: int, lines: int) -> tuple[int, int]:
    """The counts of the buckets that begin at `start` as one number, from the first that isn't empty on, and which that is. No
    line holds anything but those of `lines`."""
    if not lines:
        return 0, FIRST_BUCKET
    first = (lines & -lines).bit_length() - 1
    words = bytes(memory[start + first * _LINE_SIZE : start + lines.bit_length() * _LINE_SIZE])
    packed = int.from_bytes(words, "little")
    if not packed:
        return 0, FIRST_BUCKET  # the bits are set before anything is counted
    empty = (len(words) - len(words.lstrip(b"\0"))) // _WORD
    return packed >> 8 * _WORD * empty, FIRST_BUCKET + first * _LINE + empty
