# SPDX-License-Identifier: Apache-2.0
"""The aarch64 machine, as the planner sees one (../machine.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from ssllatency.code.aarch64 import tables
from ssllatency.code.aarch64.instructions import NAMES, SP, Aarch64Instruction, decoded
from ssllatency.code.machine import Instruction, ReadBytes, ReadPointer


class Aarch64:
    """The aarch64 machine with Arm's procedure call standard. Paths are of instructions that its `decode` gave."""

    stack_pointer = SP
    result_register = "x0"
    argument_registers = NAMES[:8]

    def decode(self, code: bytes, address: int) -> Iterator[Aarch64Instruction]:
        return iter(()) if address % 4 else decoded(code, address)

    def tail_slot(self, path: Sequence[Instruction]) -> int | None:
        return tables.tail_slot(cast("tables.Path", path))

    def table_targets(self, path: Sequence[Instruction], read: ReadBytes, pointer: ReadPointer) -> Sequence[int] | None:
        return tables.table_targets(cast("tables.Path", path), read, pointer)

    def table_base(self, path: Sequence[Instruction]) -> int | None:  # noqa: ARG002
        return None  # no library for aarch64 is known that leaves so

    def looks_like_table(self, path: Sequence[Instruction]) -> bool:
        return tables.looks_like_table(cast("tables.Path", path))

    def null_branch(self, path: Sequence[Instruction]) -> tuple[str, int, bool] | None:
        branch = cast("Aarch64Instruction", path[-1]).null_branch
        return (branch[0], len(path) - 1, branch[1]) if branch else None
