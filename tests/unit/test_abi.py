# SPDX-License-Identifier: Apache-2.0
"""Enums of the headers that both sides share are in the order of their values, so that a free bit or number is seen at once."""

from __future__ import annotations

import re
from enum import IntEnum
from pathlib import Path

import pytest

from ssllatency import abi

BPF = Path(__file__).parents[2] / "bpf"
# Constants that belong together without being choices or bits of one thing.
CONSTANTS = re.compile("Error|Geometry|TableSize|.*Table")
ENUMS = {
    name: kind
    for name, kind in vars(abi).items()
    if isinstance(kind, type) and issubclass(kind, IntEnum) and kind is not IntEnum and not CONSTANTS.fullmatch(name)
}


@pytest.mark.parametrize("name", ENUMS)
def test_values_are_in_order_and_each_is_there_once(name: str) -> None:
    values = [member.value for member in ENUMS[name]]
    assert values == sorted(values)
    assert len(ENUMS[name].__members__) == len(ENUMS[name])


def test_flags_are_bits_one_after_the_other() -> None:
    assert [flag.value for flag in abi.Flag] == [1 << bit for bit in range(len(abi.Flag))]
    assert [flag.value for flag in abi.Peer] == [1 << bit for bit in range(len(abi.Peer))]
    assert abi.Flag.PEER * max(abi.Peer) < 1 << 32


@pytest.mark.parametrize("name", sorted(str(path.relative_to(BPF)) for path in BPF.rglob("*.h")))
def test_flags_in_headers_are_written_as_bits_in_order(name: str) -> None:
    """Those that are written as shifts, each on a line of its own."""
    text = (BPF / name).read_text()
    for enum in re.findall(r"^enum \w* ?\{(.*?)^\};", text, re.DOTALL | re.MULTILINE):
        shifts = [int(shift) for shift in re.findall(r"^\t\w+ = 1 << (\d+),", enum, re.MULTILINE)]
        assert shifts == sorted(set(shifts))
