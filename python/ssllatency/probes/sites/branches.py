# SPDX-License-Identifier: Apache-2.0
"""Branches as ways out: what is returned in either direction, where the kernel side can tell the direction from the flags."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ssllatency.code.flow import Graph
from ssllatency.code.machine import Flow
from ssllatency.code.return_values import Ending, Value
from ssllatency.probes.plan import CONSTANTS


def endings(graph: Graph, address: int, values: Mapping[int, Value | None]) -> Ending | None:
    """What is returned past a branch in each direction, as far as `values` knows; None where it isn't such a branch."""
    each, successors = graph.nodes[address], graph.successors[address]
    if each.flow is not Flow.BRANCH or not each.condition or len(successors) != 2:
        return None
    towards = {target == each.end: values.get(target) for target in successors}
    return Ending(towards.get(False), towards.get(True))


def settled(ending: Ending, *, branches: bool) -> bool:
    """Whether a cookie has room for it: one register, and constants that are small. Without `branches`, a register alone."""
    if not branches:
        return isinstance(ending.taken, str) and ending.taken == ending.other
    numbers = [value for value in (ending.taken, ending.other) if isinstance(value, int)]
    return len(ending.registers) <= 1 and all(number in CONSTANTS for number in numbers)


def run_once(graph: Graph) -> set[int]:
    """Instructions that a call runs at most once: those that no loop leads to, and those that lead to no loop."""
    predecessors = {address: set(found) for address, found in graph.predecessors.items()}
    return {*peeled(graph.successors, predecessors), *peeled(predecessors, graph.successors)}


def peeled(
    ahead: Mapping[int, Collection[int]],
    behind: Mapping[int, Collection[int]],
    stays: Callable[[int], bool] = lambda _: False,
) -> list[int]:
    """What has nothing behind it, is taken away, and so on, in that order; what `stays` is never taken."""
    pending = {address: len(found) for address, found in behind.items()}
    work = [address for address, count in pending.items() if count == 0]
    found = []
    while work:
        address = work.pop()
        if stays(address):
            continue
        found.append(address)
        for each in ahead[address]:
            pending[each] -= 1
            if pending[each] == 0:
                work.append(each)
    return found
