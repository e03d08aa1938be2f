# SPDX-License-Identifier: Apache-2.0
"""A machine as the planner needs it: how control flows through an instruction, what it does to the stack pointer and
to registers, and how the kernel runs it under a probe. One implementation an architecture
(x86/, aarch64/); the planner sees no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, StrEnum
from typing import Protocol

from ssllatency.data_class import dataclass

# For each register that holds an address in the frame: the stack pointer at the function's entry minus its value. The stack
# pointer itself is absent once its value is unknown. A machine may keep more in it, under names of its own.
Frame = Mapping[str, int]


@dataclass(frozen=True)
class Emulation:
    """The instructions that the kernel emulates besides push, call, jmp, jcc and one-byte nop: canonical nops of several bytes
    (Linux 6.16), and 5-byte nops turned into calls (Linux 6.18, which must then not be probed in a leaf function: the call
    overwrites its red zone). `calls`: whether a call may be a site at all. A process with a shadow stack would die of one, for
    neither the emulated call nor the one that is stepped elsewhere leaves the right return address there."""

    multibyte_nops: bool = False
    optimised_nop5: bool = False
    calls: bool = True


BASELINE = Emulation()  # what every kernel with uprobes emulates


class Cost(StrEnum):
    """The way in which the kernel runs the replaced instruction: a 5-byte nop by a call, an emulated one in one trap, others by
    steps."""

    OPTIMISED = "optimised"
    EMULATED = "emulated"
    SINGLE_STEPPED = "single-stepped"


class Flow(Enum):
    """The ways in which control can go on after an instruction."""

    NEXT = "next"
    BRANCH = "branch"  # to the target or to the next instruction
    JUMP = "jump"
    INDIRECT_JUMP = "indirect jump"
    CALL = "call"  # direct; comes back to the next instruction
    INDIRECT_CALL = "indirect call"
    RETURN = "return"
    STOP = "stop"  # a trap that ends the process


CALLS = (Flow.CALL, Flow.INDIRECT_CALL)
ENDS = (Flow.RETURN, Flow.STOP, Flow.JUMP, Flow.INDIRECT_JUMP)  # what follows them isn't run next


class Instruction(Protocol):
    """One decoded instruction. Registers are named by their 64-bit names."""

    @property
    def address(self) -> int: ...
    @property
    def end(self) -> int:
        """The address of the next instruction."""

    @property
    def text(self) -> str:
        """The assembly, as people read it."""

    @property
    def flow(self) -> Flow: ...
    @property
    def target(self) -> int | None:
        """The target of a direct jump, branch or call."""

    @property
    def padding(self) -> bool:
        """Whether it does nothing (a nop of any length)."""

    @property
    def landing_pad(self) -> bool:
        """Whether it only marks a valid target of indirect branches (endbr64, bti)."""

    @property
    def writes(self) -> frozenset[str]:
        """The registers that it may change, stack pointer aside; for a call those that the callee may change."""

    @property
    def moves_return_address(self) -> bool:
        """Whether, after it, changing the return address where the call left it would come too late; what changes the stack
        pointer aside. That place is the link register, where there is one."""

    @property
    def copy(self) -> tuple[str, str, int] | None:
        """(destination, source, bits) if it copies a register, or its low 32 bits."""

    @property
    def constant(self) -> tuple[str, int] | None:
        """(destination, value as 64 bits) if it sets a whole register to a constant."""

    @property
    def zeroed(self) -> str:
        """The register that it sets to 0, whatever that held; "" for none."""

    @property
    def condition(self) -> str:
        """The mnemonic of a branch whose direction the kernel side can tell; "" of all else."""

    def frame(self, before: Frame) -> Frame:
        """The frame after it, from the frame before."""

    def cost(self, emulation: Emulation) -> Cost | None:
        """Return how the kernel runs it under a probe; None if the kernel refuses it or it isn't known to be safe."""


# reads the memory of the image: (address, size) -> bytes
ReadBytes = Callable[[int, int], bytes]
ReadPointer = Callable[[int], int | None]


class Machine(Protocol):
    """One architecture."""

    @property
    def stack_pointer(self) -> str: ...
    @property
    def result_register(self) -> str: ...
    @property
    def argument_registers(self) -> tuple[str, ...]: ...
    def decode(self, code: bytes, address: int) -> Iterator[Instruction]:
        """The instructions of `code`, each decoded when it is taken. They end before a byte that can't be decoded; and before
        one of which what follows the code may have to be known, if it isn't the first: go on from there."""

    def tail_slot(self, path: Sequence[Instruction]) -> int | None:
        """The displacement from which the last instruction of `path`, an indirect jump, loads its target; None if it isn't
        a single load."""

    def table_targets(self, path: Sequence[Instruction], read: ReadBytes, pointer: ReadPointer) -> Sequence[int] | None:
        """The targets of the jump table behind the last instruction of `path`; None if there is no bounded table. `path` is
        one way from the function's entry to the jump."""

    def table_base(self, path: Sequence[Instruction]) -> int | None:
        """The address of the table of addresses behind the last instruction of `path`, whatever its index; None if there is
        none."""

    def looks_like_table(self, path: Sequence[Instruction]) -> bool:
        """Whether the jump that ends `path` is a jump within the function, by its form."""

    def null_branch(self, path: Sequence[Instruction]) -> tuple[str, int, bool] | None:
        """Tell how the last instruction of `path`, which runs in a straight line, branches on a 64-bit register's being NULL:
        that register, the index of the instruction that looks at it, and whether the branch is taken for NULL."""
