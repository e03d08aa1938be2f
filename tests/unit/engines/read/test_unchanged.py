# SPDX-License-Identifier: Apache-2.0
"""Rows of kernel maps whose meaning is kept: whatever byte changes, it is made anew, and of a row that is gone none stays."""

from __future__ import annotations

import random

import pytest

from ssllatency.engines.read.unchanged import Unchanged, filled_blocks

SIZE = 5000  # not a multiple of a block


class Made:
    """What a row was read as."""

    def __init__(self, key: bytes, raw: bytes) -> None:
        self.key, self.raw = key, raw


def row(*filled: tuple[int, int]) -> bytes:
    raw = bytearray(SIZE)
    for place, value in filled:
        raw[place] = value
    return bytes(raw)


def test_a_row_that_stays_the_same_is_the_same_object() -> None:
    rows: Unchanged[Made] = Unchanged(Made)
    ((_, first),) = rows.read([(b"a", row((7, 1)))])
    assert rows.read([(b"a", row((7, 1)))]) == [(b"a", first)]
    assert rows.last == [(b"a", first)]


@pytest.mark.parametrize("place", [0, 7, 511, 512, 2500, SIZE - 1])
@pytest.mark.parametrize("value", [1, 0, 255])
def test_any_byte_that_changes_has_it_read_again(place: int, value: int) -> None:
    before = row((place, 2), (600, 9))
    rows: Unchanged[Made] = Unchanged(Made)
    rows.read([(b"a", before)])
    after = row((place, value), (600, 9))
    ((_, made),) = rows.read([(b"a", after)])
    assert made.raw == after


def test_a_row_that_was_emptied_and_one_that_was_filled_are_read_again() -> None:
    rows: Unchanged[Made] = Unchanged(Made)
    for raw in (row((3, 1)), row(), row((3, 1))):
        ((_, made),) = rows.read([(b"a", raw)])
        assert made.raw == raw


def test_what_is_gone_is_forgotten_and_read_anew_when_it_comes_back() -> None:
    rows: Unchanged[Made] = Unchanged(Made)
    kept = dict(rows.read([(b"a", row((1, 1))), (b"b", row((2, 2)))]))
    assert rows.read([(b"b", row((2, 2)))]) == [(b"b", kept[b"b"])]
    assert [key for key, _ in rows.last] == [b"b"]
    again = dict(rows.read([(b"a", row((1, 1))), (b"b", row((2, 2)))]))
    assert again[b"a"] is not kept[b"a"]
    assert again[b"b"] is kept[b"b"]
    assert rows.read([]) == []


def test_rows_of_all_kinds_in_any_order_are_what_they_are() -> None:
    chance = random.Random(3)
    rows: Unchanged[Made] = Unchanged(Made)
    table = {bytes([key]): row() for key in range(20)}
    for _ in range(200):
        for key in chance.sample(sorted(table), 3):
            table[key] = row(*((chance.randrange(SIZE), chance.randrange(256)) for _ in range(chance.randrange(9))))
        if chance.random() < 0.2:
            table.pop(chance.choice(sorted(table)), None)
        if chance.random() < 0.2 or len(table) < 5:
            table[bytes([chance.randrange(256)])] = row((chance.randrange(SIZE), 1))
        pairs = chance.sample(sorted(table.items()), len(table))
        assert {key: made.raw for key, made in rows.read(pairs)} == table
        assert all(made.key == key for key, made in rows.last)


def test_only_what_is_filled_is_kept() -> None:
    assert filled_blocks(bytes(100_000)) == ()
    assert sum(len(block) for _, block in filled_blocks(row((0, 1), (SIZE - 1, 1)))) < 1100
