# SPDX-License-Identifier: Apache-2.0
"""The ways that only a size query takes: a call with a NULL buffer, which isn't counted, so that its end needs no site.

Such a way begins at a branch on the buffer's being NULL, while a register still holds that argument as it was passed.
"""

from __future__ import annotations

from collections import deque

from ssllatency.code.flow import Graph
from ssllatency.code.machine import Flow, Instruction, Machine

_LOOK_BACK = 6  # instructions between a comparison and its branch


def without_size_queries(graph: Graph, machine: Machine, argument: str) -> Graph:
    """The graph without the ways that are only taken where the register `argument` is NULL at the entry."""
    holding = _holding(graph, argument)
    edges = set()
    for address, instruction in graph.nodes.items():
        if instruction.flow is Flow.BRANCH and len(graph.successors[address]) == 2:
            edges.update(_null_edge(graph, machine, instruction, holding))
    return graph.without(edges) if edges else graph


def passes_null(graph: Graph, call: int, argument: str) -> bool:
    """Whether the call is a size query by what stands just before it: the register `argument` is set to NULL there."""
    if call not in graph.nodes:
        return False
    for instruction in reversed(_straight(graph, graph.nodes[call])[:-1]):
        if instruction.zeroed == argument:
            return True
        if argument in instruction.writes:
            return False
    return False


def _null_edge(graph: Graph, machine: Machine, branch: Instruction, holding: dict[int, frozenset[str]]) -> set[tuple[int, int]]:
    path = _straight(graph, branch)
    tested = machine.null_branch(path)
    if tested is None:
        return set()
    register, comparison, taken = tested
    if register not in holding.get(path[comparison].address, ()):
        return set()
    return {(branch.address, target) for target in graph.successors[branch.address] if (target != branch.end) == taken}


def _straight(graph: Graph, instruction: Instruction) -> list[Instruction]:
    """The last instructions that run straight into `instruction`, and it."""
    path = [instruction]
    while len(path) <= _LOOK_BACK and path[0].address != graph.entry:
        before = graph.predecessors[path[0].address]
        if len(before) != 1 or graph.nodes[before[0]].flow is not Flow.NEXT:
            break
        path.insert(0, graph.nodes[before[0]])
    return path


def _holding(graph: Graph, argument: str) -> dict[int, frozenset[str]]:
    """The registers that, before each instruction, hold what `argument` held at the entry, whichever way led there."""
    registers = {graph.entry: frozenset((argument,))}
    work = deque([graph.entry])
    while work:
        address = work.popleft()
        after = _after(graph.nodes[address], registers[address])
        for successor in graph.successors[address]:
            earlier = registers.get(successor)
            joined = after if earlier is None else earlier & after
            if joined != earlier:
                registers[successor] = joined
                work.append(successor)
    return registers


def _after(instruction: Instruction, held: frozenset[str]) -> frozenset[str]:
    kept = held - instruction.writes
    copied = instruction.copy
    return kept | {copied[0]} if copied and copied[1] in held and copied[2] == 64 else kept
