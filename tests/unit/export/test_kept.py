# SPDX-License-Identifier: Apache-2.0
"""Results that are taken over from one reading to the next: of the very same objects alone, and no longer than they are asked
for."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ssllatency.export.metrics.kept import KeptResults, Stage


def joined(parts: Sequence[list[int]]) -> list[int]:
    return [number for part in parts for number in part]


def test_the_very_same_parts_give_the_very_same_result() -> None:
    kept, one, two = KeptResults(), [1], [2]
    first = kept.of(Stage.PROCESS, 7, (one, two), joined)
    kept.end_reading()
    assert kept.of(Stage.PROCESS, 7, (one, two), joined) is first
    kept.end_reading()
    for parts in ((one,), (one, two, one), (two, one), (), ([1], two)):  # equal isn't the same
        assert kept.of(Stage.PROCESS, 7, parts, joined) == joined(parts)
        assert kept.of(Stage.PROCESS, 7, parts, joined) is not first


def test_stages_and_keys_have_results_of_their_own() -> None:
    kept, one = KeptResults(), [1]
    made = [kept.of(stage, key, (one,), joined) for stage in Stage for key in (7, 8)]
    assert len({id(result) for result in made}) == len(made)
    kept.end_reading()
    assert [kept.of(stage, key, (one,), joined) for stage in Stage for key in (7, 8)] == made
    assert len(kept) == len(made)


def test_what_a_reading_has_not_asked_for_is_forgotten_at_its_end() -> None:
    kept, one = KeptResults(), [1]
    first = kept.of(Stage.PROCESS, 7, (one,), joined)
    kept.end_reading()
    assert kept.last(Stage.PROCESS, 7) is first
    kept.end_reading()
    assert (len(kept), kept.last(Stage.PROCESS, 7)) == (0, None)
    assert kept.of(Stage.PROCESS, 7, (one,), joined) is not first


def test_no_more_is_kept_than_a_reading_needs() -> None:
    chance, kept = random.Random(5), KeptResults()
    for _ in range(200):
        keys = {chance.randrange(50) for _ in range(chance.randrange(20))}
        for key in keys:
            assert kept.of(Stage.SERVICE, key, ([key],), joined) == [key]
        kept.end_reading()
        assert len(kept) == len(keys)
