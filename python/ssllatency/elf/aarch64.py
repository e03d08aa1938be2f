# SPDX-License-Identifier: Apache-2.0
"""The few aarch64 instructions that lead to a table: `adrp x0, page; add x0, x0, offset; ret`."""

from __future__ import annotations

import struct

BTI_C = 0xD503245F
_RET = 0xD65F03C0
_ADR, _ADRP, _ADR_MASK = 0x10000000, 0x90000000, 0x9F00001F
_ADD, _ADD_MASK = 0x91000000, 0xFFC003FF


def instruction_words(code: bytes) -> list[int]:
    """The 32-bit instructions of `code`."""
    return list(struct.unpack(f"<{len(code) // 4}I", code[: len(code) // 4 * 4]))


def page(word: int, address: int) -> int:
    """The page that the adrp instruction `word` at `address` names."""
    return (address >> 12) + _immediate(word) << 12 & (1 << 64) - 1


def _immediate(word: int) -> int:
    value = (word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3
    return value - ((value & 1 << 20) << 1)


def logical_immediate(word: int) -> int | None:
    """The 64-bit number of a logical instruction with an immediate; None for an encoding that is reserved.

    A run of ones, rotated within an element of 2 to 64 bits that is repeated (DecodeBitMasks in the Arm manual).
    """
    rotation, ones = word >> 16 & 63, word >> 10 & 63
    size = 1 << ((word >> 22 & 1) << 6 | ~ones & 63).bit_length() - 1 if word >> 22 & 1 or ones != 63 else 0
    ones, rotation = ones & size - 1, rotation & size - 1
    if size < 2 or ones == size - 1:
        return None
    run = (1 << ones + 1) - 1
    element = (run >> rotation | run << size - rotation) & (1 << size) - 1
    return sum(element << shift for shift in range(0, 64, size))


def returned_address(code: bytes, address: int) -> int | None:
    """The address that the function at `address`, which begins with `code`, returns; None if it does anything else."""
    words = instruction_words(code)
    if words and words[0] == BTI_C:
        del words[0]
        address += 4
    if len(words) >= 2 and words[0] & _ADR_MASK == _ADR and words[1] == _RET:
        return address + _immediate(words[0])
    if len(words) >= 3 and words[0] & _ADR_MASK == _ADRP and words[1] & _ADD_MASK == _ADD and words[2] == _RET:
        return page(words[0], address) + (words[1] >> 10 & 0xFFF)
    return None
