# SPDX-License-Identifier: Apache-2.0
"""Values that a register can hold while a small function is followed: a number, a place relative to a base, a field, or
unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from ssllatency.data_class import dataclass

MASK = (1 << 64) - 1


@dataclass(frozen=True)
class LoadedField:
    """A value of `size` bytes loaded from memory. `path` holds the offset from the first argument, then from the pointer found
    there, … Not `whole`: only some of its bits were kept.
    """

    path: tuple[int, ...]
    size: int = 8
    whole: bool = True

    @property
    def is_pointer(self) -> bool:
        """Whether it can be an address."""
        return self.size == 8 and self.whole


@dataclass(frozen=True)
class FieldPath:
    """The place of a value: `offsets` (1 to 4) from the SSL *, each but the last leading to a pointer that is followed; `size`
    in bytes (1, 2, 4 or 8) of the value, 0 where the value is the address to which the last offset leads; `bits` those of it
    that count, 0 for all. A null pointer on the way means that there is no value."""

    offsets: tuple[int, ...]
    size: int
    bits: int = 0


@dataclass(frozen=True)
class SymbolicAddress:
    """An address `offset` bytes past the first argument ("argument"), past the stack pointer at entry ("stack"), past the
    pointer that a field holds, or past what the caller names so: stores to it are recorded, but nothing is loaded from it.
    """

    base: str | LoadedField
    offset: int


# None: unknown. A number is the unsigned value of the whole 64-bit register.
Value = int | SymbolicAddress | LoadedField | None


@dataclass(frozen=True)
class OutgoingCall:
    """A call, or a jump out of the function: where to, and the first arguments in their order."""

    target: int | LoadedField
    arguments: tuple[Value, ...]


def signed(value: int, bits: int) -> int:
    """The low `bits` of `value` as a signed number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def plus(left: Value, right: Value) -> Value:
    """The sum of two values; a place plus a number is a place."""
    if isinstance(left, int) and isinstance(right, int):
        return left + right & MASK
    if isinstance(left, SymbolicAddress) and isinstance(right, int):
        return SymbolicAddress(left.base, left.offset + signed(right, 64))
    if isinstance(left, LoadedField) and isinstance(right, int):
        return SymbolicAddress(left, signed(right, 64)) if left.is_pointer else None
    if isinstance(left, int) and isinstance(right, SymbolicAddress | LoadedField):
        return plus(right, left)
    return None


def narrowed(value: Value, size: int) -> Value:
    """The low `size` bytes of a value; None for a place, which has no bytes."""
    if isinstance(value, int):
        return value & (1 << 8 * size) - 1
    if size == 8 or not isinstance(value, LoadedField):
        return value if size == 8 else None
    return replace(value, size=min(size, value.size))


def masked(left: Value, right: Value) -> Value:
    """The value of `left & right`. A field of which only some bits are kept is still that field, though not whole."""
    if isinstance(left, int) and isinstance(right, int):
        return left & right
    if not isinstance(left, LoadedField):
        left, right = right, left
    if not isinstance(left, LoadedField) or isinstance(right, LoadedField):
        return None
    width = next((size for size in (1, 2, 4, 8) if right == (1 << 8 * size) - 1), None)
    return narrowed(left, width) if width else replace(left, whole=False)


_BY_CARRY = ("ja", "jae", "jb", "jbe")
_BY_CARRY_ALONE = ("jae", "jb")


@dataclass(frozen=True)
class ComparisonFlags:
    """The flags after comparing two numbers of `size` bytes; without `carry`, that flag is of something earlier; `alone`: it is
    the only one that isn't."""

    left: int
    right: int
    size: int
    carry: bool = True
    alone: bool = False

    def taken(self, condition: str) -> bool | None:
        """Whether a jump on `condition` ("je", "ja", …) is taken; None for a condition that isn't known here."""
        if (not self.carry and condition in _BY_CARRY) or (self.alone and condition not in _BY_CARRY_ALONE):
            return None
        mask = (1 << 8 * self.size) - 1
        left, right = self.left & mask, self.right & mask
        signed_left, signed_right = signed(left, 8 * self.size), signed(right, 8 * self.size)
        outcomes = {
            "je": left == right,
            "ja": left > right,
            "jb": left < right,
            "jg": signed_left > signed_right,
            "jl": signed_left < signed_right,
            "js": signed(left - right, 8 * self.size) < 0,
        }
        outcomes |= {"jae": not outcomes["jb"], "jbe": not outcomes["ja"], "jne": not outcomes["je"]}
        outcomes |= {"jge": not outcomes["jl"], "jle": not outcomes["jg"], "jns": not outcomes["js"]}
        return outcomes.get(condition)


@dataclass(frozen=True)
class Assumptions:
    """The assumptions under which a function is followed.

    `arguments` are what registers hold at entry, as evaluate.returned() takes them; `fields` what fields hold, by their paths;
    `calls` what a function, by its name, returns to this one; `outputs` what one, by its address, stores in words of the stack
    to which its arguments lead: by which argument, and how far on; `results` what one, by its address, returns.
    """

    arguments: Mapping[str, Value] = field(default_factory=dict)
    fields: Mapping[tuple[int, ...], Value] = field(default_factory=dict)
    calls: Mapping[str, Value] = field(default_factory=dict)
    outputs: Mapping[int, Mapping[tuple[int, int], Value]] = field(default_factory=dict)
    results: Mapping[int, Value] = field(default_factory=dict)
