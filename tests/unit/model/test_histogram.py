# SPDX-License-Identifier: Apache-2.0
"""The bucket rules against whole-number roots, sums and differences against the raw durations."""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_strategies import durations_ns

from ssllatency.errors import SsllatencyError
from ssllatency.model.histogram import (
    BUCKET_COUNT,
    FIRST_BUCKET,
    ExponentialHistogram,
    Grid,
    LinearHistogram,
    bucket_bounds,
    bucket_index,
    counted_bucket,
    octave_bounds,
    quantile_rank,
)

LAST_BUCKET = FIRST_BUCKET + BUCKET_COUNT - 1


def floor_of_bound(index: int) -> int:
    """10^9 2^(index/16) ns rounded down: the integer square root, four times."""
    root = 10**144 << index if index >= 0 else 10**144 >> -index
    for _ in range(4):
        root = math.isqrt(root)
    return root


LOWEST = -479  # that of 1 ns
FLOORS = [floor_of_bound(index) for index in range(LOWEST, 16 * 35)]
VALUES = st.lists(durations_ns, max_size=60)


def exponential(values: list[int]) -> ExponentialHistogram:
    return ExponentialHistogram.from_values(values)


def linear(values: list[int]) -> LinearHistogram:
    return LinearHistogram.from_values(0, 1000, 300, values)


@pytest.mark.parametrize(
    ("value_ns", "index"),
    [
        (59, -385),
        (60, -384),
        (10**9, -1),
        (10**9 + 1, 0),
        (2 * 10**9, 15),
        (10**6, -160),
        (64 * 10**9, 95),
        (64 * 10**9 + 1, 96),
        (1, -479),
        (0, -479),
    ],
)
def test_known_buckets(value_ns: int, index: int) -> None:
    assert bucket_index(value_ns) == index


def test_every_boundary_is_exact() -> None:
    # A bound is in the bucket below it where it is whole, and the last whole number under it is where it isn't.
    floors = {index: floor_of_bound(index) for index in range(FIRST_BUCKET, LAST_BUCKET + 2)}
    assert {index: (bucket_index(floor), bucket_index(floor + 1)) for index, floor in floors.items()} == {
        index: (index - 1, index) for index in floors
    }


@pytest.mark.parametrize("power", range(-9, 34))
def test_seconds_by_powers_of_two_end_their_bucket(power: int) -> None:
    value_ns = int(10**9 * 2.0**power)
    assert bucket_index(value_ns) == 16 * power - 1
    assert bucket_index(value_ns + 1) == bisect_left(FLOORS, value_ns + 1) - 1 + LOWEST


@given(st.integers(2, 2**63))
def test_bucket_index_is_the_last_bound_below(value_ns: int) -> None:
    assert bucket_index(value_ns) == bisect_left(FLOORS, value_ns) - 1 + LOWEST


@given(st.integers(60, 64 * 10**9))
def test_bounds_hold_the_value(value_ns: int) -> None:
    lower, upper = bucket_bounds(bucket_index(value_ns))
    assert lower < value_ns <= upper


def test_bounds_are_seconds_by_powers_of_two_every_sixteenth_bucket() -> None:
    assert bucket_bounds(FIRST_BUCKET)[0] == pytest.approx(1e9 / 2**24, rel=1e-15)
    assert bucket_bounds(0)[0] == 1e9
    assert bucket_bounds(LAST_BUCKET)[1] == 64e9


@pytest.mark.parametrize("bit", [30, 36, 63])
def test_the_bounds_of_an_octave(bit: int) -> None:
    assert octave_bounds(bit) == [floor_of_bound(16 * bit - 478 + number) for number in range(16)]
    assert all(1 << bit <= bound < 2 << bit for bound in octave_bounds(bit))


def test_the_bounds_of_a_short_octave_are_refused() -> None:
    with pytest.raises(ValueError, match="2\\^29"):
        octave_bounds(29)


def test_negative_duration_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        bucket_index(-1)


@given(VALUES)
def test_every_value_is_counted_once_where_it_belongs(values: list[int]) -> None:
    histogram = exponential(values)
    assert histogram.count == len(values)
    assert histogram.underflow == sum(value < 60 for value in values)
    assert histogram.overflow == sum(value > 64 * 10**9 for value in values)
    for index, count in enumerate(histogram.dense, FIRST_BUCKET):
        assert count == sum(floor_of_bound(index) < value <= floor_of_bound(index + 1) for value in values)


@given(VALUES)
def test_dense_and_back(values: list[int]) -> None:
    histogram = exponential(values)
    assert len(histogram.dense) == BUCKET_COUNT
    assert ExponentialHistogram.from_dense(histogram.dense, histogram.underflow, histogram.overflow) == histogram


def test_zeros_at_the_ends_are_left_out() -> None:
    padded = ExponentialHistogram((0, 0, 3, 0, 1, 0), -100)
    assert (padded.counts, padded.offset) == ((3, 0, 1), -98)
    assert ExponentialHistogram((0, 0), 20) == ExponentialHistogram((), FIRST_BUCKET)


@pytest.mark.parametrize(
    ("counts", "offset", "underflow"),
    [((-1,), 0, 0), ((1,), FIRST_BUCKET - 1, 0), ((1, 1), LAST_BUCKET, 0), ((), 0, -1)],
)
def test_impossible_histograms_are_refused(counts: tuple[int, ...], offset: int, underflow: int) -> None:
    with pytest.raises(ValueError, match="histogram"):
        ExponentialHistogram(counts, offset, underflow)


@pytest.mark.parametrize("size", [0, BUCKET_COUNT - 1, BUCKET_COUNT + 1])
def test_dense_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"{BUCKET_COUNT} buckets"):
        ExponentialHistogram.from_dense([0] * size)


@given(VALUES, VALUES)
def test_sum_is_the_histogram_of_all_values(first: list[int], second: list[int]) -> None:
    assert ExponentialHistogram.added((exponential(first), exponential(second))) == exponential(first + second)
    assert LinearHistogram.added((linear(first), linear(second))) == linear(first + second)


@given(VALUES, VALUES)
def test_difference_undoes_the_sum(first: list[int], second: list[int]) -> None:
    assert exponential(first + second) - exponential(first) == exponential(second)
    assert linear(first + second) - linear(first) == linear(second)


def as_one_number(values: list[int]) -> ExponentialHistogram:
    """The same from the kernel's memory."""
    plain = exponential(values)
    first, words = plain.offset - FIRST_BUCKET, b"".join(count.to_bytes(8, "little") for count in plain.counts)
    return ExponentialHistogram.from_words(words, first, plain.underflow, plain.overflow)


@given(st.lists(VALUES, min_size=1, max_size=5))
def test_counts_kept_as_one_number_are_what_they_are_as_many(lists: list[list[int]]) -> None:
    packed = [as_one_number(values) for values in lists]
    assert [histogram.count for histogram in packed] == [len(values) for values in lists]
    assert packed == [exponential(values) for values in lists]
    total = ExponentialHistogram.added(packed)
    assert total.count == sum(map(len, lists))
    values = [*chain.from_iterable(lists)]
    assert total == exponential(values)
    assert ExponentialHistogram.added([total, exponential(lists[0])]) == exponential(values + lists[0])


@given(VALUES, VALUES)
def test_counts_kept_as_bytes_are_what_they_are_as_many(first: list[int], second: list[int]) -> None:
    plain = exponential(first)
    kept = ExponentialHistogram.from_bytes(bytes(plain.counts), plain.offset, plain.underflow, plain.overflow)
    assert (kept.count, kept.as_bytes, kept.packed) == (plain.count, bytes(plain.counts), plain.packed)
    assert kept == plain
    assert plain.as_bytes == as_one_number(first).as_bytes == bytes(plain.counts)
    for other in (exponential(second), as_one_number(second)):
        assert ExponentialHistogram.added([kept, other]) == exponential(first + second)


def test_counts_that_are_too_large_are_no_bytes() -> None:
    for plain in (ExponentialHistogram((1, 256), 0), ExponentialHistogram((1, 1 << 40), 0, 255, 1)):
        words = b"".join(count.to_bytes(8, "little") for count in plain.counts)
        packed = ExponentialHistogram.from_words(words, -FIRST_BUCKET, plain.underflow, plain.overflow)
        assert (plain.as_bytes, packed.as_bytes) == (None, None)
    assert ExponentialHistogram((255,), 0, 1000, 1000).as_bytes == b"\xff"


def test_counts_kept_as_one_number_do_not_run_into_each_other() -> None:
    most = (1 << 62) - 1
    plain = ExponentialHistogram((most, 1, most), 0)
    words = b"".join(count.to_bytes(8, "little") for count in plain.counts)
    packed = ExponentialHistogram.from_words(words, -FIRST_BUCKET, 0, 0)
    assert packed.count == 2 * most + 1
    assert ExponentialHistogram.added([packed] * 4).counts == (4 * most, 4, 4 * most)


def test_difference_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="fewer than no calls"):
        exponential([500]) - exponential([500, 500])
    with pytest.raises(ValueError, match="fewer than no calls"):
        linear([500]) - linear([500, 500])


@pytest.mark.parametrize(
    ("q", "count", "rank"),
    [
        (0.5, 1, 1),
        (0.5, 2, 1),
        (0.5, 3, 2),
        (0.9, 10, 9),
        (0.07, 100, 7),
        (0.999, 1000, 999),
        (0.999, 10, 10),
        (0, 5, 1),
        (1, 5, 5),
    ],
)
def test_rank_of_a_quantile(q: float, count: int, rank: int) -> None:
    assert quantile_rank(q, count) == rank


@pytest.mark.parametrize("q", [-0.1, 1.1, math.nan])
def test_quantile_outside_0_to_1_is_refused(q: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile_rank(q, 10)


@given(st.lists(durations_ns, min_size=1, max_size=200), st.sampled_from([0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0]))
def test_quantile_is_near_the_true_one_or_not_known(values: list[int], q: float) -> None:
    true = sorted(values)[quantile_rank(q, len(values)) - 1]
    estimate = exponential(values).quantile(q)
    if 60 <= true <= 64 * 10**9:
        assert estimate is not None
        assert abs(estimate - true) <= 0.022 * true
    else:
        assert estimate is None


@given(st.lists(durations_ns, min_size=1, max_size=60), st.sampled_from([0.0, 0.5, 0.99, 1.0]))
def test_quantile_range_holds_the_true_quantile(values: list[int], q: float) -> None:
    bounds = exponential(values).quantile_range(q)
    assert bounds is not None
    assert bounds[0] < sorted(values)[quantile_rank(q, len(values)) - 1] <= bounds[1]


def test_empty_histogram_has_no_quantile() -> None:
    assert exponential([]).quantile(0.5) is None
    assert exponential([]).quantile_range(0.5) is None


@given(st.lists(durations_ns, min_size=1, max_size=60))
def test_bucket_at_follows_the_order_of_the_values(values: list[int]) -> None:
    histogram = exponential(values)
    buckets = [histogram.bucket_at(rank) for rank in range(1, len(values) + 1)]
    assert buckets == [counted_bucket(value) for value in sorted(values)]


@pytest.mark.parametrize("rank", [0, 3])
def test_bucket_at_of_no_call_is_refused(rank: int) -> None:
    with pytest.raises(ValueError, match="no call number"):
        exponential([100, 200]).bucket_at(rank)


def test_linear_buckets_include_their_lower_bound() -> None:
    values = [0, 199_999, 200_000, 999_999, 1_000_000, 68_000_000_000]
    assert LinearHistogram.from_values(0, 1000, 200, values).counts == (0, 2, 1, 0, 0, 1, 2)


def test_linear_below_its_minimum_and_a_short_last_step() -> None:
    histogram = LinearHistogram.from_values(100, 1000, 400, [99_999, 100_000, 899_999, 900_000, 999_999, 1_000_000])
    assert histogram.counts == (1, 1, 1, 2, 1)
    assert histogram.bounds == ((None, 100), (100, 500), (500, 900), (900, 1000), (1000, None))


@given(VALUES, st.integers(0, 5), st.integers(1, 2000), st.integers(1, 700))
def test_every_value_lies_within_the_bounds_of_its_linear_bucket(values: list[int], low: int, width: int, step: int) -> None:
    histogram = LinearHistogram.from_values(low, low + width, step, values)
    assert len(histogram.bounds) == len(histogram.counts)
    for (lower, upper), count in zip(histogram.bounds, histogram.counts, strict=True):
        inside = [(lower is None or value >= lower * 1000) and (upper is None or value < upper * 1000) for value in values]
        assert count == sum(inside)


@pytest.mark.parametrize(
    ("minimum", "maximum", "step", "counts"),
    [(0, 1000, 200, (0,) * 6), (0, 1000, 0, (0,) * 7), (5, 5, 1, (0, 0)), (-1, 5, 1, (0,) * 8), (0, 2, 1, (0, -1, 0, 0))],
)
def test_impossible_linear_histograms_are_refused(minimum: int, maximum: int, step: int, counts: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"linear histogram|buckets|fewer than no calls"):
        LinearHistogram(minimum, maximum, step, counts)


def test_linear_histograms_of_different_buckets_are_not_added() -> None:
    with pytest.raises(SsllatencyError, match=r"0 to 1000 us by 300 and 0 to 2000 us by 300"):
        LinearHistogram.added((linear([1]), LinearHistogram.from_values(0, 2000, 300, [1])))


OLD = ExponentialHistogram((2, 0, 1), 159, 1, 1, Grid.NANOSECONDS)  # 2 calls of 1 us
NONE_OLD = ExponentialHistogram((), 0, grid=Grid.NANOSECONDS)


def test_the_grid_of_older_recordings() -> None:
    grid = Grid.NANOSECONDS
    assert [grid.bucket_index(value_ns) for value_ns in (63, 64, 65, 2**36, 2**36 + 1, 2, 3)] == [95, 95, 96, 575, 576, 15, 25]
    assert grid.bucket_bounds(grid.first_bucket)[0] == 64
    assert grid.bucket_bounds(grid.overflow)[0] == 2**36
    assert OLD.quantile(0.5) == pytest.approx(1000, rel=0.022)
    assert OLD.quantile_range(0) == (-1.0, 64.0)
    assert OLD.quantile_range(1) == (2.0**36, math.inf)


def test_histograms_of_different_grids_are_not_added() -> None:
    with pytest.raises(SsllatencyError, match="different bucket bounds"):
        ExponentialHistogram.added((OLD, exponential([500])))
    with pytest.raises(ValueError, match="different grids"):
        OLD - exponential([500])
    assert ExponentialHistogram.added((OLD, OLD)).dense == tuple(2 * count for count in OLD.dense)
    assert (ExponentialHistogram.added((OLD, OLD)) - OLD) == OLD


def test_what_counts_nothing_adds_to_any_grid() -> None:
    assert ExponentialHistogram.added((exponential([]), OLD)) == OLD
    assert ExponentialHistogram.added((NONE_OLD, exponential([500]))) == exponential([500])
    assert OLD - exponential([]) == OLD


def test_the_sum_of_two_is_the_one_of_any_number() -> None:
    chance = random.Random(3)
    nothing = ExponentialHistogram.from_values([])
    for _ in range(200):
        values = [[int(10 ** chance.uniform(0, 12)) for _ in range(chance.randrange(4))] for _ in range(2)]
        first, second = map(ExponentialHistogram.from_values, values)
        both = ExponentialHistogram.added([first, second])
        assert both == ExponentialHistogram.from_values([*values[0], *values[1]])
        assert both == ExponentialHistogram.added([first, nothing, second])
        assert both.count == len(values[0]) + len(values[1])
