# SPDX-License-Identifier: Apache-2.0
"""The kernel's bucket functions, run in the kernel, against exact references."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator
from math import isqrt

import pytest

from ssllatency import abi
from ssllatency.engines.base import LinearRange
from ssllatency.engines.bpf.libbpf import BpfObject
from ssllatency.engines.sessions.trace import set_linear
from ssllatency.model.histogram import LinearHistogram, bucket_index
from tests.bpf.compiling import compiled, run

VALUES = 4096
# With the narrowest steps; with those of over 2^32 ns, whose reciprocal is 0.
RANGES = [LinearRange(50, 330, 7), LinearRange(0, 64, 1), LinearRange(1000, 60_001_000, 5_000_000)]


class ProbeValues(ctypes.Structure):
    _fields_ = (
        ("values", ctypes.c_uint64 * VALUES),
        ("exponential", ctypes.c_int32 * VALUES),
        ("linear", ctypes.c_uint32 * VALUES),
        ("times", abi.Times),
    )


@pytest.fixture(scope="module", params=RANGES, ids=str)
def linear(request: pytest.FixtureRequest) -> LinearRange:
    wanted: LinearRange = request.param
    return wanted


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory, linear: LinearRange) -> Iterator[BpfObject]:
    with BpfObject(compiled("bucket_probe.bpf.c", tmp_path_factory.mktemp("bpf")), "bucket_probe") as opened:
        set_linear(opened.section(".rodata.config", abi.Config), linear)
        opened.load()
        yield opened


def run_in_kernel(probe: BpfObject, values: list[int]) -> ProbeValues:
    memory = probe.live_section(".data.probe", ProbeValues)
    memory.values[: len(values)] = values
    run(probe.program_fd("run_buckets"))
    return memory


def test_lines_are_those_of_the_buckets_that_hold_something(probe: BpfObject) -> None:
    chance, memory = random.Random(3), probe.live_section(".data.probe", ProbeValues)
    for octaves in (range(30, 31), range(24, 36), range(64)):
        ctypes.memset(ctypes.addressof(memory), 0, ctypes.sizeof(memory))
        values = [chance.randrange(2**octave, 2 ** (octave + 1)) for octave in chance.choices(octaves, k=VALUES)]
        times = run_in_kernel(probe, values).times
        filled = [number for number, count in enumerate(times.exponential) if count]
        assert sum(times.exponential) + times.underflow + times.overflow == VALUES
        assert times.lines == sum({1 << number // abi.Geometry.LINE for number in filled})
        assert times.total_ns == sum(values) % 2**64


def bound(index: int) -> int:
    """The lower bound of a bucket, 10^9 2^(index/16) ns, rounded down: the 16th root of a whole number."""
    number = 10**144 << index if index >= 0 else 10**144 >> -index
    for _ in range(4):
        number = isqrt(number)
    return number


def chosen_values(linear: LinearRange) -> list[int]:
    """Every boundary of every bucket and its neighbours, both ends, the linear steps' borders, and random values."""
    borders = [bound(index) for index in range(-478, 16 * 7)]
    borders += [1000 * (linear.minimum + linear.step * step) for step in range(linear.buckets + 2)]
    borders += [(1 << 32) + 1000 * linear.minimum]
    values = {max(0, border + shift) for border in borders for shift in (-1, 0, 1)} | {0, 1, 2, 59, 60, 61, (1 << 64) - 1}
    generator = random.Random(1)
    values |= {generator.getrandbits(generator.randrange(1, 65)) for _ in range(VALUES - len(values))}
    return sorted(values)


def linear_reference(linear: LinearRange, value: int) -> int:
    """The model's bucket."""
    return LinearHistogram.from_values(linear.minimum, linear.maximum, linear.step, [value]).counts.index(1)


def test_exponential_bucket_is_exact(probe: BpfObject, linear: LinearRange) -> None:
    values = chosen_values(linear)
    assert len(values) > 2500
    memory = run_in_kernel(probe, values)
    wrong = [
        (value, got, bucket_index(value))
        for value, got in zip(values, memory.exponential, strict=False)
        if got != bucket_index(value)
    ]
    assert not wrong


def test_linear_bucket_is_that_of_whole_microseconds(probe: BpfObject, linear: LinearRange) -> None:
    values = chosen_values(linear)
    memory = run_in_kernel(probe, values)
    wrong = [(value, got) for value, got in zip(values, memory.linear, strict=False) if got != linear_reference(linear, value)]
    assert not wrong
