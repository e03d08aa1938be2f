# SPDX-License-Identifier: Apache-2.0
"""The control flow of one function of a Go executable.

Such a function begins at one address, is entered nowhere else, and ends in `ret`s. After a recovered panic it goes on at a call
of runtime.deferreturn that its record names, and which nothing in its code leads to. The compiler writes several such calls,
each with a way out behind it, of which the runtime uses one. Where the stack pointer is there, the table of stack depths tells.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property

from ssllatency.code.boundaries import boundaries
from ssllatency.code.flow import MAX_EDGES, MAX_INSTRUCTIONS, Code, Graph, Unplannable, frames_from
from ssllatency.code.machine import CALLS, Flow, Frame, Instruction
from ssllatency.code.values import signed
from ssllatency.elf.image import Function
from ssllatency.stacks.go.functions import Functions

# The runtime's functions that end or leave the goroutine, as the compiler calls them.
_NEVER_RETURN = ("runtime.panic", "runtime.goPanic", "runtime.gopanic", "runtime.throw", "runtime.fatal")


class GoBodies:
    """The control flow of functions. `code` decodes the image's instructions, each once."""

    def __init__(self, code: Code, functions: Functions) -> None:
        self._code, self._functions = code, functions
        self._noreturn: dict[int, bool] = {}

    def graph(self, function: Function) -> Graph:
        """The control flow of a function. Unplannable, with the reason, where it can't be followed; ElfError where the tables
        are damaged."""
        return _Builder(self, self._code, function, self.depths(function)).graph()

    def depths(self, function: Function) -> Depths:
        """The function's table of stack depths."""
        record = self._functions.record(function)
        return Depths(function, self._functions.pc_values(record.stack_depths), self._recoveries(function, record.recovery))

    def _recoveries(self, function: Function, recovery: int) -> list[int]:
        """Return where the function goes on after a recovered panic: the place that its record names, and the calls that are
        like it."""
        if not 0 < recovery < function.size:
            return []
        code = self._code.read(function.address, function.size)
        calls = {function.address + at for at in calls_to(self._code.image.machine, code, self._recover - function.address)}
        return sorted({function.address + recovery, *calls})

    @cached_property
    def _recover(self) -> int:
        """The address of runtime.deferreturn, 0 where there is none."""
        return next((function.address for function in self._functions.named("runtime.deferreturn")), 0)

    def never_returns(self, target: int) -> bool:
        """Whether the function at `target` ends the process or leaves its callers."""
        if target not in self._noreturn:
            function = self._functions.at(target)
            self._noreturn[target] = function is not None and function.name.startswith(_NEVER_RETURN)
        return self._noreturn[target]


class Depths:
    """The runtime's own facts of a function: how far the stack pointer is below where it was at the entry, for each of its
    instructions; and where it can go on after a recovered panic, which are `recoveries`."""

    def __init__(self, function: Function, values: Sequence[tuple[int, int]], recoveries: Sequence[int]) -> None:
        self._start = function.address
        self._ends, self._values = [end for end, _ in values], [value for _, value in values]
        self.recoveries = recoveries

    def at(self, address: int) -> int | None:
        """The depth before the instruction at `address`; None where the table doesn't say."""
        index = bisect_right(self._ends, address - self._start)
        return self._values[index] if index < len(self._values) else None


def calls_to(machine: str, code: bytes, target: int) -> Iterator[int]:
    """The offsets in `code` of direct calls to the offset `target`."""
    for at in boundaries(machine, code):
        word = code[at : at + 5]
        if machine == "aarch64":
            number = int.from_bytes(word[:4], "little")
            if number >> 26 == 0x25 and signed(number, 26) * 4 + at == target:
                yield at
        elif word[:1] == b"\xe8" and len(word) == 5 and signed(int.from_bytes(word[1:], "little"), 32) + at + 5 == target:
            yield at


class _Builder:
    def __init__(self, bodies: GoBodies, code: Code, function: Function, depths: Depths) -> None:
        self._bodies, self._code, self._depths = bodies, code, depths
        self._own = (function.address, function.address + function.size)
        self._nodes: dict[int, Instruction] = {}
        self._successors: dict[int, tuple[int, ...]] = {}
        self._uncovered: dict[int, str] = {}
        self._after_calls: set[int] = set()

    def graph(self) -> Graph:
        entry, _ = self._own
        roots = [entry, *self._depths.recoveries]
        self._explore(roots)
        frames = frames_from(self._starts(roots), self._nodes, self._successors)
        functions = dict.fromkeys(self._nodes, self._own)
        stack_pointer = self._code.machine.stack_pointer
        return Graph(entry, self._own, self._nodes, self._successors, functions, self._uncovered, frames, stack_pointer)

    def _explore(self, roots: list[int]) -> None:
        work, edges = list(roots), 0
        while work:
            address = work.pop()
            if address in self._nodes:
                continue
            instruction = self._code.at(address, self._own)
            if instruction is None:
                raise Unplannable(f"its code at {address:#x} can't be decoded")
            self._nodes[address] = instruction
            successors = tuple(dict.fromkeys(self._next(instruction)))
            self._successors[address] = successors
            edges += len(successors)
            if len(self._nodes) > MAX_INSTRUCTIONS or edges > MAX_EDGES:
                raise Unplannable("it is too large to be followed")
            work.extend(successors)

    def _next(self, instruction: Instruction) -> list[int]:
        """Return where control goes from an instruction, within the function."""
        if instruction.flow in (Flow.RETURN, Flow.STOP):
            return []
        if instruction.flow is Flow.INDIRECT_JUMP:
            self._uncovered[instruction.address] = f"its jump at {instruction.address:#x} can't be followed"
            return []
        jumps = instruction.flow in (Flow.JUMP, Flow.BRANCH)
        targets = self._land(instruction, instruction.target) if jumps and instruction.target is not None else []
        if instruction.flow is Flow.CALL and self._bodies.never_returns(instruction.target or 0):
            return []
        return targets + (self._fall(instruction) if instruction.flow is not Flow.JUMP else [])

    def _land(self, instruction: Instruction, target: int) -> list[int]:
        if self._own[0] <= target < self._own[1]:
            return [target]
        self._uncovered[instruction.address] = f"it leaves for {target:#x} in another function"
        return []

    def _fall(self, instruction: Instruction) -> list[int]:
        """To the next instruction. A call with nothing or only a nop after it never comes back."""
        called = instruction.flow in CALLS or (instruction.padding and instruction.address in self._after_calls)
        if called:
            self._after_calls.add(instruction.end)
        if instruction.end < self._own[1]:
            return [instruction.end]
        if not called:
            raise Unplannable(f"it runs off its end at {instruction.end:#x}")
        return []

    def _starts(self, roots: list[int]) -> dict[int, Frame]:
        """The frames before the entry, and where the function goes on after a recovered panic."""
        stack_pointer = self._code.machine.stack_pointer
        depths = {root: self._depths.at(root) for root in roots[1:]}
        known: dict[int, Frame] = {root: {} if depth is None else {stack_pointer: depth} for root, depth in depths.items()}
        return {roots[0]: {stack_pointer: 0}, **known}
