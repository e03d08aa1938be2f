# SPDX-License-Identifier: Apache-2.0
"""Tables of words that are nearly empty: each word that isn't 0 is found, wherever it lies."""

from __future__ import annotations

import ctypes
import random

import pytest

from ssllatency.engines.bpf.words import filled_words


def struct_of(number: int) -> type[ctypes.Structure]:
    return type("Words", (ctypes.Structure,), {"_fields_": (("words", ctypes.c_uint64 * number),)})


@pytest.mark.parametrize("number", [1, 511, 512, 513, 8192, 8193, 30_000])
def test_all_that_is_filled_is_found(number: int) -> None:
    chance = random.Random(number)
    table = struct_of(number)()
    assert list(filled_words(table)) == []
    filled = {0: 1, number - 1: 1 << 63} | {chance.randrange(number): chance.randrange(1, 1 << 64) for _ in range(20)}
    for place, word in filled.items():
        table.words[place] = word
    assert list(filled_words(table)) == sorted(filled.items())
    assert list(filled_words(bytes(table))) == sorted(filled.items())
