# SPDX-License-Identifier: Apache-2.0
"""What is made of values and kept as long as they are the very same."""

from __future__ import annotations

from collections.abc import Sequence

from ssllatency.model.keyed import KeyedCache, gathered
from ssllatency.model.snapshot import Outcome


def joined(parts: Sequence[list[int]]) -> list[int]:
    return [number for part in parts for number in part]


def test_the_very_same_values_give_the_very_same_thing() -> None:
    kept: KeyedCache[str, list[int], list[int]] = KeyedCache(joined)
    one, two = [1], [2]
    first = kept.of({"a": [one, two], "b": [two]})
    assert first == {"a": [1, 2], "b": [2]}
    again = kept.of({"a": [one, two], "b": [one]})
    assert again == {"a": [1, 2], "b": [1]}
    assert again["a"] is first["a"]
    assert kept.of({"a": [[1], two]})["a"] is not first["a"]  # equal isn't the same


def test_fewer_more_and_other_values_are_others() -> None:
    kept: KeyedCache[str, list[int], list[int]] = KeyedCache(joined)
    one, two = [1], [2]
    kept.of({"a": [one, two]})
    for parts in ([one], [one, two, one], [two, one], []):
        assert kept.of({"a": parts}) == {"a": joined(parts)}


def test_of_a_key_that_was_left_out_nothing_is_kept() -> None:
    kept: KeyedCache[str, list[int], list[int]] = KeyedCache(joined)
    one = [1]
    first = kept.of({"a": [one]})["a"]
    assert kept.of({}) == {}
    assert kept.of({"a": [one]})["a"] is not first


def test_a_row_that_is_alone_is_left_as_it_is() -> None:
    class Row:
        count = 1

    rows = [Row(), Row()]
    assert gathered(rows, id, lambda group: group[0]) == tuple(rows)
    assert gathered(rows, lambda _: Outcome.SUCCESS, lambda group: group[1]) == (rows[1],)
