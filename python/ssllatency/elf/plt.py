# SPDX-License-Identifier: Apache-2.0
"""PLT stubs: which word of the global offset table a stub jumps through. Works on the bytes, as stubs have few shapes."""

from __future__ import annotations

import struct

from ssllatency.elf import aarch64

STUB_SIZE = 24
_ENDBR64 = b"\xf3\x0f\x1e\xfa"


def slot(code: bytes, address: int, machine: str) -> int | None:
    """The address of the word that the stub at `address` (its first STUB_SIZE bytes are `code`) jumps through.

    None where `code` is no such stub.
    """
    return _x86_slot(code, address) if machine == "x86-64" else _aarch64_slot(code, address)


def _x86_slot(code: bytes, address: int) -> int | None:
    """`jmp *slot(%rip)`, as .plt, .plt.got and .plt.sec have it: perhaps after endbr64, perhaps with a bnd prefix."""
    at = 4 if code.startswith(_ENDBR64) else 0
    at += code[at : at + 1] == b"\xf2"
    if code[at : at + 2] != b"\xff\x25" or len(code) < at + 6:
        return None
    return int(address + at + 6 + struct.unpack_from("<i", code, at + 2)[0]) % (1 << 64)


def _aarch64_slot(code: bytes, address: int) -> int | None:
    """`adrp x16, page; ldr x17, [x16, offset]; add x16, …; br x17`, perhaps after bti c."""
    words = aarch64.instruction_words(code)
    if words and words[0] == aarch64.BTI_C:
        words, address = words[1:], address + 4
    if len(words) < 4 or words[0] & 0x9F00001F != 0x90000010 or words[1] & 0xFFC003FF != 0xF9400211 or words[3] != 0xD61F0220:
        return None
    return aarch64.page(words[0], address) + (words[1] >> 10 & 0xFFF) * 8
