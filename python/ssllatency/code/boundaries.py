# SPDX-License-Identifier: Apache-2.0
"""Beginnings of instructions in straight-line code, from their lengths alone: a check on the planner's decoder that shares no
code with it.

Lengths of x86-64 instructions are those of the Intel SDM, volume 2, chapter 2 and the opcode maps of appendix A: prefixes, an
opcode of one to three bytes or behind a VEX, EVEX or XOP prefix, a ModRM byte with the bytes that it calls for, an immediate.
"""

from __future__ import annotations

_PREFIXES = frozenset((0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x66, 0x67, 0xF0, 0xF2, 0xF3))
_LONGEST = 15
_OPERAND, _ADDRESS = 0x66, 0x67

# What follows an opcode: "m" a ModRM byte; then an immediate of so many bytes, or "z" (4 or by prefix 2), "v" (also 8), "o" (an
# address), "g" (4 or 1 or none, by the ModRM byte). None: no instruction of 64-bit code.
_Layout = str | None


def boundaries(machine: str, code: bytes) -> frozenset[int]:
    """The offsets in `code` at which an instruction begins, from 0 on, up to where there is none."""
    if machine != "x86-64":
        return frozenset(range(0, len(code) - 3, 4))
    begins, at = set(), 0
    while at < len(code):
        size = length(code, at)
        if size is None:
            break
        begins.add(at)
        at += size
    return frozenset(begins)


def length(code: bytes, start: int) -> int | None:
    """The length in bytes of the x86-64 instruction at `start`; None where there is none or it is cut off."""
    try:
        end = _end(code, start)
    except IndexError:
        return None
    return end - start if end is not None and end <= len(code) and end - start <= _LONGEST else None


def _end(code: bytes, start: int) -> int | None:
    at, prefixes, wide = start, set(), False
    while code[at] in _PREFIXES and at - start < _LONGEST:
        prefixes.add(code[at])
        at += 1
    if 0x40 <= code[at] <= 0x4F:
        wide = bool(code[at] & 8)
        at += 1
    opcode = code[at]
    if opcode in (0xC4, 0xC5, 0x62) or (opcode == 0x8F and code[at + 1] & 0x1F >= 8):
        return _end_of_vector(code, at)
    layout, at = _layout(code, at, prefixes)
    return None if layout is None else _end_of_operands(code, at, layout, prefixes, wide)


def _layout(code: bytes, at: int, prefixes: set[int]) -> tuple[_Layout, int]:
    """The layout of what follows the opcode at `at`, and its place."""
    if code[at] != 0x0F:
        return _ONE_BYTE[code[at]], at + 1
    if code[at + 1] == 0x38:
        return "m", at + 3
    if code[at + 1] == 0x3A:
        return "m1", at + 3
    if code[at + 1] == 0x78 and prefixes & {_OPERAND, 0xF2}:  # SSE4a's extrq and insertq
        return "m2", at + 2
    return _TWO_BYTES[code[at + 1]], at + 2


def _end_of_operands(code: bytes, at: int, layout: str, prefixes: set[int], wide: bool) -> int:
    short = 2 if _OPERAND in prefixes and not wide else 4
    kind = layout.removeprefix("m")
    if kind == "g":
        kind = ("z" if code[at - 1] == 0xF7 else "1") if code[at] >> 3 & 7 < 2 else ""
    end = _end_of_modrm(code, at) if layout.startswith("m") else at
    if kind == "z":
        return end + short
    if kind == "v":
        return end + (8 if wide else short)
    if kind == "o":
        return end + (4 if _ADDRESS in prefixes else 8)
    return end + int(kind or 0)


def _end_of_modrm(code: bytes, at: int) -> int:
    mode, place = code[at] >> 6, code[at] & 7
    at += 1
    if mode == 3:
        return at
    if place == 4:
        place = 5 if code[at] & 7 == 5 else 0
        at += 1
    return at + (1, 4)[mode - 1] if mode else at + (4 if place == 5 else 0)


def _end_of_vector(code: bytes, at: int) -> int | None:
    """Behind a VEX prefix of two or three bytes, an EVEX prefix of four, or an XOP prefix of three."""
    first = code[at]
    if first == 0xC5:
        opcode_map, at = 1, at + 2
    elif first == 0x62:
        opcode_map, at = code[at + 1] & 7, at + 4
    else:
        opcode_map, at = code[at + 1] & 0x1F, at + 3
    if first in (0xC4, 0xC5) and opcode_map == 1 and code[at] == 0x77:  # vzeroupper
        return at + 1
    immediates = {1: int(code[at] in _WITH_BYTE), 2: 0, 3: 1, 5: 0, 6: 0, 8: 1, 9: 0, 10: 4}
    if opcode_map not in immediates:
        return None
    return _end_of_modrm(code, at + 1) + immediates[opcode_map]


# The opcodes behind 0x0F that have a byte for an immediate besides a ModRM byte.
_WITH_BYTE = frozenset((0x70, 0x71, 0x72, 0x73, 0xA4, 0xAC, 0xBA, 0xC2, 0xC4, 0xC5, 0xC6))


def _one_byte() -> list[_Layout]:
    """The opcodes of one byte."""
    arithmetic: list[_Layout] = ["m", "m", "m", "m", "1", "z", None, None]
    table: list[_Layout] = [*arithmetic * 8, *[None] * 16, *[""] * 16]
    table += [None, None, None, "m", None, None, None, None, "z", "mz", "1", "m1", "", "", "", ""]
    table += ["1"] * 16
    table += ["m1", "mz", None, "m1", *["m"] * 12]
    table += [*[""] * 10, None, *[""] * 5]
    table += ["o", "o", "o", "o", "", "", "", "", "1", "z", *[""] * 6]
    table += [*["1"] * 8, *["v"] * 8]
    table += ["m1", "m1", "2", "", None, None, "m1", "mz", "3", "", "2", "", "", "1", None, ""]
    table += ["m", "m", "m", "m", None, None, None, "", *["m"] * 8]
    table += [*["1"] * 8, "4", "4", None, "1", "", "", "", ""]
    return [*table, None, "", None, None, "", "", "mg", "mg", *[""] * 6, "m", "m"]


def _two_bytes() -> list[_Layout]:
    """The opcodes behind 0x0F."""
    table: list[_Layout] = ["m1" if opcode in _WITH_BYTE else "m" for opcode in range(256)]
    for opcode in (*range(0x05, 0x0A), 0x0B, 0x0E, *range(0x30, 0x36), 0x37, 0x77, *range(0xA0, 0xA3), *range(0xA8, 0xAB)):
        table[opcode] = ""
    for opcode in range(0xC8, 0xD0):
        table[opcode] = ""
    for opcode in range(0x80, 0x90):
        table[opcode] = "4"
    for opcode in (0x04, 0x0A, 0x0C, *range(0x24, 0x28), 0x36, 0x38, 0x39, 0x3A, *range(0x3B, 0x40), 0x7A, 0x7B, 0xA6, 0xA7):
        table[opcode] = None
    table[0x0F] = "m1"
    return table


_ONE_BYTE, _TWO_BYTES = _one_byte(), _two_bytes()
