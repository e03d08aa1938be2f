# SPDX-License-Identifier: Apache-2.0
"""Decodes machine code into instructions, by Capstone. The only module that creates a decoder."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, cached_property
from typing import Any

import capstone

MACHINES = {
    "x86-64": (capstone.CS_ARCH_X86, capstone.CS_MODE_64),
    "aarch64": (capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN),
}


@cache
def _decoder(machine: str, *, detail: bool) -> capstone.Cs:
    decoder = capstone.Cs(*MACHINES[machine])
    decoder.detail = detail
    return decoder


def instructions(code: bytes, address: int, machine: str) -> Iterator[capstone.CsInsn]:
    """The instructions of `code`, which lies at `address`, with detail; they end before a byte that can't be decoded.

    `machine` is a key of MACHINES.
    """
    return iter(_decoder(machine, detail=True).disasm(code, address))


class Line:
    """One instruction as Capstone writes it. Its detail takes several times as long to make, and most instructions are never
    asked for it: it is made when it is first used."""

    def __init__(self, code: bytes, address: int, mnemonic: str, op_str: str, machine: str) -> None:
        self.code, self.address, self.mnemonic, self.op_str = code, address, mnemonic, op_str
        self._machine = machine

    @cached_property
    def _detailed(self) -> capstone.CsInsn:
        return next(instructions(self.code, self.address, self._machine))

    @cached_property
    def operands(self) -> list[Any]:
        """Capstone's operands."""
        return list(self._detailed.operands)

    @cached_property
    def written(self) -> frozenset[int]:
        """Capstone's numbers of the registers that it writes, the implicit ones among them."""
        return frozenset(self._detailed.regs_access()[1])


def lines(code: bytes, address: int, machine: str) -> Iterator[Line]:
    """The instructions from there on, as instructions() decodes them, without detail as long as none is asked for."""
    for start, size, mnemonic, op_str in _decoder(machine, detail=False).disasm_lite(code, address):
        offset = start - address
        yield Line(code[offset : offset + size], start, mnemonic, op_str, machine)
