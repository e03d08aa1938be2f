# SPDX-License-Identifier: Apache-2.0
"""Rows that are read in place while the programs count in them: whenever that is, in the end all that was counted is read."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from ssllatency import abi
from ssllatency.engines.bpf.words import memory_of
from ssllatency.engines.read.handshake_row import HandshakeRowReader
from ssllatency.model.handshakes import Group, Part, Times
from ssllatency.model.histogram import FIRST_BUCKET, ExponentialHistogram, counted_bucket

KEY = bytes(abi.Labels())
PARTS = [Part.WALL, Part.CALLS, Part.REST, Part.PRIVATE_KEY, Part.ON_CPU]


class Kernel:
    """A row, and what was counted in it."""

    def __init__(self) -> None:
        self.row = abi.HandshakeRow()
        self.memory = memory_of(self.row)
        self.counted: dict[Part, list[int]] = {}

    def count(self, durations_ns: dict[Part, int]) -> Iterator[None]:
        """Counts a handshake, as add_times() of bpf/handshakes/tables.bpf.h does; stops after each word."""
        self.row.begun += 1
        yield
        for part, duration_ns in durations_ns.items():
            times = self.row.parts[abi.Part[part.value.upper()]]
            times.maximum[0] = max(times.maximum[0], duration_ns)
            yield
            bucket = counted_bucket(duration_ns) - FIRST_BUCKET
            if bucket < 0:
                times.underflow += 1
            elif bucket >= abi.Geometry.BUCKETS:
                times.overflow += 1
            else:
                times.lines |= 1 << bucket // abi.Geometry.LINE
                yield
                times.exponential[bucket] += 1
            yield
            times.total_ns += duration_ns
            self.counted.setdefault(part, []).append(duration_ns)
            yield
        self.row.facts[abi.Fact.SOCKET] += 1
        yield
        self.row.changes += 1

    def expected(self) -> dict[Part, Times]:
        return {
            part: Times(sum(values), None, None, ExponentialHistogram.from_values(values))
            for part, values in self.counted.items()
        }


def handshake(chance: random.Random) -> dict[Part, int]:
    ns = [0, 0, 70_000, chance.randrange(10 ** chance.randrange(3, 10)), 10**11]
    private, rest = chance.choice(ns), chance.choice(ns)
    times = {Part.WALL: private + rest, Part.CALLS: private + rest, Part.REST: rest}
    return {**times, **({Part.PRIVATE_KEY: private} if private else {}), **({Part.ON_CPU: 5} if chance.random() < 0.3 else {})}


def group_of(row: HandshakeRowReader) -> Group:
    return row.group({}, {})


@pytest.mark.parametrize("seed", range(5))
def test_all_that_was_counted_is_read_whenever_that_is(seed: int) -> None:
    chance, kernel, row = random.Random(seed), Kernel(), HandshakeRowReader(KEY)
    for _ in range(60):
        for _ in kernel.count(handshake(chance)):
            if chance.random() < 0.2:
                row.look(kernel.memory)
                if Part.WALL in row.parts:
                    group_of(row)
        if chance.random() < 0.5:
            row.look(kernel.memory)
            assert dict(group_of(row).parts) == kernel.expected()
            assert group_of(row).adds_up
            assert row.is_whole
            assert row.facts == dict.fromkeys(row.facts, len(kernel.counted[Part.WALL]))


@pytest.mark.parametrize("seed", range(5))
def test_what_is_whole_adds_up_whenever_it_was_read(seed: int) -> None:
    chance, kernel, row = random.Random(seed), Kernel(), HandshakeRowReader(KEY)
    told = set()
    for _ in range(60):
        for _ in kernel.count(handshake(chance)):
            row.look(kernel.memory)
            if Part.WALL in row.parts:
                assert group_of(row).adds_up or not row.is_whole
                told.add(row.is_whole)
    assert told == {False, True}


def test_a_row_that_was_read_while_nothing_was_counted_is_not_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, row = Kernel(), HandshakeRowReader(KEY)
    for _ in kernel.count({Part.WALL: 9, Part.CALLS: 9, Part.REST: 9}):
        pass
    row.look(kernel.memory)
    monkeypatch.setattr(Group, "adds_up", property(lambda _: pytest.fail("it was added up")))
    assert group_of(row)
    assert row.is_whole


def test_a_row_in_which_nothing_was_counted_is_the_same_group_again() -> None:
    kernel, row = Kernel(), HandshakeRowReader(KEY)
    for _ in kernel.count({Part.WALL: 9, Part.CALLS: 9, Part.REST: 9}):
        pass
    row.look(kernel.memory)
    before = group_of(row)
    row.look(kernel.memory)
    assert group_of(row) is before
    kernel.row.parts[abi.Part.WALL].total_ns += 1  # not looked at, as no handshake is known to have been added
    row.look(kernel.memory)
    assert group_of(row) is before


def test_parts_that_nothing_was_added_to_are_not_read_again() -> None:
    kernel, row = Kernel(), HandshakeRowReader(KEY)
    for times in (
        {Part.WALL: 9, Part.CALLS: 9, Part.REST: 4, Part.PRIVATE_KEY: 5},
        {Part.WALL: 7, Part.CALLS: 7, Part.REST: 7},
    ):
        for _ in kernel.count(times):
            pass
        before = dict(row.parts)
        row.look(kernel.memory)
    assert row.parts[Part.PRIVATE_KEY] is before[Part.PRIVATE_KEY]
    assert row.parts[Part.WALL] is not before[Part.WALL]


def test_a_total_that_was_seen_before_its_bucket_is_read_again() -> None:
    """As a processor may show another one what it has written in another order."""
    kernel, row = Kernel(), HandshakeRowReader(KEY)
    whole = {Part.WALL: 70_000, Part.CALLS: 70_000, Part.REST: 70_000}
    for _ in kernel.count(whole):
        pass
    kernel.row.begun += 1
    parts = [kernel.row.parts[abi.Part[part.value.upper()]] for part in whole]
    for times in parts:
        times.total_ns += 70_000
    row.look(kernel.memory)
    group_of(row)
    for times in parts:
        times.exponential[counted_bucket(70_000) - FIRST_BUCKET] += 1
    kernel.row.changes += 1
    row.look(kernel.memory)
    assert [group_of(row).parts[part].count for part in whole] == [2, 2, 2]


def test_memory_of_another_row_is_read_anew() -> None:
    first, second, row = Kernel(), Kernel(), HandshakeRowReader(KEY)
    for kernel, times in (
        (first, {Part.WALL: 9, Part.CALLS: 9, Part.REST: 4, Part.PRIVATE_KEY: 5}),
        (second, dict.fromkeys(PARTS[:3], 8)),
    ):
        for _ in kernel.count(times):
            pass
    for kernel in (first, second, first):
        row.look(kernel.memory)
        assert dict(group_of(row).parts) == kernel.expected()
