# SPDX-License-Identifier: Apache-2.0
"""The probe sites of a Go executable: of each traced function that it has, with the reason where there are none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

from ssllatency.code.aarch64.machine import Aarch64
from ssllatency.code.flow import Code, Graph, Unplannable
from ssllatency.code.machine import BASELINE, Cost, Emulation, Flow, Machine
from ssllatency.code.x86.machine import X86
from ssllatency.data_class import dataclass
from ssllatency.elf.image import ElfError, Function
from ssllatency.stacks.go.body import Depths, GoBodies
from ssllatency.stacks.go.program import Program
from ssllatency.stacks.go.sites import verify
from ssllatency.stacks.go.sites.choose import (
    EntrySite,
    InnerCall,
    call_sites,
    closure_sites,
    entry_site,
    exit_sites,
    keeping_result,
)
from ssllatency.stacks.go.sites.deferred import DeferredCode, DeferredExit, deferred_exit
from ssllatency.stacks.go.sites.inner_calls import InterfaceMethod, method_sites
from ssllatency.stacks.go.traced_functions import (
    CALLBACKS,
    DECRYPTS,
    NEWEST,
    SIGNS,
    TLS,
    Purpose,
    Shape,
    TracedFunction,
    functions_of,
)

# What grows a stack: runtime.morestack, .morestack_noctxt and .morestackc.
_GROWS = ("runtime.morestack", "runtime.morestack_noctxt", "runtime.morestackc")

_COPIES = ("runtime.duffcopy", "runtime.duffzero")  # what is passed by value; they change no register that has an argument

# How many registers the arguments of a method take: its receiver, what gives random bytes, the bytes, and options.
_WORDS = {SIGNS: 8, DECRYPTS: 8}

_LARGEST = 1 << 20  # bytes of a function
_IO = (Purpose.READ, Purpose.WRITE)  # those return a number and an error


@dataclass(frozen=True)
class FunctionPlan:
    """The sites of a traced function: `entry` and `exits`, or `calls`, by its shape. `deferred`: the end of calls that cross
    none of `exits`. `inlined_into`: functions in which its calls can't be seen. `obstacle`: why it has no sites, a phrase
    without a full stop; "" where it has."""

    traced: TracedFunction
    address: int = 0
    size: int = 0
    entry: EntrySite | None = None
    exits: tuple[int, ...] = ()
    deferred: DeferredExit | None = None
    calls: tuple[InnerCall, ...] = ()
    inlined_into: tuple[str, ...] = ()
    obstacle: str = ""


class FunctionPlanner:
    """Plans the functions of one executable. ElfError from the constructor where its table of functions can't be read."""

    def __init__(self, program: Program, emulation: Emulation = BASELINE) -> None:
        self._program, self._emulation = program, emulation
        machine: Machine = Aarch64() if program.image.machine == "aarch64" else X86()
        self._bodies = GoBodies(Code(program.image, machine), program.functions)
        named = (function for name in _GROWS for function in program.functions.named(name))
        self._grows = frozenset(function.address for function in named)

    def returns_cheaply(self, caller: TracedFunction) -> FunctionPlan | None:
        """The plan of a function whose calls of another one show what that returns at a branch, which costs less than its
        `ret`s; None where they don't, or a `ret` costs no more. ElfError as from `plan`."""
        if self._program.image.machine != "x86-64" or (self._program.build_info.minor or NEWEST + 1) > NEWEST:
            return None
        planned = self.plan(caller)
        return planned if planned.calls and not planned.inlined_into else None

    @cached_property
    def certificates_offset(self) -> int | None:
        """The offset of the certificates in a tls.Certificate; None: not known. ElfError where types are damaged."""
        return self._program.types.offset(TLS, "Certificate", "Certificate")

    def plan(self, traced: TracedFunction) -> FunctionPlan:
        """The sites of one function. ElfError where the tables of functions are damaged."""
        functions = self._program.functions.named(traced.name)
        inlined = tuple(self._program.inlining.hosts(traced.name))
        if len(functions) != 1:
            several = f"the file has {len(functions)} functions of this name"
            return FunctionPlan(traced, inlined_into=inlined, obstacle=several if functions else "the file doesn't have it")
        planned = FunctionPlan(traced, functions[0].address, functions[0].size, inlined_into=inlined)
        try:
            return self._with_sites(planned, functions[0])
        except Unplannable as reason:
            return replace(planned, obstacle=str(reason))

    def _with_sites(self, planned: FunctionPlan, function: Function) -> FunctionPlan:
        if function.size > _LARGEST:
            raise Unplannable("it is too large to be followed")
        traced, graph = planned.traced, self._bodies.graph(function)
        code, depths = self._program.image.code(function.address, function.size), self._bodies.depths(function)
        machine = self._program.image.machine
        if traced.shape in (Shape.CALL, Shape.RESULT, Shape.CLOSURES, Shape.METHOD):
            calls = self._calls(traced, graph)
            verify.check_calls(machine, code, graph, depths, calls)
            return replace(planned, calls=calls)
        entry = entry_site(graph, self._grows, self._emulation)
        if traced.shape is not Shape.SPAN:
            verify.check_entry(machine, code, graph, depths, entry)
            return replace(planned, entry=entry)
        exits = exit_sites(graph)
        verify.check(machine, code, graph, depths, entry, exits)
        planned = replace(planned, entry=entry, exits=exits)
        return self._with_deferred(planned, graph, code, depths) if traced.purpose in _IO else planned

    def _with_deferred(self, planned: FunctionPlan, graph: Graph, code: bytes, depths: Depths) -> FunctionPlan:
        """With an end at what the function defers, where that costs less than its `ret`s and is sure."""
        costs = {graph.nodes[address].cost(self._emulation) for address in planned.exits}
        deferred = deferred_exit(graph, planned.exits, self._deferred_code) if Cost.SINGLE_STEPPED in costs else None
        if deferred is None or planned.entry is None:
            return planned
        exits = tuple(address for address in planned.exits if address not in deferred.returns)
        try:
            verify.check(self._program.image.machine, code, graph, depths, planned.entry, exits, deferred)
        except Unplannable:
            return planned
        return replace(planned, exits=exits, deferred=deferred)

    def _deferred_code(self, address: int) -> DeferredCode | None:
        """The function that begins there, with a sure entry site."""
        function = self._program.functions.at(address)
        if function is None or function.address != address or function.size > _LARGEST:
            return None
        try:
            code = self._program.image.code(function.address, function.size)
            graph = self._bodies.graph(function)
            entry = entry_site(graph, self._grows, self._emulation)
            verify.check_entry(self._program.image.machine, code, graph, self._bodies.depths(function), entry)
        except (Unplannable, ElfError):
            return None
        return DeferredCode(function.address, function.size, entry)

    def _calls(self, traced: TracedFunction, graph: Graph) -> tuple[InnerCall, ...]:
        if traced.shape in (Shape.CALL, Shape.RESULT):
            calls = call_sites(graph, self._address(traced.callee), self._emulation)
            return calls if traced.shape is Shape.CALL else keeping_result(graph, calls)
        if traced.shape is Shape.METHOD:
            return method_sites(graph, self._method(traced.callee), self._emulation)
        targets = {instruction.target for instruction in graph.nodes.values() if instruction.flow is Flow.CALL}
        named = {target: self._program.functions.at(target) for target in targets if target is not None}
        copies = {target for target, function in named.items() if function and function.name in _COPIES}
        return closure_sites(graph, self._callback_fields, copies, self._emulation)

    @cached_property
    def _callback_fields(self) -> set[int]:
        """The offsets of the application's functions in a Config."""
        offsets = (self._program.types.offset(TLS, "Config", field) for field in CALLBACKS.values())
        return {offset for offset in offsets if offset is not None}

    def _method(self, name: str) -> InterfaceMethod:
        """A method of an interface, by the names of its package, of that and its own. ElfError where types are damaged."""
        package, interface, method = name.split(".")
        offset = self._program.types.method_offset(package, interface, method)
        if offset is None:
            raise Unplannable(f"the program's types don't show {name}")
        return InterfaceMethod(offset, _WORDS[name])

    def _address(self, name: str) -> int:
        functions = self._program.functions.named(name)
        if len(functions) != 1:
            raise Unplannable(f"the file has {len(functions) or 'no'} functions called {name}")
        return functions[0].address


def plan(program: Program, emulation: Emulation = BASELINE) -> list[FunctionPlan]:
    """The plans of all traced functions that this version of Go has. ElfError where the tables of functions are damaged."""
    return plan_functions(program, functions_of(program.build_info.minor), emulation)


def plan_functions(
    program: Program, functions: Iterable[TracedFunction], emulation: Emulation = BASELINE
) -> list[FunctionPlan]:
    """The plans of these functions."""
    planner = FunctionPlanner(program, emulation)
    return [planner.plan(function) for function in functions]
