# SPDX-License-Identifier: Apache-2.0
"""Branches as ways out: what is returned in either direction, where the kernel side can tell the direction from the flags."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ssllatency.code.flow import Graph
from ssllatency.code.machine import Flow
from ssllatency.code.return_values import ExitValues, Value
from ssllatency.probes.plan import CONSTANTS


def endings(graph: Graph, address: int, values: Mapping[int, Value | None]) -> ExitValues | None:
    """The values returned past a branch in each direction, as far as `values` knows; None where it isn't such a branch."""
    instruction, successors = graph.nodes[address], graph.successors[address]
    if instruction.flow is not Flow.BRANCH or not instruction.condition or len(successors) != 2:
        return None
    towards = {target == instruction.end: values.get(target) for target in successors}
    return ExitValues(towards.get(False), towards.get(True))


def settled(ending: ExitValues, *, branches: bool) -> bool:
    """Whether a cookie has room for it: one register, and constants that are small. Without `branches`, a register alone."""
    if not branches:
        return isinstance(ending.taken, str) and ending.taken == ending.other
    numbers = [value for value in (ending.taken, ending.other) if isinstance(value, int)]
    return len(ending.registers) <= 1 and all(number in CONSTANTS for number in numbers)


def run_once(graph: Graph) -> set[int]:
    """Instructions that a call runs at most once: those that no loop leads to, and those that lead to no loop."""
    predecessors = {address: set(before) for address, before in graph.predecessors.items()}
    return {*topological_order(graph.successors, predecessors), *topological_order(predecessors, graph.successors)}


def topological_order(
    successors: Mapping[int, Collection[int]],
    predecessors: Mapping[int, Collection[int]],
    is_barred: Callable[[int], bool] = lambda _: False,
) -> list[int]:
    """The nodes of a graph, each after all its predecessors, by Kahn's algorithm. Those in a cycle aren't among them, nor those
    that are barred, nor what either leads to. Given the edges the other way round, each comes after all its successors."""
    missing = {node: len(sources) for node, sources in predecessors.items()}  # predecessors that aren't in the order yet
    ready = [node for node, count in missing.items() if count == 0]
    order = []
    while ready:
        node = ready.pop()
        if is_barred(node):
            continue
        order.append(node)
        for successor in successors[node]:
            missing[successor] -= 1
            if missing[successor] == 0:
                ready.append(successor)
    return order
