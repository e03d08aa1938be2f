# SPDX-License-Identifier: Apache-2.0
"""Counts on their way from one process to the other: whatever they are, they arrive as they were."""

from __future__ import annotations

import random

import pytest

from ssllatency.export.metrics.planes import from_planes, to_planes
from ssllatency.model.histogram import BUCKET_COUNT


def packed(*counts: int) -> int:
    return sum(count << 64 * number for number, count in enumerate(counts))


@pytest.mark.parametrize("most", [1, 255, 256, 2**16 - 1, 2**16, 2**32, 2**40, 2**64 - 1])
@pytest.mark.parametrize("buckets", [1, 2, 17, BUCKET_COUNT])
def test_counts_arrive_as_they_were(most: int, buckets: int) -> None:
    chance = random.Random(most + buckets)
    counts = [chance.choice((0, 1, most)) for _ in range(buckets - 1)] + [most]
    width, digits = to_planes(packed(*counts))
    assert from_planes(width, digits) == packed(*counts)
    assert width == (most.bit_length() + 7) // 8


def test_small_counts_take_a_byte_each() -> None:
    assert to_planes(packed(1, 0, 255)) == (1, "0100ff")
    assert to_planes(packed(1, 0, 256)) == (2, "010000000001")


def test_no_counts_are_nothing() -> None:
    assert from_planes(*to_planes(0)) == 0


@pytest.mark.parametrize("planes", [(0, ""), (9, "00" * 9), (2, "010203"), (1, "0"), (1, "xy"), (1, "01" * 481), (-1, "01")])
def test_what_is_no_counts_is_refused(planes: tuple[int, str]) -> None:
    with pytest.raises(ValueError, match=r"no counts|hexadecimal"):
        from_planes(*planes)
