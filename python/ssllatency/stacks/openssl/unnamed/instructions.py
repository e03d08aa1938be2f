# SPDX-License-Identifier: Apache-2.0
"""Single instructions by which functions of an OpenSSL without symbols are told, on either machine: code is looked through for
them, so that only few functions are followed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ssllatency.code.decode import lines
from ssllatency.code.values import signed
from ssllatency.elf.image import Image

_SETS = rb"%c\0\0\0|\x6a%c"  # x86-64: mov $9, register or push $9
_LOCKED = "lock "  # the prefix of an instruction that counts references
_FIRST_BYTES = 64
# aarch64: the bits of an instruction that are looked at, and what they are.
_CALL = 0xFC000000, 0x94000000
_MOVE = 0xFFFFFFE0, 0x52800000  # movz of 32 bits, the number above the register's
_SINGLE, _PAIR, _IN_PAGE = 0xFFFFFC00, 0xFFFF8000, 0xFFF
_LOADS = (0xF9400000, 8), (0xB9400000, 4), (0xB9800000, 4), (0x79400000, 2), (0x39400000, 1)  # ldr, ldrsw, ldrh, ldrb
_LOADS_TWO = (0xA9400000, 8), (0x29400000, 4)  # ldp
# ldadd in any order of memory, ldxr and ldaxr: of 32 bits.
_COUNTS = (0xFF20FC00, 0xB8200000), (0xFFFF7C00, 0x885F7C00)


def _words(code: bytes) -> Sequence[int]:
    return memoryview(code[: len(code) & ~3]).cast("I")


def sets(machine: str, code: bytes, number: int) -> bool:
    """Whether an instruction of `code` may set a register to this number, below 128."""
    if machine == "x86-64":
        return re.search(_SETS % (number, number), code) is not None
    return any(word & _MOVE[0] == _MOVE[1] | number << 5 for word in _words(code))


def loads(machine: str, code: bytes, offset: int) -> bool:
    """Whether an instruction of `code` may load a number or a pointer at this offset, which isn't negative, in a structure."""
    if machine == "x86-64":
        return offset.to_bytes(4, "little") in code or (offset < 128 and bytes([offset]) in code)
    single, pairs = _loading(offset)
    return any(word & _SINGLE in single or word & _PAIR in pairs for word in _words(code))


def _loading(offset: int) -> tuple[set[int], set[int]]:
    """The aarch64 instructions that load from there, but for their registers: one number, or two, of which it is either. What
    lies further than an instruction reaches is loaded from where a multiple of a page has been added."""
    single = {
        load | at // size << 10
        for at in (offset, offset & _IN_PAGE)
        for load, size in _LOADS
        if not at % size and at // size <= _IN_PAGE
    }
    first = ((load, size, at) for load, size in _LOADS_TWO for at in (offset, offset - size))
    return single, {load | at // size << 15 for load, size, at in first if 0 <= at < 64 * size and not at % size}


def counts(image: Image, address: int) -> bool:
    """Whether the function begins with an instruction that counts references, or on aarch64 with a call of a function that
    does, as compilers make them for processors that may lack the instruction."""
    code = image.code(address, _FIRST_BYTES)
    if image.machine == "x86-64":
        return any(line.mnemonic.startswith(_LOCKED) for line in lines(code, address, image.machine))
    called = (
        address + 4 * number + 4 * signed(word, 26) for number, word in enumerate(_words(code)) if word & _CALL[0] == _CALL[1]
    )
    pieces = (code, *(image.code(each, _FIRST_BYTES) for each in called if image.executable(each)))
    return any(word & mask == bits for piece in pieces for word in _words(piece) for mask, bits in _COUNTS)
