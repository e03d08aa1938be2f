# SPDX-License-Identifier: Apache-2.0
"""Decodes machine code into instructions, by Capstone. The only module that creates a decoder."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import capstone

MACHINES = {
    "x86-64": (capstone.CS_ARCH_X86, capstone.CS_MODE_64),
    "aarch64": (capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN),
}


@cache
def _decoder(machine: str) -> capstone.Cs:
    decoder = capstone.Cs(*MACHINES[machine])
    decoder.detail = True
    return decoder


def instructions(code: bytes, address: int, machine: str) -> Iterator[capstone.CsInsn]:
    """The instructions of `code`, which lies at `address`, with detail; they end before a byte that can't be decoded.

    `machine` is a key of MACHINES.
    """
    return iter(_decoder(machine).disasm(code, address))
