# SPDX-License-Identifier: Apache-2.0
"""The places where aarch64 code takes the addresses of texts."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from ssllatency.stacks.source_files import references

START, PAGE = 0x1000, 0x2000
TEXT, OTHER = PAGE + 0x10, PAGE + 0x20
ADRP_X0, ADR_X0 = 0xB0000000, 0x10008080  # adrp x0, #0x2000; adr x0, #0x2010 at START
ADD_X0, ADD_X1_X0, ADD_X1_OTHER = 0x91004000, 0x91004001, 0x91008001  # add x0|x1, x0, #0x10; add x1, x0, #0x20
ADD_0, ADD_X2_X1, SUB_X2_X1 = 0x91000000, 0x91004022, 0xD1004022  # add x0, x0, #0; add and sub x2, x1, #0x10
ADD_MOST = 0x913FFC01  # add x1, x0, #0xfff
STORE_X0, LOAD_X0 = 0xF9003BE0, 0xF9403BE0  # str x0, [sp, #112]; ldr x0, [sp, #112]
ADD_REGISTER, LOAD, CBZ, NOP, RETURN = 0x8B020000, 0xF9400801, 0xB4000060, 0xD503201F, 0xD65F03C0  # ldr x1, [x0, #0x10]


class Code:
    """An image that has nothing but this code."""

    machine = "aarch64"
    fixed = False

    def __init__(self, *words: int) -> None:
        self._code = struct.pack(f"<{len(words)}I", *words)

    def code_pieces(self, _: int, __: object) -> Iterator[tuple[int, bytes]]:
        yield START, self._code


def taken(*words: int, texts: set[int] | None = None) -> list[tuple[int, int]]:
    image: Any = Code(*words)
    return list(references(image, texts or {TEXT, OTHER}))


def test_a_page_and_what_is_added_soon() -> None:
    assert taken(ADRP_X0, ADD_X0, RETURN) == [(START, TEXT)]
    assert taken(NOP, ADRP_X0, CBZ, RETURN, ADD_X1_X0, RETURN) == [(START + 4, TEXT)]
    assert taken(ADRP_X0, ADD_X1_X0, ADD_X1_OTHER, RETURN) == [(START, TEXT), (START, OTHER)]
    assert taken(ADR_X0, RETURN) == [(START, TEXT)]


def test_a_page_alone_is_no_texts_address() -> None:
    """Be it that a register is added, or a word loaded further on: the text at the page's beginning isn't meant."""
    first = {PAGE}
    assert taken(ADRP_X0, ADD_0, RETURN, texts=first) == [(START, PAGE)]
    for words in ((ADRP_X0, ADD_REGISTER), (ADRP_X0, LOAD), (ADRP_X0, ADD_X0), (ADRP_X0, NOP)):
        assert taken(*words, RETURN, texts=first) == []


def test_another_pages_add_is_not_taken() -> None:
    assert taken(ADRP_X0, 0xD0000000, ADD_X0, RETURN) == []  # adrp x0, #0x3000 in between
    assert taken(ADRP_X0, ADD_X0, 0xD0000000, ADD_X0, RETURN) == [(START, TEXT)]


def test_texts_that_are_reached_from_one_place() -> None:
    """Compilers give texts of one file a common place, from which each is so much further or before; be it on another page."""
    assert taken(ADRP_X0, ADD_X0, ADD_X0, RETURN) == [(START, TEXT), (START, OTHER)]
    assert taken(ADRP_X0, ADD_X1_X0, ADD_X2_X1, RETURN) == [(START, TEXT), (START, OTHER)]
    assert taken(ADRP_X0, ADD_X1_OTHER, SUB_X2_X1, RETURN, texts={TEXT}) == [(START, TEXT)]
    assert taken(ADRP_X0, ADD_X1_X0, SUB_X2_X1, ADD_X1_X0, RETURN, texts={PAGE}) == [(START, PAGE)]
    assert taken(ADRP_X0, ADD_MOST, ADD_X2_X1, RETURN, texts={PAGE + 0xFFF + 0x10}) == [(START, PAGE + 0xFFF + 0x10)]


def test_a_pages_address_that_is_kept_on_the_stack() -> None:
    assert taken(ADRP_X0, STORE_X0, NOP, LOAD_X0, ADD_X0, RETURN) == [(START, TEXT)]
    assert taken(ADRP_X0, STORE_X0, 0xD0000000, LOAD_X0, ADD_X0, RETURN) == [(START, TEXT)]
    assert taken(ADRP_X0, 0xD0000000, LOAD_X0, ADD_X0, RETURN) == []


def test_a_word_that_is_loaded_from_there() -> None:
    """The address of a function in a table of these, or what else lies there."""
    assert taken(ADRP_X0, LOAD, RETURN) == [(START, TEXT)]
