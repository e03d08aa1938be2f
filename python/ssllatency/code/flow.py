# SPDX-License-Identifier: Apache-2.0
"""The control flow of one operation: every instruction that it can reach without a call, from its entry to its ways out.

Direct jumps are followed wherever they lead: into the part of a function that the compiler moved away (.cold), and by a tail
call into another function, whose `ret` is then a way out of this operation too. So is an indirect jump whose targets are
known, through a jump table or a method table. Where a way out can't be followed it is kept with the reason.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property

from ssllatency.code.machine import CALLS, ENDS, Flow, Frame, Instruction, Machine
from ssllatency.code.variants import variants
from ssllatency.data_class import dataclass
from ssllatency.elf.image import ElfError, Image

# Caps, as the file is untrusted: for one operation, for all operations of a file, and for a path that is followed backwards.
MAX_INSTRUCTIONS = 20_000
MAX_DECODED = 150_000
MAX_EDGES = 100_000
MAX_PATH = 2_000
_CHUNK = 128  # bytes decoded at once

NORETURN = frozenset(
    (
        *("__stack_chk_fail", "__stack_chk_fail_local", "__fortify_fail", "__chk_fail", "__assert_fail", "__assert"),
        *("OPENSSL_die", "abort", "exit", "_exit", "_Exit", "quick_exit", "longjmp", "siglongjmp", "_longjmp", "__longjmp_chk"),
        *("__cxa_throw", "__cxa_rethrow", "_Unwind_Resume"),
    )
)

# (address of the function that jumps, displacement of the slot jumped through) -> targets, None if unknown
ResolveTail = Callable[[int, int], Sequence[int] | None]


class Unplannable(Exception):
    """The reason why an operation can't be probed: a phrase without a full stop."""


class Code:
    """The decoded instructions of an image, decoded when they are first asked for."""

    def __init__(self, image: Image, machine: Machine) -> None:
        self.image = image
        self.machine = machine
        self._instructions: dict[int, Instruction] = {}
        self._bounds: dict[int, tuple[int, int] | None] = {}
        self._noreturn: dict[int, bool] = {}

    def bounds(self, address: int, size: int = 0) -> tuple[int, int] | None:
        """[start, end) of the function that holds `address`: by the unwind tables, else by its symbol's size."""
        bounds = self._bounds.get(address)
        if bounds is None and (size or address not in self._bounds):
            bounds = self.image.function_bounds(address) or ((address, address + size) if size else None)
            self._bounds[address] = bounds
        return bounds

    def at(self, address: int, bounds: tuple[int, int]) -> Instruction | None:
        """The instruction at `address`, None where there is none within `bounds`."""
        if address not in self._instructions:
            if len(self._instructions) > MAX_DECODED:
                raise Unplannable("the file has too much code to be followed")
            for decoded in self.machine.decode(self.read(address, min(_CHUNK, bounds[1] - address)), address):
                if decoded.address in self._instructions:
                    break
                self._instructions[decoded.address] = decoded
                if decoded.flow in ENDS:
                    break
        instruction = self._instructions.get(address)
        return instruction if instruction is not None and instruction.end <= bounds[1] else None

    def never_returns(self, target: int) -> bool:
        """Whether the function at `target`, or behind the PLT stub there, ends the process or unwinds."""
        if target not in self._noreturn:
            name = self.image.plt_target(target)
            self._noreturn[target] = name in NORETURN if name else target in self._noreturn_addresses
        return self._noreturn[target]

    @cached_property
    def _noreturn_addresses(self) -> frozenset[int]:
        functions = (self.image.own_function(name) for name in NORETURN)  # a debug file could hide ways out by such a name
        return frozenset(function.address for function in functions if function)

    def read(self, address: int, size: int) -> bytes:
        """The bytes at `address`, as many as the image has."""
        try:
            return self.image.code(address, size)
        except ElfError:
            return b""

    def pointer(self, address: int) -> int | None:
        """The pointer at `address` once the image is loaded."""
        try:
            return self.image.pointer(address)
        except ElfError:
            return None


def reachable(successors: Mapping[int, Collection[int]], starts: Iterable[int]) -> set[int]:
    """The instructions that can be run from `starts` on, these included."""
    work = list(starts)
    reached = set(work)
    while work:
        new = [successor for successor in successors[work.pop()] if successor not in reached]
        reached.update(new)
        work += new
    return reached


@dataclass(frozen=True)
class Graph:
    """The control flow of one operation. Instructions are named by their addresses.

    `uncovered` gives for an instruction why a way out there can't be followed; `functions` the range of the function that it is
    part of, of which `own` is the operation's own; `frames` what is known, before each instruction, about registers that point
    into the stack. `comes_back`: a call may come back to the entry by tail calls, and goes on there as it began.
    """

    entry: int
    own: tuple[int, int]
    nodes: dict[int, Instruction]
    successors: dict[int, tuple[int, ...]]
    functions: dict[int, tuple[int, int]]
    uncovered: dict[int, str]
    frames: dict[int, Frame]
    stack_pointer: str
    comes_back: bool = False

    @cached_property
    def predecessors(self) -> dict[int, list[int]]:
        """For each instruction, the instructions that control comes from."""
        predecessors: dict[int, list[int]] = {address: [] for address in self.nodes}
        for address, successors in self.successors.items():
            for successor in successors:
                predecessors[successor].append(address)
        return predecessors

    def delta(self, address: int) -> int | None:
        """The stack pointer at the operation's entry minus that before the instruction, None if unknown."""
        return self.frames.get(address, {}).get(self.stack_pointer)

    @property
    def certain(self) -> bool:
        """Whether nothing is entered by an indirect jump that couldn't be followed: that may lead anywhere past the entry."""
        return not any(self.nodes[address].flow is Flow.INDIRECT_JUMP for address in self.uncovered)

    def ways_out(self) -> list[int]:
        """The `ret` instructions."""
        return [address for address, instruction in self.nodes.items() if instruction.flow is Flow.RETURN]

    def without(self, edges: Set[tuple[int, int]]) -> Graph:
        """The graph without these edges: what can still be reached."""
        successors = {
            address: tuple(successor for successor in targets if (address, successor) not in edges)
            for address, targets in self.successors.items()
        }
        reached = reachable(successors, [self.entry])
        return replace(
            self,
            nodes={address: instruction for address, instruction in self.nodes.items() if address in reached},
            successors={address: targets for address, targets in successors.items() if address in reached},
            uncovered={address: reason for address, reason in self.uncovered.items() if address in reached},
        )

    @cached_property
    def calling(self) -> frozenset[tuple[int, int]]:
        """The functions, by their ranges, that call others, and so keep no data below the stack pointer."""
        return frozenset(self.functions[address] for address, instruction in self.nodes.items() if instruction.flow in CALLS)

    @cached_property
    def shared(self) -> frozenset[tuple[int, int]]:
        """The functions that are entered by a tail call: with the stack pointer that the operation was entered with."""
        functions: set[tuple[int, int]] = set()
        for address, successors in self.successors.items():
            crossing = [
                self.functions[successor] for successor in successors if self.functions[successor] != self.functions[address]
            ]
            if crossing and self.nodes[address].frame(self.frames.get(address, {})).get(self.stack_pointer) in (0, None):
                functions.update(crossing)
        return frozenset(functions) - {self.own}


class _Builder:
    def __init__(self, code: Code, entry: int, own: tuple[int, int], resolve: ResolveTail) -> None:
        self._code = code
        self._resolve = resolve
        self._parents: dict[int, int | None] = {entry: None}
        self._functions = {entry: own}
        self.nodes: dict[int, Instruction] = {}
        self.successors: dict[int, tuple[int, ...]] = {}
        self.uncovered: dict[int, str] = {}
        self.tail_jumps: set[int] = set()

    def explore(self, entry: int) -> None:
        work, edges = [entry], 0
        while work:
            address = work.pop()
            if address in self.nodes:
                continue
            instruction = self._code.at(address, self._functions[address])
            if instruction is None:
                raise Unplannable(f"its code at {address:#x} can't be decoded")
            self.nodes[address] = instruction
            targets = self._successors(instruction)
            successors = tuple(dict.fromkeys(targets)) if len(targets) > 1 else tuple(targets)
            edges += len(successors)
            if len(self.nodes) > MAX_INSTRUCTIONS or edges > MAX_EDGES:
                raise Unplannable("it is too large to be followed")
            self.successors[address] = successors
            work.extend(reversed(successors))

    def _successors(self, instruction: Instruction) -> list[int]:
        if instruction.flow is Flow.NEXT:  # most are
            return self._fall(instruction)
        if instruction.flow in (Flow.RETURN, Flow.STOP):
            return []
        if instruction.flow is Flow.INDIRECT_JUMP:
            return self._indirect(instruction)
        successors = []
        if instruction.flow in (Flow.JUMP, Flow.BRANCH):
            successors += self._land(instruction, instruction.target)
        if instruction.flow is not Flow.JUMP and not (
            instruction.flow is Flow.CALL and self._code.never_returns(instruction.target or 0)
        ):
            successors += self._fall(instruction)
        return successors

    def _reach(self, source: Instruction, target: int, function: tuple[int, int]) -> list[int]:
        self._parents.setdefault(target, source.address)
        self._functions.setdefault(target, function)
        return [target]

    def _fall(self, instruction: Instruction) -> list[int]:
        """To the next instruction. A call with nothing after it in its function never comes back."""
        function = self._functions[instruction.address]
        if instruction.flow in CALLS and self._ends(instruction.end, function):
            return []
        if instruction.end >= function[1]:
            self.uncovered[instruction.address] = f"it runs off its end at {instruction.end:#x}"
            return []
        return self._reach(instruction, instruction.end, function)

    def _ends(self, address: int, function: tuple[int, int]) -> bool:
        """Whether only padding follows in the function."""
        while address < function[1]:
            instruction = self._code.at(address, function)
            if instruction is None or not instruction.padding:
                return False
            address = instruction.end
        return True

    def _land(self, instruction: Instruction, target: int | None) -> list[int]:
        """Through a direct jump: within the function, into another part of it, or by a tail call into another function."""
        function = self._functions[instruction.address]
        if target is None:
            return []
        if function[0] <= target < function[1]:
            return self._reach(instruction, target, function)
        name = self._code.image.plt_target(target)
        if name:
            return self._named(instruction, name)
        bounds = self._code.bounds(target)
        if bounds is None:
            self.uncovered[instruction.address] = f"it leaves for {target:#x}, where the unwind tables know no function"
            return []
        return self._reach(instruction, target, bounds)

    def _named(self, instruction: Instruction, name: str) -> list[int]:
        if name in NORETURN:
            return []
        function = self._code.image.function(name)
        bounds = self._code.bounds(function.address, function.size) if function else None
        if function is None or bounds is None:
            self.uncovered[instruction.address] = f"it ends in {name} of another library"
            return []
        return self._reach(instruction, function.address, bounds)

    def _path(self, instruction: Instruction) -> list[Instruction]:
        path = [instruction]
        parent = self._parents[instruction.address]
        while parent is not None and len(path) < MAX_PATH:
            path.append(self.nodes[parent])
            parent = self._parents[parent]
        return path[::-1]

    def _indirect(self, instruction: Instruction) -> list[int]:
        name = self._code.image.plt_target(instruction.address)  # jmp *name@GOTPCREL(%rip)
        if name:
            return self._named(instruction, name)
        path = self._path(instruction)
        machine = self._code.machine
        if machine.looks_like_table(path):
            targets = machine.table_targets(path, self._code.read, self._code.pointer)
            if targets is None:
                targets = self._variants(instruction, machine.table_base(path))
            reason = f"its jump table at {instruction.address:#x} can't be read"
        else:
            slot = machine.tail_slot(path)
            targets = None if slot is None else self._resolve(self._functions[instruction.address][0], slot)
            reason = f"it ends in a call through a pointer at {instruction.address:#x} that can't be followed"
            self.tail_jumps.add(instruction.address)
        if targets is None:
            self.uncovered[instruction.address] = reason
            return []
        return [address for target in dict.fromkeys(targets) for address in self._land(instruction, target)]

    def _variants(self, instruction: Instruction, table: int | None) -> list[int] | None:
        """Through a table of the function's variants, into the one that was chosen for the processor."""
        if table is None:
            return None
        self.tail_jumps.add(instruction.address)
        return variants(self._code.image, self._functions[instruction.address][0], table)


def frames_from(
    starts: Mapping[int, Frame], nodes: Mapping[int, Instruction], successors: Mapping[int, Iterable[int]]
) -> dict[int, Frame]:
    """The frame before each instruction, by those at `starts`; where two paths to it disagree, the value is unknown."""
    frames = dict(starts)
    work = deque(starts)
    while work:
        address = work.popleft()
        after = nodes[address].frame(frames[address])
        for successor in successors[address]:
            earlier = frames.get(successor)
            joined = after if earlier is None else {name: value for name, value in earlier.items() if after.get(name) == value}
            if earlier is None or len(joined) != len(earlier):
                frames[successor] = joined
                work.append(successor)
    return frames


def _check(graph: Graph, tail_jumps: set[int]) -> None:
    """Raises Unplannable for code that doesn't behave as compiled code does."""
    previous = None
    for address in sorted(graph.nodes):
        if previous is not None and previous.end > address:
            raise Unplannable(f"its instructions at {previous.address:#x} and {address:#x} overlap")
        previous = graph.nodes[address]
    for address in graph.ways_out():
        if graph.delta(address) not in (0, None):
            raise Unplannable(f"the stack doesn't balance at its return at {address:#x}")
    for address in tail_jumps:
        if graph.delta(address) not in (0, None):
            graph.uncovered[address] = f"its jump at {address:#x} can't be followed"


def build(code: Code, entry: int, size: int, resolve: ResolveTail) -> Graph:
    """The control flow of the function at `entry`. Unplannable where it can't be known."""
    own = code.bounds(entry, size)
    if own is None:
        raise Unplannable("its end isn't known")
    if own[0] != entry:  # a debug file may be wrong, or another container's
        raise Unplannable(f"the unwind tables know no function that begins at {entry:#x}")
    builder = _Builder(code, entry, own, resolve)
    builder.explore(entry)
    stack_pointer = code.machine.stack_pointer
    frames = frames_from({entry: {stack_pointer: 0}}, builder.nodes, builder.successors)
    functions = {address: builder._functions[address] for address in builder.nodes}
    graph = Graph(entry, own, builder.nodes, builder.successors, functions, builder.uncovered, frames, stack_pointer)
    _check(graph, builder.tail_jumps)
    return graph
