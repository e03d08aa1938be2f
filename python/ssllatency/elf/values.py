# SPDX-License-Identifier: Apache-2.0
"""What a register can hold while a small function is followed: a number, a place relative to a base, a field, or unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Field:
    """A value loaded from memory. `path` holds the offset from the first argument, then from the pointer found there, …"""

    path: tuple[int, ...]


@dataclass(frozen=True)
class Place:
    """An address `offset` bytes past the first argument ("argument"), past the stack pointer at entry ("stack") or past the
    pointer that a field holds."""

    base: str | Field
    offset: int


# None: unknown. A number is the unsigned value of the whole 64-bit register.
Value = int | Place | Field | None


def signed(value: int, size: int) -> int:
    """`value`, of `size` bytes, as a signed number."""
    value &= (1 << 8 * size) - 1
    return value - (1 << 8 * size) if value >> 8 * size - 1 else value


def plus(left: Value, right: Value) -> Value:
    """The sum of two values; a place plus a number is a place."""
    if isinstance(left, int) and isinstance(right, int):
        return left + right & MASK
    if isinstance(left, Place) and isinstance(right, int):
        return Place(left.base, left.offset + signed(right, 8))
    if isinstance(left, Field) and isinstance(right, int):
        return Place(left, signed(right, 8))
    if isinstance(left, int) and isinstance(right, Place | Field):
        return plus(right, left)
    return None


_BY_CARRY = ("ja", "jae", "jb", "jbe")


@dataclass(frozen=True)
class Comparison:
    """The flags after comparing two numbers of `size` bytes; without `carry`, that flag is of something earlier."""

    left: int
    right: int
    size: int
    carry: bool = True

    def taken(self, condition: str) -> bool | None:
        """Whether a jump on `condition` ("je", "ja", …) is taken; None for a condition that isn't known here."""
        if not self.carry and condition in _BY_CARRY:
            return None
        mask = (1 << 8 * self.size) - 1
        left, right = self.left & mask, self.right & mask
        signed_left, signed_right = signed(left, self.size), signed(right, self.size)
        outcomes = {
            "je": left == right,
            "ja": left > right,
            "jb": left < right,
            "jg": signed_left > signed_right,
            "jl": signed_left < signed_right,
            "js": signed(left - right, self.size) < 0,
        }
        outcomes |= {"jae": not outcomes["jb"], "jbe": not outcomes["ja"], "jne": not outcomes["je"]}
        outcomes |= {"jge": not outcomes["jl"], "jle": not outcomes["jg"], "jns": not outcomes["js"]}
        return outcomes.get(condition)


@dataclass(frozen=True)
class Case:
    """What is taken for granted while a function is followed.

    `arguments` are what registers hold at entry, as evaluate.returned() takes them; `fields` what fields hold; `calls` what a
    function, by its name, returns to this one.
    """

    arguments: Mapping[str, Value] = field(default_factory=dict)
    fields: Mapping[Field, Value] = field(default_factory=dict)
    calls: Mapping[str, Value] = field(default_factory=dict)
