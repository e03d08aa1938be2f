# SPDX-License-Identifier: Apache-2.0
"""A second opinion on the sites of a Go function, which shares nothing with how they were chosen.

- Instructions begin at the sites, and `ret`s nowhere else in the function, by a second decoder that knows only their lengths.
- The runtime's own table of stack depths says 0 at each of them.
- Walked forwards the way a call runs, every way crosses the entry site once, and then exactly one exit: a `ret`, or the call of
  the deferred function at whose entry calls end, and then a `ret` that is none.
- By their bytes, the results are loaded from the slots that a deferred function's site says, between that call and the `ret`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import Enum

from ssllatency.code.boundaries import boundaries
from ssllatency.code.flow import Graph, Unplannable
from ssllatency.code.machine import Flow
from ssllatency.stacks.go.body import Depths
from ssllatency.stacks.go.sites.choose import EntrySite, InnerCall
from ssllatency.stacks.go.sites.deferred import WORD, DeferredExit

_RAX, _RCX, _RBX = 0, 1, 3  # by their numbers in instructions
_RETURNS = {"x86-64": (b"\xc3", b"\xc2"), "aarch64": (bytes.fromhex("c0035fd6"),)}


class _Stage(Enum):
    """The progress of a call."""

    BEFORE = "before the entry site"
    INSIDE = "past the entry site"
    ENDED = "past the deferred call at which it ends"


def check(
    machine: str,
    code: bytes,
    graph: Graph,
    depths: Depths,
    entry: EntrySite,
    exits: Collection[int],
    deferred: DeferredExit | None = None,
) -> None:
    """Unplannable, with what is wrong, where these aren't the sites of the function whose code that is. `exits`: the `ret`s
    that are sites; `deferred`: what ends the other calls."""
    ends = {*exits, *(deferred.returns if deferred else ())}
    check_boundaries(machine, code, graph, [entry.address, *ends, *(deferred.calls if deferred else ())])
    returns = {graph.entry + at for at in boundaries(machine, code) if code.startswith(_RETURNS[machine], at)}
    if returns != ends:
        raise Unplannable(f"nothing is known to lead to its return at {min(returns ^ ends):#x}")
    _check_depths(depths, [entry.address, *ends])
    _walk(graph, depths.recoveries, entry, exits, deferred.calls if deferred else ())
    if deferred:
        _check_deferred(code, graph, depths, deferred)


def _check_deferred(code: bytes, graph: Graph, depths: Depths, deferred: DeferredExit) -> None:
    """Unplannable where the stack isn't as deep at its calls as is told, or the results aren't where it is told."""
    if {depths.at(call) for call in deferred.calls} != {deferred.depth - WORD}:
        raise Unplannable("its table of stack depths has another at the calls that it defers")
    count, error = (slot - WORD for slot in deferred.results)
    loads = [_load(_RAX, count), _load(_RBX, error), _load(_RCX, error + WORD)]
    for end in deferred.returns:
        begin = max((call for call in deferred.calls if call < end), default=end)
        between = code[begin - graph.entry : end - graph.entry]
        if not all(between.count(load) == 1 for load in loads):
            raise Unplannable(f"its results aren't loaded from where they should be before its return at {end:#x}")


def _load(register: int, slot: int) -> bytes:
    """The instruction that loads this register from a slot of the frame, on x86-64."""
    short = slot < 1 << 7
    return bytes((0x48, 0x8B, (0x44 if short else 0x84) | register << 3, 0x24)) + slot.to_bytes(1 if short else 4, "little")


def check_entry(machine: str, code: bytes, graph: Graph, depths: Depths, entry: EntrySite) -> None:
    """Unplannable, where this isn't the site of a function that is probed at its entry alone."""
    check_boundaries(machine, code, graph, [entry.address])
    _check_depths(depths, [entry.address])
    _walk(graph, depths.recoveries, entry, graph.ways_out())


def check_calls(machine: str, code: bytes, graph: Graph, depths: Depths, calls: Collection[InnerCall]) -> None:
    """Unplannable, where these aren't sites around calls within the function: at both the stack is as deep."""
    check_boundaries(machine, code, graph, [site for call in calls for site in (call.call, call.behind)])
    for call in calls:
        if depths.at(call.call) is None or depths.at(call.call) != depths.at(call.behind):
            raise Unplannable(f"its table of stack depths has another behind its call at {call.call:#x}")


def check_boundaries(machine: str, code: bytes, graph: Graph, sites: Collection[int]) -> None:
    """Unplannable where no instruction of the function begins at a site, by the lengths of those before it."""
    begins = boundaries(machine, code)
    wrong = [address for address in {*graph.nodes, *sites} if address - graph.entry not in begins or address not in graph.nodes]
    if wrong:
        raise Unplannable(f"by the lengths of its instructions none begins at {min(wrong):#x}")


def _check_depths(depths: Depths, sites: Collection[int]) -> None:
    for address in sites:
        if depths.at(address) != 0:
            raise Unplannable(f"its table of stack depths and its code disagree at {address:#x}")


def _walk(
    graph: Graph, recoveries: Collection[int], entry: EntrySite, exits: Collection[int], ending: Collection[int] = ()
) -> None:
    work = [(graph.entry, _Stage.BEFORE), *((address, _Stage.INSIDE) for address in recoveries)]
    seen = set(work)
    while work:
        address, stage = work.pop()
        for state in _steps(graph, address, stage, entry, exits, ending):
            if state not in seen:
                seen.add(state)
                work.append(state)


def _steps(
    graph: Graph, address: int, stage: _Stage, entry: EntrySite, exits: Collection[int], ending: Collection[int]
) -> Iterator[tuple[int, _Stage]]:
    """Return where a call goes from an instruction, and how far it has come then."""
    instruction = graph.nodes[address]
    if instruction.flow is Flow.RETURN and stage is not (_Stage.INSIDE if address in exits else _Stage.ENDED):
        raise Unplannable(
            f"a call can leave at {address:#x} without having crossed one site on its way in and one on its way out"
        )
    if address == entry.address and stage is not _Stage.BEFORE:
        raise Unplannable(f"a call can cross its entry site at {address:#x} twice")
    if address in ending and stage is not _Stage.INSIDE:
        raise Unplannable(f"a call can come to the deferred call at {address:#x} before it began, or twice")
    for successor in graph.successors[address]:
        crossed = address == entry.address and (not entry.not_taken or successor == instruction.end)
        if crossed and entry.not_taken and instruction.target == instruction.end:
            raise Unplannable(f"its branch at {address:#x} leads to the same place either way")
        yield successor, _Stage.ENDED if address in ending else _Stage.INSIDE if crossed else stage
