# SPDX-License-Identifier: Apache-2.0
"""Constant arguments of the direct calls of a function."""

from __future__ import annotations

from ssllatency.code.aarch64 import call_constants as aarch64
from ssllatency.code.constant_blocks import MAX_SIZE, ConstantCall, followed
from ssllatency.code.x86 import call_constants as x86
from ssllatency.elf.image import Image, Range


def calls_with_constants(image: Image, bounds: Range) -> set[ConstantCall]:
    """The direct calls and tail jumps of the function, once for each set of arguments; none of one that is too large."""
    if bounds[1] - bounds[0] > MAX_SIZE:
        return set()
    machine = x86 if image.machine == "x86-64" else aarch64
    return followed(machine.blocks(image.code(bounds[0], bounds[1] - bounds[0]), bounds[0]), bounds[0], machine.REGISTERS)
