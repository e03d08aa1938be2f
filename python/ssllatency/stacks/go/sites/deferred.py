# SPDX-License-Identifier: Apache-2.0
"""Ends of calls at a function that they defer, where that costs less than a probe at each `ret`.

A function that defers calls in no loop keeps each closure in its frame, and calls it before it returns:

        mov %rax,0x30(%rsp)     the results, in their slots
        mov 0x50(%rsp),%rdx     the closure, which it has made in its frame
        mov (%rdx),%rax
        call *%rax              its code, a function of its own: `push %rbp` there is the site
        mov 0x20(%rsp),%rax     the results again
        mov 0x30(%rsp),%rbx
        mov 0x38(%rsp),%rcx
        ...
        ret

On x86-64 a `ret` is single-stepped, while the entry of the closure's code is emulated. Where a panic leaves the function, the
runtime calls the closure, from frames of its own, deeper in the stack: a call ends there only at the depth of the call above.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import attrgetter

from ssllatency.code.flow import Graph
from ssllatency.code.machine import Cost, Flow, Instruction
from ssllatency.data_class import dataclass
from ssllatency.stacks.base import LARGEST_FRAME, fits_cookie
from ssllatency.stacks.go.sites.choose import EntrySite

WORD = 8
_LONGEST_LINE = 64  # instructions before a `ret`
_MOST_SLOTS = 8  # of closures, in functions that are looked at; Go's have one or two
_LOAD = re.compile(r"mov (\w+), qword ptr \[rsp \+ (0x\w+|\d+)\]")
_CODE = re.compile(r"mov (\w+), qword ptr \[(\w+)\]")
_CALL = re.compile(r"call (\w+)")
_OWN = re.compile(r"lea (\w+), \[rsp \+ (0x\w+|\d+)\]")
_FUNCTION = re.compile(r"lea (\w+), \[rip ([+-]) (0x\w+|\d+)\]")
_STORE = re.compile(r"\w+ (\w+) ptr \[rsp(?: \+ (0x\w+|\d+))?\], (\w+)")
_SIZES = {"byte": 1, "word": 2, "dword": 4, "qword": 8, "xmmword": 16}
_NOTHING = ("0", "xmm15")  # Go keeps this register at zero


@dataclass(frozen=True)
class DeferredCode:
    """The function that a deferred call runs: its range, and its entry site."""

    address: int
    size: int
    entry: EntrySite


@dataclass(frozen=True)
class DeferredExit:
    """The end of a function's calls at the entry of what they defer. `calls`: where the function calls that, once on the way to
    each of `returns`, which need no site then. `depth`: bytes from the stack pointer at the site up to where it was when the
    function was called. `results`: bytes from there up to the slots of the two results, a number and an error."""

    code: DeferredCode
    calls: tuple[int, ...]
    returns: tuple[int, ...]
    depth: int
    results: tuple[int, int]


@dataclass(frozen=True)
class _Return:
    """A `ret`: the calls of closures before it, each with the slot that it finds the closure in; and the slots of results."""

    address: int
    calls: Mapping[int, int]
    results: tuple[int, int]


def deferred_exit(graph: Graph, exits: Collection[int], code_at: Callable[[int], DeferredCode | None]) -> DeferredExit | None:
    """The deferred call that ends most calls of a function which returns a number and an error; None where there is none that
    costs less. `exits`: its `ret`s; `code_at`: the function that begins at an address, None where it has no entry site."""
    returns = [found for address in exits if (found := _return(graph, address))]
    slots = {slot for found in returns for slot in found.calls.values()}
    if len(slots) > _MOST_SLOTS:
        return None
    ends = [end for slot in sorted(slots) if (end := _at(graph, slot, returns, code_at))]
    return max(ends, key=lambda end: len(end.returns), default=None)


def _at(
    graph: Graph, slot: int, returns: Sequence[_Return], code_at: Callable[[int], DeferredCode | None]
) -> DeferredExit | None:
    """The end at the deferred call whose closure is in this slot."""
    address = _code_of(graph, slot)
    code = code_at(address) if address is not None else None
    through = [found for found in returns if [*found.calls.values()].count(slot) == 1]
    if code is None or code.entry.cost is not Cost.EMULATED or not through:
        return None
    calls = tuple(sorted(call for found in through for call, where in found.calls.items() if where == slot))
    depths, results = {graph.delta(call) for call in calls}, {found.results for found in through}
    if len(depths) != 1 or len(results) != 1:
        return None
    (depth,), ((count, error),) = depths, results
    above = (count + WORD, error + WORD)
    if depth is None or not 0 <= depth < LARGEST_FRAME - WORD or not fits_cookie(above) or _is_shown(graph, count, error):
        return None
    return DeferredExit(code, calls, tuple(sorted(found.address for found in through)), depth + WORD, above)


def _is_shown(graph: Graph, count: int, error: int) -> bool:
    """Whether the address of a result is taken, so that a deferred function might change it."""
    taken = (_OWN.fullmatch(instruction.text) for instruction in graph.nodes.values())
    return any(int(found[2], 0) in (count, error, error + WORD) for found in taken if found)


def _return(graph: Graph, address: int) -> _Return | None:
    """A `ret` to which a straight line leads from deferred calls, and by which the results are loaded from their slots."""
    line = [*_line(graph, address)][::-1]
    at = [index for index, instruction in enumerate(line) if instruction.flow is Flow.INDIRECT_CALL]
    if not at:
        return None
    results = _results(line[at[-1] + 1 :])
    calls = {line[index].address: _closure_slot(line[:index]) for index in at}
    known = {call: slot for call, slot in calls.items() if slot is not None}
    if results is None or len(known) != len(calls) or _changes(line[at[0] :], results):
        return None
    return _Return(address, known, results)


def _line(graph: Graph, address: int) -> Iterator[Instruction]:
    """The `ret`, and what comes before it in a straight line that nothing else enters, the nearest first."""
    for _ in range(_LONGEST_LINE):
        yield graph.nodes[address]
        before = graph.predecessors[address]
        if len(before) != 1 or graph.nodes[before[0]].flow not in (Flow.NEXT, Flow.INDIRECT_CALL):
            return
        address = before[0]


def _closure_slot(before: Sequence[Instruction]) -> int | None:
    """The slot with the closure whose code is called next: loaded to the register where the callee expects it."""
    loads = [instruction for instruction in before[-4:] if not instruction.padding][-2:]
    if len(loads) < 2:
        return None
    closure, code = _LOAD.fullmatch(loads[0].text), _CODE.fullmatch(loads[1].text)
    return int(closure[2], 0) if closure and code and closure[1] == code[2] == "rdx" and code[1] == "rax" else None


def _results(behind: Sequence[Instruction]) -> tuple[int, int] | None:
    """The slots from which rax, and rbx and rcx as the two words of an error, are loaded behind the last call."""
    loaded: dict[str, int] = {}
    for instruction in behind:
        load = _LOAD.fullmatch(instruction.text)
        if load:
            loaded[load[1]] = int(load[2], 0)
        elif instruction.writes & {"rax", "rbx", "rcx"}:
            return None
    if not {"rax", "rbx", "rcx"} <= loaded.keys() or loaded["rcx"] != loaded["rbx"] + WORD:
        return None
    return loaded["rax"], loaded["rbx"]


def _changes(line: Sequence[Instruction], results: tuple[int, int]) -> bool:
    """Whether a result's slot is written there, or something is that isn't known, registers aside."""
    words = {results[0], results[1], results[1] + WORD}
    for instruction in line:
        destination = instruction.text.partition(" ")[2].partition(",")[0]
        store = _STORE.fullmatch(instruction.text)
        if "[" in destination and (store is None or any(_covers(store, word) for word in words)):
            return True
    return False


def _covers(store: re.Match[str], slot: int) -> bool:
    """Whether a store to the frame writes to the word of this slot."""
    at, size = int(store[2] or "0", 0), _SIZES.get(store[1], _SIZES["xmmword"])
    return at < slot + WORD and slot < at + size


def _code_of(graph: Graph, slot: int) -> int | None:
    """The code of the closure that this slot leads to: one that is made in the frame, and whose address is all that is ever
    put there but nothing."""
    instructions = sorted(graph.nodes.values(), key=attrgetter("address"))
    closures = {_address(_source(instructions, index)) for index in _stores(instructions, slot)}
    (closure,) = closures if len(closures) == 1 else (None,)
    if closure is None or closure[0] != "rsp":
        return None
    codes = {_address(_source(instructions, index)) for index in _stores(instructions, closure[1])}
    (code,) = codes if len(codes) == 1 else (None,)
    return code[1] if code and code[0] == "rip" else None


def _stores(instructions: Sequence[Instruction], slot: int) -> Iterator[int]:
    """The places at which something other than nothing is put into a slot of the frame."""
    for index, instruction in enumerate(instructions):
        store = _STORE.fullmatch(instruction.text)
        if store and _covers(store, slot) and store[3] not in _NOTHING:
            source = _source(instructions, index)
            if source is None or (source.constant or ("", 1))[1]:
                yield index


def _source(instructions: Sequence[Instruction], index: int) -> Instruction | None:
    """The instruction that sets the register which is stored there, if a straight line leads from it."""
    register = instructions[index].text.rpartition(" ")[2]
    for before in reversed(instructions[max(0, index - _LONGEST_LINE) : index]):
        if register in before.writes:
            return before
        if before.flow is not Flow.NEXT:
            return None
    return None


def _address(instruction: Instruction | None) -> tuple[str, int] | None:
    """The address that an instruction sets: of a function, or in the frame."""
    own, function = (pattern.fullmatch(instruction.text if instruction else "") for pattern in (_OWN, _FUNCTION))
    if function and instruction:
        return "rip", instruction.end + int(function[2] + function[3], 0)
    return ("rsp", int(own[2], 0)) if own else None
