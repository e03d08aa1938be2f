# SPDX-License-Identifier: Apache-2.0
"""Zeros around bytes, whatever their lengths beside those of blocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssllatency.engines.read.zeros import BLOCK_BYTES, stripped

LENGTHS = st.one_of(st.integers(0, 3), st.integers(-2, 2).map(lambda more: BLOCK_BYTES + more), st.integers(0, 4 * BLOCK_BYTES))
CONTENTS = st.one_of(st.just(b""), st.binary(min_size=1, max_size=3 * BLOCK_BYTES))


@given(LENGTHS, CONTENTS, LENGTHS)
def test_what_is_left_is_what_stripping_each_byte_leaves(before: int, content: bytes, after: int) -> None:
    raw = bytes(before) + content + bytes(after)
    start, left = stripped(raw)
    assert left == raw.strip(b"\0")
    assert raw[start : start + len(left)] == left
    assert not left or not any(raw[:start])
    assert any(raw) == bool(left)


@pytest.mark.parametrize("size", [1, BLOCK_BYTES, 3 * BLOCK_BYTES + 1])
@pytest.mark.parametrize("place", [0, -1])
def test_a_single_byte_is_not_missed(size: int, place: int) -> None:
    raw = bytearray(size)
    raw[place] = 1
    assert stripped(bytes(raw)) == (size - 1 if place else 0, b"\x01")
