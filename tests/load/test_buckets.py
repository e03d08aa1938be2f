# SPDX-License-Identifier: Apache-2.0
"""The kernel's bucket functions, run in the kernel, against exact references."""

from __future__ import annotations

import ctypes
import random
import struct
from collections.abc import Iterator
from math import isqrt

import pytest

from ssllatency import abi
from ssllatency.engines import kernel
from ssllatency.engines.libbpf import BpfObject
from ssllatency.model.histogram import LinearHistogram, bucket_index

from .programs import compiled

VALUES = 4096
MINIMUM_US, STEP_US, STEPS = 50, 7, 40


class ProbeValues(ctypes.Structure):
    _fields_ = (
        ("values", ctypes.c_uint64 * VALUES),
        ("exponential", ctypes.c_int32 * VALUES),
        ("linear", ctypes.c_uint32 * VALUES),
    )


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BpfObject]:
    with BpfObject(compiled("bucket_probe.bpf.c", tmp_path_factory.mktemp("bpf")), "bucket_probe") as opened:
        config = opened.section(".rodata.config", abi.Config)
        config.linear_minimum_ns, config.linear_step_ns, config.linear_buckets = MINIMUM_US * 1000, STEP_US * 1000, STEPS
        opened.load()
        yield opened


def run_in_kernel(probe: BpfObject, values: list[int]) -> ProbeValues:
    memory = probe.live_section(".data.probe", ProbeValues)
    memory.values[: len(values)] = values
    program_run = 10  # BPF_PROG_RUN
    assert kernel.bpf(program_run, struct.pack("<II", probe.program_fd("run_buckets"), 0)) == 0
    return memory


def octave_root(number: int) -> int:
    """The whole part of the 16th root."""
    for _ in range(4):
        number = isqrt(number)
    return number


def chosen_values() -> list[int]:
    """Every boundary of every bucket and its neighbours, both ends, the linear steps' borders, and random values."""
    borders = [octave_root(1 << index) for index in range(16 * 38)]
    borders += [1000 * (MINIMUM_US + STEP_US * step) for step in range(STEPS + 2)]
    values = {max(0, border + shift) for border in borders for shift in (-1, 0, 1)} | {0, 1, 2, 63, 64, 65, (1 << 64) - 1}
    generator = random.Random(1)
    values |= {generator.getrandbits(generator.randrange(1, 65)) for _ in range(VALUES - len(values))}
    return sorted(values)


def linear_reference(value: int) -> int:
    """The model's bucket."""
    maximum_us = MINIMUM_US + STEP_US * STEPS
    return LinearHistogram.from_values(MINIMUM_US, maximum_us, STEP_US, [value]).counts.index(1)


def test_exponential_bucket_is_exact(probe: BpfObject) -> None:
    values = chosen_values()
    assert len(values) > 2500
    memory = run_in_kernel(probe, values)
    wrong = [
        (value, got, bucket_index(value))
        for value, got in zip(values, memory.exponential, strict=False)
        if got != bucket_index(value)
    ]
    assert not wrong


def test_linear_bucket_is_that_of_whole_microseconds(probe: BpfObject) -> None:
    values = chosen_values()
    memory = run_in_kernel(probe, values)
    wrong = [(value, got) for value, got in zip(values, memory.linear, strict=False) if got != linear_reference(value)]
    assert not wrong
