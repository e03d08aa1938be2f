# SPDX-License-Identifier: Apache-2.0
"""aarch64 loads and stores: which general registers they load and store, from where, and what they do to their base register.

For a rare or unknown encoding, the answer names more registers than the instruction touches, and says not to probe it.
Encodings: Arm Architecture Reference Manual for A-profile, C4.1, "Loads and Stores".
"""

from __future__ import annotations

from collections.abc import Callable

from ssllatency.code.values import signed
from ssllatency.data_class import dataclass


@dataclass(frozen=True)
class Access:
    """Registers by number; 31 is the zero register, as `base` the stack pointer.

    The registers are loaded from or stored to `base` plus `offset` (None: an offset that isn't a plain number), one after the
    other, `size` bytes each; `signed` loads extend the sign. `moves_base`: the base changes as well, by `step` bytes (None: by
    an unknown amount). `steppable`: the kernel lets it run out of line, and it does the same there.
    """

    loaded: tuple[int, ...]
    stored: tuple[int, ...]
    base: int
    offset: int | None = None
    size: int = 8
    signed: bool = False
    moves_base: bool = False
    step: int | None = None
    steppable: bool = True


def access(word: int) -> Access:
    """The load or store that `word`, of the encoding group for these, is."""
    return _KINDS[word >> 28 & 3](word)


def indexed(word: int) -> tuple[int, int, int] | None:
    """(index register, its extension as `extended` takes it, left shift) of a load or store at [base, index]; else None."""
    if word & 0x3B200C00 != 0x38200800:
        return None
    return word >> 16 & 31, word >> 13 & 7, word >> 30 if word >> 12 & 1 else 0


def extended(value: int, option: int) -> int:
    """`value` as the operand of an instruction that extends it: `option` 0 to 3 are uxtb to uxtx, 4 to 7 sxtb to sxtx."""
    bits = 8 << (option & 3)
    value &= (1 << bits) - 1
    return signed(value, bits) if option > 3 else value


def _exclusive_or_structure(word: int) -> Access:
    base = word >> 5 & 31
    if word >> 26 & 1:  # ld1 to st4, and their forms that add to the base
        return Access((), (), base, moves_base=bool(word >> 23 & 1), steppable=not word >> 31)
    first, second, status = word & 31, word >> 10 & 31, word >> 16 & 31
    registers = tuple({first, second, status, first | 1, status | 1})
    return Access(registers, registers, base, steppable=False)


def _literal_or_tags(word: int) -> Access:
    """A literal is loaded from beside the code; the others copy memory, change tags or are ordered: none is stepped."""
    if word & 0x3B000000 == 0x18000000:
        return Access(() if word >> 26 & 1 else (word & 31,), (), 31, steppable=False)
    registers = (word & 31, word >> 16 & 31)
    return Access(registers, registers, word >> 5 & 31, moves_base=True, steppable=False)


def _pair(word: int) -> Access:
    kind, vector, base = word >> 23 & 3, bool(word >> 26 & 1), word >> 5 & 31
    shift = 2 + (word >> 30) if vector else 3 if word >> 31 else 2
    registers = () if vector else (word & 31, word >> 10 & 31)
    load, moves = bool(word >> 22 & 1), kind in (1, 3)
    if not vector and not load and word >> 30 & 1:  # stgp, which stores a tag
        return Access((), registers, base, moves_base=moves, steppable=False)
    number = signed(word >> 15, 7) << shift
    loaded, stored = (registers, ()) if load else ((), registers)
    sign = bool(word >> 30 & 1)
    return Access(loaded, stored, base, 0 if kind == 1 else number, 1 << shift, sign, moves, number if moves else None)


def _single(word: int) -> Access:
    base, kind = word >> 5 & 31, word >> 10 & 3
    if not word >> 24 & 1 and word >> 21 & 1 and kind != 2:
        return _atomic_or_authenticated(word)
    # A vector's register is none of these; nor is that of prfm (size 3, opc 2).
    registers = () if word >> 26 & 1 or word >> 22 & 0x303 == 0x302 else (word & 31,)
    loaded, stored = (registers, ()) if word >> 22 & 3 else ((), registers)
    size, sign = 1 << (word >> 30), bool(word >> 23 & 1)
    if word >> 24 & 1:
        return Access(loaded, stored, base, (word >> 10 & 0xFFF) * size, size, sign)
    if word >> 21 & 1:
        return Access(loaded, stored, base, None, size, sign)
    number, moves = signed(word >> 12, 9), kind in (1, 3)
    return Access(loaded, stored, base, 0 if kind == 1 else number, size, sign, moves, number if moves else None)


def _atomic_or_authenticated(word: int) -> Access:
    """ldadd, swp, ldapr and their like; ldraa and ldrab, which may fault and are left alone."""
    if word >> 10 & 1:
        return Access((word & 31,), (), word >> 5 & 31, moves_base=bool(word >> 11 & 1), steppable=False)
    return Access((word & 31,), (word >> 16 & 31,), word >> 5 & 31, steppable=not word >> 26 & 1)


_KINDS: tuple[Callable[[int], Access], ...] = (_exclusive_or_structure, _literal_or_tags, _pair, _single)
