# SPDX-License-Identifier: Apache-2.0
"""Constant arguments of calls in aarch64 code."""

from __future__ import annotations

import struct

from ssllatency.code.aarch64.call_constants import FOLLOWED, blocks
from ssllatency.code.constant_blocks import followed

START = 0x1000
MOVZ_X2, MOVZ_X2_TOO, COPY_X1_X2 = 0x52800882, 0x528008A2, 0xAA0203E1  # mov w2, #0x44; mov w2, #0x45; mov x1, x2
PAGE_X19, ADD_X3_X19, ADD_X2 = 0xB0000013, 0x91004263, 0x91000442  # adrp x19, #0x2000; add x3, x19, #0x10; add x2, x2, #1
CALL, CBZ, JUMP, RETURN = 0x94000100, 0xB4000060, 0x14000002, 0xD65F03C0  # bl; cbz x0, 12 on; b, 8 on; ret
LOAD_X2, LOAD_X19 = 0xF9400002, 0xF9400273  # ldr x2, [x0]; ldr x19, [x19]
PAGE_X3, ADD_X3_X3, ADD_X3_X3_X2 = 0xB0000003, 0x91004063, 0x8B020063  # adrp x3, #0x2000; add x3, x3, #0x10; add x3, x3, x2
COMPARES_X0, IF_EQUAL, UNLESS_EQUAL = 0x71001C1F, 0x54000060, 0x54000061  # cmp w0, #7; b.eq and b.ne, 12 on
ABOVE, CBZ_NEXT, NOP = 0x54000068, 0xB4000040, 0xD503201F  # b.hi, 12 on; cbz x0, 8 on
STORE_X3, LOAD_X3 = 0xF90007E3, 0xF94007E3  # str x3, [sp, #8]; ldr x3, [sp, #8]
STORE_PAIR, STORE_BESIDE = 0xA90007E0, 0xA90107E0  # stp x0, x1, [sp]; stp x0, x1, [sp, #16]
STORE_VECTOR, STORE_HALF, TAKES = 0x3D8003E0, 0xB9000FE0, 0x910023E0  # str q0, [sp]; str w0, [sp, #12]; add x0, sp, #8
MOVK_X2, ADD_W2 = 0x72A00182, 0x11000442  # movk w2, #12, lsl #16; add w2, w2, #1


def arguments(*words: int) -> list[tuple[int | None, ...]]:
    """Those of the calls, in the order of their addresses."""
    calls = followed(blocks(struct.pack(f"<{len(words)}I", *words), START), START, FOLLOWED)
    return [call.arguments for call in sorted(calls, key=lambda call: (call.address, str(call.arguments)))]


def test_numbers_and_copies() -> None:
    assert arguments(MOVZ_X2, COPY_X1_X2, CALL, RETURN) == [(None, 0x44, 0x44, None, None)]
    assert arguments(MOVZ_X2, ADD_X2, CALL, RETURN) == [(None, None, 0x45, None, None)]
    assert arguments(MOVZ_X2, ADD_W2, CALL, RETURN) == [(None, None, 0x45, None, None)]
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


def test_a_register_that_was_found_to_hold_a_number() -> None:
    """On the way where it equals that, and no other; be it that one goes on there from elsewhere as well."""
    assert arguments(COMPARES_X0, IF_EQUAL, CALL, RETURN, CALL, RETURN) == [(None,) * 5, (7, *(None,) * 4)]
    assert arguments(COMPARES_X0, UNLESS_EQUAL, CALL, RETURN, CALL, RETURN) == [(7, *(None,) * 4), (None,) * 5]
    assert set(arguments(CBZ, COMPARES_X0, NOP, IF_EQUAL, CALL, CALL, CALL, RETURN)) == {(None,) * 5}
    assert arguments(CBZ_NEXT, COMPARES_X0, UNLESS_EQUAL, CALL, RETURN, CALL, RETURN)[0] == (None,) * 5
    assert arguments(COMPARES_X0, ABOVE, CALL, RETURN, CALL, RETURN) == [(None,) * 5, (None,) * 5]


def test_a_constant_that_is_kept_on_the_stack() -> None:
    page = (None, None, None, 0x2010, None)
    assert arguments(PAGE_X3, STORE_X3, CALL, LOAD_X3, ADD_X3_X3, CALL, RETURN)[1] == page
    assert page in arguments(PAGE_X3, STORE_X3, CALL, CBZ, LOAD_X3, ADD_X3_X3, CALL, RETURN)


def test_a_place_of_the_stack_that_may_be_changed_holds_nothing_known() -> None:
    """By another store, be it of two registers or a vector, or by a function that is given its address."""
    for change in (STORE_X3, STORE_PAIR, STORE_VECTOR, STORE_HALF, TAKES):
        *_, last = arguments(PAGE_X3, STORE_X3, change, CALL, LOAD_X3, ADD_X3_X3, CALL, RETURN)
        assert last == (None,) * 5, hex(change)
    *_, last = arguments(PAGE_X3, STORE_X3, STORE_BESIDE, CALL, LOAD_X3, ADD_X3_X3, CALL, RETURN)
    assert last == (None, None, None, 0x2010, None)


def test_a_number_in_two_parts() -> None:
    assert arguments(MOVZ_X2, MOVK_X2, CALL, RETURN) == [(None, None, 0xC0044, None, None)]
    assert arguments(LOAD_X2, MOVK_X2, CALL, RETURN) == [(None,) * 5]
