# SPDX-License-Identifier: Apache-2.0
"""The addresses of functions that a function stores, and the bits that it sets and clears: by these BoringSSL's functions that
choose a side of a connection are known, on either machine. The code is read from its first instruction to its last."""

from __future__ import annotations

import re
from dataclasses import field

from ssllatency.code.aarch64.call_constants import REGISTERS, made
from ssllatency.code.aarch64.instructions import NAMES, decoded
from ssllatency.code.decode import lines
from ssllatency.data_class import dataclass
from ssllatency.elf import aarch64
from ssllatency.elf.image import Image

_TAKES_ADDRESS = re.compile(r"(\w+), \[rip ([+-]) (\w+)\]")
_STORES = re.compile(r"qword ptr \[(\w+) \+ (\w+)\], (\w+)")
_CHANGES = re.compile(r"byte ptr \[(\w+) \+ (\w+)\], (\w+)")
_OTHERS = ("rsp", "rip")
_BYTE = 0xFF
# aarch64, with an immediate: ldr and str of 64 bits, ldrb and strb, and and orr of 32 bits.
_ACCESS, _LOAD, _STORE, _LOAD_BYTE, _STORE_BYTE = 0xFFC00000, 0xF9400000, 0xF9000000, 0x39400000, 0x39000000
_LOGIC, _AND, _OR = 0xFFC00000, 0x12000000, 0x32000000


@dataclass
class Stored:
    """Addresses of functions that a function stores, with the registers that point to the structure; and the bits that it sets
    and clears behind such registers, each with its offset."""

    functions: dict[int, set[str]] = field(default_factory=dict)
    sets: set[tuple[str, int, int]] = field(default_factory=set)
    clears: set[tuple[str, int, int]] = field(default_factory=set)


def x86_stored(code: bytes, start: int) -> Stored:
    """Those of a function whose code begins at `start`."""
    held: dict[str, int] = {}
    stored = Stored()
    for line in lines(code, start, "x86-64"):
        name, text = line.mnemonic, line.op_str
        if name == "lea" and (match := _TAKES_ADDRESS.fullmatch(text)):
            distance = int(match[3], 0)
            held[match[1]] = line.address + len(line.code) + (distance if match[2] == "+" else -distance)
        elif name == "mov" and (match := _STORES.fullmatch(text)) and match[3] in held and match[1] not in _OTHERS:
            stored.functions.setdefault(held[match[3]], set()).add(match[1])
        elif name in ("or", "and") and (match := _CHANGES.fullmatch(text)) and match[3].startswith("0x"):
            changed = stored.sets if name == "or" else stored.clears
            mask = int(match[3], 0) & _BYTE
            changed.add((match[1], int(match[2], 0), mask if name == "or" else mask ^ _BYTE))
        elif name == "or" and (match := _CHANGES.fullmatch(text)) and match[3].isdigit():
            stored.sets.add((match[1], int(match[2], 0), int(match[3])))
    return stored


@dataclass
class _Byte:
    """A byte of a structure in a register: the register that points there, its offset, and the bits set or cleared since."""

    base: int
    offset: int
    sets: int = 0
    clears: int = 0


def aarch64_stored(image: Image, code: bytes, start: int) -> Stored:
    """Those of a function of an image's aarch64 code, which loads the addresses of exported functions out of a table."""
    stored = Stored()
    held: list[int | None] = [None] * (REGISTERS + 1)
    loaded: dict[int, _Byte] = {}
    for instruction in decoded(code, start):
        word = instruction.word
        first, base, offset = word & 31, word >> 5 & 31, word >> 10 & 0xFFF
        access, value, part = word & _ACCESS, made(held, word, instruction.address), None
        if access == _STORE and (address := held[first]) is not None and base < REGISTERS:
            stored.functions.setdefault(address, set()).add(NAMES[base])
        elif access == _LOAD and (place := held[base]) is not None:
            value = image.pointer(place + 8 * offset)
        elif access == _LOAD_BYTE and base < REGISTERS:
            part = _Byte(base, offset)
        elif access == _STORE_BYTE and first in loaded and (loaded[first].base, loaded[first].offset) == (base, offset):
            where = NAMES[base], offset
            stored.sets |= {(*where, mask) for mask in [loaded[first].sets] if mask}
            stored.clears |= {(*where, mask) for mask in [loaded[first].clears] if mask}
        elif word & _LOGIC in (_AND, _OR) and base in loaded:
            part = _changed(loaded[base], word)
        for number in (NAMES.index(name) for name in instruction.writes):
            held[number] = None
            loaded = {register: byte for register, byte in loaded.items() if number not in (register, byte.base)}
        if value is not None and first < REGISTERS:
            held[first] = value
        if part and first != part.base:
            loaded[first] = part
    return stored


def _changed(byte: _Byte, word: int) -> _Byte | None:
    """The byte after an instruction that sets or clears bits of it; None for more than one of these."""
    mask = aarch64.logical_immediate(word)
    if mask is None or byte.sets or byte.clears:
        return None
    sets = mask & _BYTE if word & _LOGIC == _OR else 0
    clears = ~mask & _BYTE if word & _LOGIC == _AND else 0
    return _Byte(byte.base, byte.offset, sets, clears)
