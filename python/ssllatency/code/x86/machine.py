# SPDX-License-Identifier: Apache-2.0
"""The x86-64 machine, as the planner sees one (../machine.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from ssllatency.code.decode import lines
from ssllatency.code.machine import Instruction, ReadBytes, ReadPointer
from ssllatency.code.x86 import tables
from ssllatency.code.x86.instructions import X86Instruction, wide_names


class X86:
    """The x86-64 machine with the System V calling convention. Paths are of instructions that its `decode` gave."""

    stack_pointer = "rsp"
    result_register = "rax"
    argument_registers = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")

    def decode(self, code: bytes, address: int) -> Iterator[X86Instruction]:
        return map(X86Instruction, lines(code, address, "x86-64"))

    def tail_slot(self, path: Sequence[Instruction]) -> int | None:
        return tables.tail_slot(cast("tables.Path", path), wide_names())

    def table_targets(self, path: Sequence[Instruction], read: ReadBytes, pointer: ReadPointer) -> Sequence[int] | None:
        return tables.table_targets(cast("tables.Path", path), wide_names(), read, pointer)

    def table_base(self, path: Sequence[Instruction]) -> int | None:
        return tables.table_base(cast("tables.Path", path), wide_names())

    def looks_like_table(self, path: Sequence[Instruction]) -> bool:
        return tables.looks_like_table(cast("tables.Path", path), wide_names())

    def null_branch(self, path: Sequence[Instruction]) -> tuple[str, int, bool] | None:
        *before, branch = cast("Sequence[X86Instruction]", path)
        if branch.condition not in ("je", "jne"):
            return None
        for index in reversed(range(len(before))):
            if before[index].sets_flags:
                register = before[index].tests_null
                return (register, index, branch.condition == "je") if register else None
        return None
