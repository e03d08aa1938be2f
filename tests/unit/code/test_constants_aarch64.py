# SPDX-License-Identifier: Apache-2.0
"""Constant arguments of calls in aarch64 code."""

from __future__ import annotations

import struct

from ssllatency.code.aarch64.call_constants import REGISTERS, blocks
from ssllatency.code.constant_blocks import followed

START = 0x1000
MOVZ_X2, MOVZ_X2_TOO, COPY_X1_X2 = 0x52800882, 0x528008A2, 0xAA0203E1  # mov w2, #0x44; mov w2, #0x45; mov x1, x2
PAGE_X19, ADD_X3_X19, ADD_X2 = 0xB0000013, 0x91004263, 0x91000442  # adrp x19, #0x2000; add x3, x19, #0x10; add x2, x2, #1
CALL, CBZ, JUMP, RETURN = 0x94000100, 0xB4000060, 0x14000002, 0xD65F03C0  # bl; cbz x0, 12 on; b, 8 on; ret
LOAD_X2, LOAD_X19 = 0xF9400002, 0xF9400273  # ldr x2, [x0]; ldr x19, [x19]
PAGE_X3, ADD_X3_X3, ADD_X3_X3_X2 = 0xB0000003, 0x91004063, 0x8B020063  # adrp x3, #0x2000; add x3, x3, #0x10; add x3, x3, x2


def arguments(*words: int) -> list[tuple[int | None, ...]]:
    """Those of the calls, in the order of their addresses."""
    calls = followed(blocks(struct.pack(f"<{len(words)}I", *words), START), START, REGISTERS)
    return [call.arguments for call in sorted(calls, key=lambda call: (call.address, str(call.arguments)))]


def test_numbers_and_copies() -> None:
    assert arguments(MOVZ_X2, COPY_X1_X2, CALL, RETURN) == [(None, 0x44, 0x44, None, None)]
    assert arguments(MOVZ_X2, ADD_X2, CALL, RETURN) == [(None, None, 0x45, None, None)]
    assert arguments(MOVZ_X2, LOAD_X2, CALL, RETURN) == [(None, None, None, None, None)]


def test_a_call_leaves_what_it_preserves() -> None:
    """The page's address in x19 is kept; the number in x2 is not."""
    assert arguments(PAGE_X19, MOVZ_X2, ADD_X3_X19, CALL, ADD_X3_X19, CALL, RETURN) == [
        (None, None, 0x44, 0x2010, None),
        (None, None, None, 0x2010, None),
    ]


def test_branches_that_make_one_call() -> None:
    """Either number is passed to it."""
    assert arguments(CBZ, MOVZ_X2, JUMP, MOVZ_X2_TOO, CALL, RETURN) == [
        (None, None, 0x44, None, None),
        (None, None, 0x45, None, None),
    ]


def test_a_jump_out_of_the_function_is_a_call() -> None:
    assert arguments(MOVZ_X2, JUMP | 0x100) == [(None, None, 0x44, None, None)]


def test_a_page_and_what_is_added_to_it_may_lie_in_different_blocks() -> None:
    """As where a branch, or a loop, comes between adrp and add."""
    assert set(arguments(PAGE_X19, CBZ, ADD_X3_X19, JUMP, MOVZ_X2, CALL, RETURN)) == {
        (None, None, None, 0x2010, None),
        (None, None, 0x44, None, None),
    }
    assert 0x2020 in {call[3] for call in arguments(PAGE_X19, CBZ, CALL, ADD_X3_X19, ADD_X3_X3, CALL, RETURN)}


def test_a_page_to_which_something_unknown_is_added_is_no_constant() -> None:
    assert set(arguments(PAGE_X19, CBZ, MOVZ_X2, JUMP, LOAD_X19, ADD_X3_X19, CALL, RETURN)) == {
        (None, None, 0x44, 0x2010, None),
        (None, None, None, None, None),
    }
    assert set(arguments(PAGE_X3, CBZ, MOVZ_X2, ADD_X3_X3_X2, CALL, RETURN)) == {
        (None, None, 0x44, None, None),
        (None, None, None, 0x2000, None),
    }
