# SPDX-License-Identifier: Apache-2.0
"""The probe sites of a Go executable: of each traced function that it has, with the reason where there are none."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from ssllatency.code.aarch64.machine import Aarch64
from ssllatency.code.flow import Code, Graph, Unplannable
from ssllatency.code.machine import BASELINE, Emulation, Flow, Machine
from ssllatency.code.x86.machine import X86
from ssllatency.data_class import dataclass
from ssllatency.elf.image import Function
from ssllatency.stacks.go import verify
from ssllatency.stacks.go.body import GoBodies
from ssllatency.stacks.go.inner_calls import InterfaceMethod, method_sites
from ssllatency.stacks.go.program import Program
from ssllatency.stacks.go.sites import EntrySite, InnerCall, call_sites, closure_sites, entry_site, exit_sites
from ssllatency.stacks.go.traced_functions import CALLBACKS, DECRYPTS, SIGNS, TLS, Shape, TracedFunction, functions_of

# What grows a stack: runtime.morestack, .morestack_noctxt and .morestackc.
_GROWS = ("runtime.morestack", "runtime.morestack_noctxt", "runtime.morestackc")

_COPIES = ("runtime.duffcopy", "runtime.duffzero")  # what is passed by value; they change no register that has an argument

# How many registers the arguments of a method take: its receiver, what gives random bytes, the bytes, and options.
_WORDS = {SIGNS: 8, DECRYPTS: 8}

_LARGEST = 1 << 20  # bytes of a function


@dataclass(frozen=True)
class FunctionPlan:
    """The sites of a traced function: `entry` and `exits`, or `calls`, by its shape. `inlined_into`: functions in which its
    calls can't be seen. `obstacle`: why it has no sites, a phrase without a full stop; "" where it has."""

    traced: TracedFunction
    address: int = 0
    size: int = 0
    entry: EntrySite | None = None
    exits: tuple[int, ...] = ()
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
        try:
            entry, exits, calls = self._sites(traced, functions[0])
        except Unplannable as reason:
            return FunctionPlan(traced, functions[0].address, functions[0].size, inlined_into=inlined, obstacle=str(reason))
        return FunctionPlan(traced, functions[0].address, functions[0].size, entry, exits, calls, inlined)

    def _sites(
        self, traced: TracedFunction, function: Function
    ) -> tuple[EntrySite | None, tuple[int, ...], tuple[InnerCall, ...]]:
        if function.size > _LARGEST:
            raise Unplannable("it is too large to be followed")
        graph = self._bodies.graph(function)
        code = self._program.image.code(function.address, function.size)
        machine = self._program.image.machine
        if traced.shape in (Shape.CALL, Shape.CLOSURES, Shape.METHOD):
            calls = self._calls(traced, graph)
            verify.check_calls(machine, code, graph, self._bodies.depths(function), calls)
            return None, (), calls
        entry = entry_site(graph, self._grows, self._emulation)
        exits = exit_sites(graph) if traced.shape is Shape.SPAN else ()
        depths = self._bodies.depths(function)
        if traced.shape is Shape.SPAN:
            verify.check(machine, code, graph, depths, entry, exits)
        else:
            verify.check_entry(machine, code, graph, depths, entry)
        return entry, exits, ()

    def _calls(self, traced: TracedFunction, graph: Graph) -> tuple[InnerCall, ...]:
        if traced.shape is Shape.CALL:
            return call_sites(graph, self._address(traced.callee), self._emulation)
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
