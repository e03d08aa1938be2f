# SPDX-License-Identifier: Apache-2.0
"""The places at which a call of a Go function begins and ends: the instruction that each call crosses exactly once on its way
in, and those of which it crosses exactly one on its way out.

A Go function first compares the stack pointer with the end of its goroutine's stack. Where too little is left it jumps to a
block that has the runtime grow the stack, which copies it to another place, and then jumps back to the first instruction:

        cmp 0x10(%r14),%rsp          ldr x16, [x28, #0x10]
        jbe grow                     cmp sp, x16
        push %rbp                    b.ls grow

What comes before the branch runs again then, so the first instruction is no place for a probe. What comes behind it runs once:
a `push` since Go 1.21, which the kernel emulates; the branch itself, whenever it isn't taken, where there is none, as in older
functions and on aarch64. All of them see the stack pointer and the arguments that the function was called with.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from operator import attrgetter

from ssllatency.code.flow import Graph, Unplannable
from ssllatency.code.machine import BASELINE, ENDS, Cost, Emulation, Flow, Instruction
from ssllatency.data_class import dataclass

MAX_EXITS, MAX_CALLS = 256, 64
_LONGEST_HEAD, _LONGEST_BLOCK = 16, 64  # instructions up to the site; of the block that grows the stack
# The branches of the check. That of large frames has another one before, for a stack pointer that would wrap around.
_CHECKS, _WRAPS = ("jbe", "b.ls"), ("jb", "b.lo", "b.cc")
# Integer arguments and results, in their order (Go's ABIInternal), and the goroutine.
ARGUMENTS = {
    "rsp": ("rax", "rbx", "rcx", "rdi", "rsi", "r8", "r9", "r10", "r11"),
    "sp": tuple(f"x{number}" for number in range(16)),
}
_GOROUTINE = {"rsp": "r14", "sp": "x28"}
# The register that has the closure when its code is called, from where that is loaded, and how it is called.
_CLOSURE = {"rsp": "rdx", "sp": "x26"}
_LOADS = {"rsp": re.compile(r"mov (\w+), qword ptr \[(\w+)\]"), "sp": re.compile(r"ldr (\w+), \[(\w+)\]")}
CALLS = {"rsp": "call", "sp": "blr"}
_FIELDS = {"rsp": re.compile(r"mov \w+, qword ptr \[\w+ \+ (0x\w+|\d+)\]"), "sp": re.compile(r"ldr \w+, \[\w+, #(\w+)\]")}
# What the runtime's functions that copy what is passed may change.
_COPY_WRITES = {"rsp": {"rdi", "rsi"}, "sp": {"x16", "x17", "x20", "x21", "x26", "x27", "x30"}}
# The first word of an error that is returned alone, and of one that is returned behind an int, by machine.
RESULTS = {"x86-64": ("rax", "rbx"), "aarch64": ("x0", "x1")}


@dataclass(frozen=True)
class EntrySite:
    """An instruction at which a call begins; `not_taken`: it is a branch, and a call begins where it isn't taken."""

    address: int
    cost: Cost
    not_taken: bool = False


@dataclass(frozen=True)
class InnerCall:
    """A call within a function: a site on the way to it, and one behind it that control is sure to reach next in the
    function."""

    call: int
    behind: int


def entry_site(graph: Graph, grows: Collection[int], emulation: Emulation = BASELINE) -> EntrySite:
    """The entry site. `grows`: the addresses of the runtime's functions that grow a stack. Unplannable with the reason where
    the function doesn't begin as Go's do."""
    head = list(_head(graph, grows))
    checks = [index for index, instruction in enumerate(head) if instruction.flow is Flow.BRANCH]
    back = [address for address in graph.predecessors[graph.entry] if not _leads_back(graph, address, head, grows)]
    if back:
        raise Unplannable(f"its first instruction is jumped to from {back[0]:#x}, which isn't the check of its stack")
    if not checks:
        return _without_check(graph, head, emulation)
    check, behind = head[checks[-1]], head[checks[-1] + 1 : checks[-1] + 2]
    if _mnemonic(check) not in _CHECKS:
        raise Unplannable("the check of its stack isn't known")
    _keep_arguments(graph, head[: checks[-1]])
    if behind and behind[0].cost(emulation) is Cost.EMULATED and _unmoved(graph, behind[0]):
        return EntrySite(behind[0].address, Cost.EMULATED)
    if check.cost(emulation) is not Cost.EMULATED or not _unmoved(graph, check):
        raise Unplannable("the check of its stack can't be probed")
    return EntrySite(check.address, Cost.EMULATED, not_taken=True)


def _without_check(graph: Graph, head: list[Instruction], emulation: Emulation) -> EntrySite:
    """Of a function that needs little stack: its first push, else its first instruction."""
    emulated = (index for index, instruction in enumerate(head) if instruction.cost(emulation) is Cost.EMULATED)
    for index in (*emulated, *range(min(1, len(head)))):
        cost = head[index].cost(emulation)
        if cost is not None and _unmoved(graph, head[index]):
            _keep_arguments(graph, head[:index])
            return EntrySite(head[index].address, cost)
    raise Unplannable("no instruction at its entry can be probed")


def _head(graph: Graph, grows: Collection[int]) -> Iterator[Instruction]:
    """The instructions that each call runs through first in a straight line, past the checks of the stack."""
    address, before = graph.entry, graph.predecessors[graph.entry]
    for _ in range(_LONGEST_HEAD):
        if graph.predecessors[address] != before:
            return
        instruction = graph.nodes[address]
        checks = instruction.flow is Flow.BRANCH and _grows_stack(graph, instruction.target, grows)
        if instruction.flow is not Flow.NEXT and not checks:
            return
        yield instruction
        before, address = [address], instruction.end
        if address not in graph.nodes:
            return


def _block(graph: Graph, start: int | None) -> list[Instruction]:
    """The instructions from `start` on, up to the first that jumps."""
    block: list[Instruction] = []
    address = start
    while address in graph.nodes and len(block) < _LONGEST_BLOCK:
        block.append(graph.nodes[address])
        if block[-1].flow not in (Flow.NEXT, Flow.CALL):
            break
        address = block[-1].end
    return block


def _grows_stack(graph: Graph, start: int | None, grows: Collection[int]) -> bool:
    """Whether the block at `start` only has the stack grow and goes back to the first instruction."""
    block = _block(graph, start)
    calls = [instruction for instruction in block if instruction.flow is Flow.CALL]
    ends = block and block[-1].flow is Flow.JUMP and block[-1].target == graph.entry
    return bool(ends) and len(calls) == 1 and calls[0].target in grows


def _leads_back(graph: Graph, address: int, head: list[Instruction], grows: Collection[int]) -> bool:
    """Whether the jump at `address` to the first instruction ends a block that the checks of the stack lead to."""
    blocks = [_block(graph, check.target) for check in head if check.flow is Flow.BRANCH]
    return any(block[-1].address == address and _grows_stack(graph, block[0].address, grows) for block in blocks if block)


def _mnemonic(instruction: Instruction) -> str:
    return instruction.text.partition(" ")[0]


def _unmoved(graph: Graph, instruction: Instruction) -> bool:
    return graph.delta(instruction.address) == 0


def _keep_arguments(graph: Graph, instructions: list[Instruction]) -> None:
    """Unplannable where one of these changes an argument or the goroutine."""
    wanted = {*ARGUMENTS[graph.stack_pointer], _GOROUTINE[graph.stack_pointer]}
    for instruction in instructions:
        if wanted & instruction.writes:
            raise Unplannable(f"its arguments change at {instruction.address:#x}, before a probe can see them")


def exit_sites(graph: Graph) -> tuple[int, ...]:
    """The addresses of all `ret`s, at each of which the stack pointer is where it was at the entry, as far as the code shows
    it. Unplannable with the reason where a way out can't be followed."""
    for reason in graph.uncovered.values():
        raise Unplannable(reason)
    exits = tuple(sorted(graph.ways_out()))
    if not exits:
        raise Unplannable("it never returns")
    if len(exits) > MAX_EXITS:
        raise Unplannable(f"it has more than {MAX_EXITS} ways out")
    for address in exits:
        if graph.delta(address) not in (0, None):
            raise Unplannable(f"the stack doesn't balance at its return at {address:#x}")
    return exits


def call_sites(graph: Graph, callee: int, emulation: Emulation = BASELINE) -> tuple[InnerCall, ...]:
    """The calls of `callee`, each with the branch that comes first behind it: both emulated. Unplannable with the reason where
    there are none, or control may go another way in between."""
    sites = []
    for address, instruction in sorted(graph.nodes.items()):
        if instruction.flow is Flow.CALL and instruction.target == callee:
            branch = branch_behind(graph, instruction)
            if branch is None or {instruction.cost(emulation), branch.cost(emulation)} != {Cost.EMULATED}:
                raise Unplannable(f"no branch comes first behind its call at {address:#x}")
            sites.append(InnerCall(address, branch.address))
    if not sites:
        raise Unplannable(f"it doesn't call the function at {callee:#x}")
    return _bounded(sites)


def keeping_result(graph: Graph, calls: Sequence[InnerCall]) -> tuple[InnerCall, ...]:
    """These calls, each of which still has its first result in its register at the site behind it. Unplannable where one
    hasn't."""
    result = ARGUMENTS[graph.stack_pointer][0]
    for call in calls:
        address = graph.nodes[call.call].end
        while address != call.behind:
            if result in graph.nodes[address].writes:
                raise Unplannable(f"what its call at {call.call:#x} returns is gone before the branch behind it")
            address = graph.nodes[address].end
    return tuple(calls)


def branch_behind(graph: Graph, call: Instruction) -> Instruction | None:
    """The first branch behind a call, where a straight line that nothing else enters leads to it."""
    before, address = call.address, call.end
    for _ in range(_LONGEST_HEAD):
        if address not in graph.nodes or graph.predecessors[address] != [before]:
            return None
        instruction = graph.nodes[address]
        if instruction.flow is Flow.BRANCH:
            return instruction
        if instruction.flow is not Flow.NEXT:
            return None
        before, address = address, instruction.end
    return None


def closure_sites(
    graph: Graph, fields: Collection[int], copies: Collection[int], emulation: Emulation = BASELINE
) -> tuple[InnerCall, ...]:
    """The calls of closures that may come from one of these fields, by their offsets. Their code is loaded from the register in
    which the callee finds the closure: there is the site before the call, or at the call itself where that is emulated, and
    that register may be set behind the load. At both it has the closure, and that call comes next. `copies`: targets of calls
    that only copy what is passed. Unplannable with the reason where there are none."""
    sites = []
    instructions = sorted(graph.nodes.values(), key=attrgetter("address"))
    for call in instructions:
        if call.flow is not Flow.INDIRECT_CALL:
            continue
        load, closure = _load_of_code(graph, call, _before(instructions, call.address), copies)
        behind = _behind(graph, call, emulation)
        if load is None or behind is None or _is_of_another_field(graph, _before(instructions, load.address), closure, fields):
            continue
        site = call if call.cost(emulation) is Cost.EMULATED else load
        if site is load and closure != _CLOSURE[graph.stack_pointer]:
            continue
        depths = {graph.delta(place.address) for place in (site, call, behind)}
        if site.cost(emulation) is not None and len(depths) == 1:
            sites.append(InnerCall(site.address, behind.address))
    if not sites:
        raise Unplannable("no call of a closure is seen in it")
    return _bounded(sites)


def _bounded(sites: Sequence[InnerCall]) -> tuple[InnerCall, ...]:
    if len(sites) > MAX_CALLS:
        raise Unplannable(f"it has more than {MAX_CALLS} calls that would need a probe")
    return tuple(sites)


def _before(instructions: Sequence[Instruction], address: int) -> list[Instruction]:
    """Those before this address, the nearest first."""
    end = bisect_left(instructions, address, key=attrgetter("address"))
    return list(instructions[max(0, end - _LONGEST_BLOCK) : end])[::-1]


def _load_of_code(
    graph: Graph, call: Instruction, before: Sequence[Instruction], copies: Collection[int]
) -> tuple[Instruction | None, str]:
    """The load of the code that is called from the closure, and the register that has the closure there: all ways from there
    lead to the call, and no other does."""
    mnemonic, _, register = call.text.partition(" ")
    closure, loads = _CLOSURE[graph.stack_pointer], _LOADS[graph.stack_pointer]
    if mnemonic != CALLS[graph.stack_pointer]:
        return None, ""
    between = {call.address}
    for instruction in before:
        loaded = loads.fullmatch(instruction.text)
        if loaded and loaded[1] == register != closure == loaded[2]:
            return (instruction if _is_one_way(graph, instruction, between) else None), closure
        if instruction.copy and instruction.copy[::2] == (register, 64):
            register = instruction.copy[1]
        elif instruction.copy and instruction.copy[::2] == (closure, 64):
            closure = instruction.copy[1]
        elif {register, closure} & _written(graph, instruction, copies):
            return None, ""
        if instruction.flow not in (Flow.NEXT, Flow.BRANCH, Flow.CALL):
            return None, ""
        between.add(instruction.address)
    return None, ""


def _written(graph: Graph, instruction: Instruction, copies: Collection[int]) -> AbstractSet[str]:
    """The registers that the instruction may change, or what it calls."""
    copying = instruction.flow is Flow.CALL and instruction.target in copies
    return _COPY_WRITES[graph.stack_pointer] if copying else instruction.writes


def _is_one_way(graph: Graph, start: Instruction, between: Collection[int]) -> bool:
    """Whether these instructions, the last of which is a call, are only reached from `start`, and lead nowhere but on."""
    enclosed = all({*graph.predecessors[address]} <= {start.address, *between} for address in between)
    branches = (graph.nodes[address] for address in between if graph.nodes[address].flow is Flow.BRANCH)
    return enclosed and all(branch.target in between for branch in branches)


def _is_of_another_field(graph: Graph, before: Sequence[Instruction], closure: str, fields: Collection[int]) -> bool:
    """Whether the closure comes from elsewhere, as the instruction before says that sets its register. Some come from the
    stack, or as an argument."""
    for instruction in before:
        if instruction.flow in ENDS:
            return False
        if closure in instruction.writes:
            field = _FIELDS[graph.stack_pointer].fullmatch(instruction.text)
            from_stack = f"[{graph.stack_pointer}" in instruction.text
            return not from_stack and (field is None or int(field[1], 0) not in fields)
    return False


def _behind(graph: Graph, call: Instruction, emulation: Emulation) -> Instruction | None:
    """The first emulated branch behind a call, or else the next instruction."""
    branch, following = branch_behind(graph, call), graph.nodes.get(call.end)
    if branch is not None and branch.cost(emulation) is Cost.EMULATED:
        return branch
    return following if following is not None and following.cost(emulation) is not None else None
