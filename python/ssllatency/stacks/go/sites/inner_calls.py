# SPDX-License-Identifier: Apache-2.0
"""Calls of methods of an interface within a Go function, as of a crypto.Signer that may be anybody's.

Such a call loads the method's code from the table of methods of the interface's value (the itab), and calls it with the value
and the arguments in registers:

        mov 0x20(%r12),%r12          ldr x8, [x8, #0x20]
        ...                          ...
        call *%r12                   blr x8

Where in an itab a method is, the interface's own type tells, which has its methods in the same order. Other interfaces have
methods there as well, so that a call is only taken if it passes as many arguments, and if it is the only one in its function.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ssllatency.code.flow import Graph, Unplannable
from ssllatency.code.machine import BASELINE, Cost, Emulation, Flow, Instruction
from ssllatency.data_class import dataclass
from ssllatency.stacks.go.sites.choose import ARGUMENTS, CALLS, InnerCall, branch_behind

_LONGEST = 32  # instructions of a straight line that ends in a call
_LOADS = {"rsp": re.compile(r"mov (\w+), qword ptr \[\w+ \+ (0x\w+|\d+)\]"), "sp": re.compile(r"ldr (\w+), \[\w+, #(\w+)\]")}


@dataclass(frozen=True)
class InterfaceMethod:
    """A method of an interface: where its code is in an itab, and how many registers its arguments take with its receiver."""

    offset: int
    words: int


def method_sites(graph: Graph, method: InterfaceMethod, emulation: Emulation = BASELINE) -> tuple[InnerCall, ...]:
    """The function's only call of the method, with the branch that comes first behind it. The site before the call is one of
    the instructions from the load of its code on, an emulated one if there is any. Unplannable with the reason where there are
    none or several, or control may go another way in between."""
    lines = [line for call in _indirect_calls(graph) if (line := _line_from_load(graph, call, method))]
    if len(lines) != 1:
        raise Unplannable(f"{len(lines) or 'no'} calls of the method are seen in it, and one is expected")
    ((call, *line),) = lines
    site = next((place for place in (call, *line) if place.cost(emulation) is Cost.EMULATED), line[-1])
    behind = branch_behind(graph, call)
    if behind is None or behind.cost(emulation) is not Cost.EMULATED:
        raise Unplannable(f"no branch comes first behind its call at {call.address:#x}")
    if site.cost(emulation) is None or len({graph.delta(place.address) for place in (site, call, behind)}) != 1:
        raise Unplannable(f"nothing before its call at {call.address:#x} can be probed")
    return (InnerCall(site.address, behind.address),)


def _indirect_calls(graph: Graph) -> Iterator[Instruction]:
    return (instruction for _, instruction in sorted(graph.nodes.items()) if instruction.flow is Flow.INDIRECT_CALL)


def _line_from_load(graph: Graph, call: Instruction, method: InterfaceMethod) -> Sequence[Instruction]:
    """The call and what comes before it back to the load of the method's code, if a straight line leads from there to the call,
    and all arguments are set in that line; else nothing."""
    line = _line(graph, call)
    written = {register for instruction in line for register in instruction.writes}
    if not {*ARGUMENTS[graph.stack_pointer][: method.words]} <= written:
        return ()
    load = _load(graph, call, line, method)
    return () if load is None else (call, *line[: load + 1])


def _line(graph: Graph, call: Instruction) -> Sequence[Instruction]:
    """The instructions before the call that each lead to the next one alone, and to which nothing else leads; the nearest
    first."""
    line: list[Instruction] = []
    address = call.address
    for _ in range(_LONGEST):
        before = graph.predecessors[address]
        instruction = graph.nodes[before[0]] if len(before) == 1 else None
        if instruction is None or instruction.flow is not Flow.NEXT:
            break
        line.append(instruction)
        address = instruction.address
    return line


def _load(graph: Graph, call: Instruction, line: Sequence[Instruction], method: InterfaceMethod) -> int | None:
    """The place in the line at which the code that is called is loaded; None where it isn't the method's."""
    mnemonic, _, register = call.text.partition(" ")
    if mnemonic != CALLS[graph.stack_pointer]:
        return None
    for index, instruction in enumerate(line):
        if register not in instruction.writes:
            continue
        if instruction.copy and instruction.copy[::2] == (register, 64):
            register = instruction.copy[1]
            continue
        load = _LOADS[graph.stack_pointer].fullmatch(instruction.text)
        return index if load and load[1] == register and int(load[2], 0) == method.offset else None
    return None
