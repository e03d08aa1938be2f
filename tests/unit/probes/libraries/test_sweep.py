# SPDX-License-Identifier: Apache-2.0
"""Plans of functions that nobody chose, thousands of them, each checked by a walk that shares nothing with the planner.

The functions and what is asked of them (arguments, size of the value, return probes, what the kernel emulates) are drawn with a
fixed seed. SSLLATENCY_SWEEP=all plans all functions, of the libraries of other machines as well (some minutes).
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import pytest
from capstone import x86
from tests import foreign
from tests.fixtures.assembled import Assembled, function
from tests.parameters import slow_except
from tests.unit.probes.conftest import FOLDER
from tests.unit.probes.libraries.walk import Program, Sites, Walk

from ssllatency.abi import Convention
from ssllatency.code.flow import Code, Unplannable, build
from ssllatency.code.machine import BASELINE, Cost, Emulation
from ssllatency.code.x86.machine import X86
from ssllatency.elf.image import Function, Image
from ssllatency.probes.plan import Leaving, Probe, Role
from ssllatency.probes.settings import PlanSettings
from ssllatency.probes.sites.operation import Planner
from ssllatency.stacks.openssl.tables.tails import MethodTails
from ssllatency.stacks.operation import Operation

SEED = 3805
ALL = os.environ.get("SSLLATENCY_SWEEP") == "all"
SAMPLES = {"libssl.so.3": 500, "libcrypto.so.3": 1200, "libc.so.6": 700}
FOREIGN = (
    *("libssl-1.1-x86-64", "libcrypto-1.1-x86-64", "libssl-3.5-x86-64", "libcrypto-3.5-x86-64"),
    *("libssl-4-x86-64", "libcrypto-4-x86-64", "qatengine", "libcrypto_mb"),
)
MUTATED = 120  # plans of a library that are spoiled on purpose
EMULATIONS = (BASELINE, Emulation(multibyte_nops=True), Emulation(True, True), Emulation(True, True, calls=False))


class NoTables(MethodTails):
    """Method tables are of the catalogue's functions; these here are others."""

    def targets(self, function: int, slot: int) -> Sequence[int] | None:
        del function, slot
        return None


@dataclass(frozen=True)
class Planned:
    """A function with the plan of it, and where the planner says that its jump tables lead."""

    start: int
    sites: Sites
    tables: Callable[[int], Sequence[int]]

    def exits(self) -> list[Probe]:
        return [probe for probe in self.sites.probes if probe.role is Role.EXIT]

    def with_probes(self, probes: Sequence[Probe]) -> Planned:
        return replace(self, sites=replace(self.sites, probes=tuple(probes)))


@dataclass
class Sweep:
    """The plans of many functions of one file, and how often a function was refused for which reason."""

    program: Program
    planned: list[Planned] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    few_branches: bool = False

    def walk(self, each: Planned) -> Walk:
        return Walk(self.program, each.sites, each.tables)

    def objection(self, each: Planned) -> str:
        return self.walk(each).objection(each.start)


class Sweeper:
    """Plans functions of one file."""

    def __init__(self, path: Path) -> None:
        self._image = Image.open(path, debug_roots=())
        self._machine = X86()
        self._code = Code(self._image, self._machine)
        self._tails = NoTables(self._image)
        self._chance = random.Random(SEED)
        self.sweep = Sweep(Program(path), few_branches="libcrypto_mb" in path.name)

    def run(self, most: int) -> Sweep:
        starts = self.sweep.program.functions()
        for start in self._chance.sample(starts, min(most, len(starts))):
            try:
                self.sweep.planned.append(self._plan(start))
            except Unplannable as reason:
                self.sweep.refused[re.sub(r"0x[0-9a-f]+|\bin \S+ of", "…", str(reason))] += 1
        return self.sweep

    def _plan(self, start: int) -> Planned:
        chance = self._chance
        operation = Operation(
            "RSA_sign",
            "libcrypto",
            chance.choice((Convention.ONE, Convention.POINTER)),
            ssl_argument=chance.random() < 0.3,
            skip_null=1 if chance.random() < 0.3 else None,
            async_job=chance.random() < 0.6,
        )
        emulation, prefer = chance.choice(EMULATIONS), chance.random() < 0.5
        planner = Planner(self._image, self._machine, self._code, self._tails, PlanSettings(True, prefer, emulation))
        probes = planner.plan(operation, Function("function", start, 0, "unwind table")).probes
        arguments = {"rdi"} if operation.ssl_argument else set()
        arguments |= {"rsi"} if operation.skip_null is not None else set()
        buffer = "rsi" if operation.skip_null is not None else ""
        sites = Sites(probes, frozenset(arguments), operation.convention is Convention.POINTER, buffer)
        return Planned(start, sites, self._tables(start))

    def _tables(self, start: int) -> Callable[[int], Sequence[int]]:
        @cache
        def successors() -> dict[int, tuple[int, ...]]:
            return build(self._code, start, 0, self._tails.targets).successors

        return lambda jump: successors().get(jump, ())


def _path(name: str) -> Path:
    if name in FOREIGN:
        return foreign.needed(foreign.find(name))
    if not (FOLDER / name).exists():
        pytest.skip(f"needs {FOLDER / name}")
    return FOLDER / name


@pytest.fixture(scope="module", params=slow_except((*SAMPLES, *FOREIGN) if ALL else SAMPLES))
def sweep(request: pytest.FixtureRequest) -> Sweep:
    most = 1_000_000 if ALL else SAMPLES[request.param]
    return Sweeper(_path(request.param)).run(most)


@pytest.mark.slow
def test_walk_agrees_with_every_plan(sweep: Sweep) -> None:
    objections = {f"{each.start:#x}": said for each in sweep.planned if (said := sweep.objection(each))}
    assert not objections
    assert len(sweep.planned) > 0.8 * (len(sweep.planned) + sweep.refused.total()), sweep.refused
    roles = Counter(probe.role for each in sweep.planned for probe in each.sites.probes)
    assert all(roles[role] > 50 for role in Role), roles


@pytest.mark.slow
def test_every_ret_of_a_function_is_walked_to(sweep: Sweep) -> None:
    """A jump table that was read too short would leave some out. Some hand-written ones have a `ret` that nothing leads to."""
    left_out = []
    for each in sweep.planned:
        walk = sweep.walk(_by_its_return(each))
        assert not walk.objection(each.start)
        lines = sweep.program.lines(each.start, sweep.program.end(each.start))
        returns = (line.address for line in lines if line.group(x86.X86_GRP_RET))
        if each.exits() and not walk.seen.issuperset(returns):
            left_out.append(f"{each.start:#x}")
    assert len(left_out) <= 1 + len(sweep.planned) // 1000, left_out


def test_stack_depths_are_those_of_the_unwind_tables(sweep: Sweep) -> None:
    """At every site but a `ret`: there it is what it was at the entry, and the tables of hand-written code may not say so."""
    checked = 0
    for each in sweep.planned:
        for probe in each.sites.probes:
            depth = sweep.program.depth(probe.address)
            if depth is not None and not sweep.program.at(probe.address).group(x86.X86_GRP_RET):
                assert depth == probe.stack_delta, f"{each.start:#x} at {probe.address:#x}"
                checked += 1
    assert checked > len(sweep.planned)


def test_costs_are_those_of_the_instructions(sweep: Sweep) -> None:
    for each in sweep.planned:
        for probe in each.sites.probes:
            line = sweep.program.at(probe.address)
            if line.id == x86.X86_INS_NOP:
                continue  # what it costs depends on the kernel
            direct = (line.group(x86.X86_GRP_JUMP) or line.group(x86.X86_GRP_CALL)) and line.operands[0].type == x86.X86_OP_IMM
            emulated = direct or (line.id == x86.X86_INS_PUSH and line.operands[0].type == x86.X86_OP_REG)
            assert (probe.cost is Cost.EMULATED) == emulated, f"{each.start:#x} at {probe.address:#x}"


def _by_its_return(each: Planned) -> Planned:
    """With a return probe, for which the walk takes every way, that of a size query too."""
    entry = replace(each.sites.probes[0], role=Role.RETURN)
    return replace(each, sites=replace(each.sites, probes=(entry,), buffer=""))


# What the walk is worth: plans spoiled on purpose.


def _without_an_exit(_: Sweep, plan: Planned) -> Iterator[Planned]:
    for left_out in plan.exits():
        yield plan.with_probes([probe for probe in plan.sites.probes if probe is not left_out])


def _without_entry(_: Sweep, plan: Planned) -> Iterator[Planned]:
    yield plan.with_probes(plan.exits())


def _one_byte_off(sweep: Sweep, plan: Planned) -> Iterator[Planned]:
    """Within an instruction, where it has more bytes than one."""
    for moved in plan.sites.probes:
        if sweep.program.at(moved.address).size > 1:
            yield plan.with_probes([_at(p, p.address + 1) if p is moved else p for p in plan.sites.probes])


def _twice(_: Sweep, plan: Planned) -> Iterator[Planned]:
    for repeated in plan.sites.probes:
        yield plan.with_probes([*plan.sites.probes, repeated])


def _second_on_the_way(sweep: Sweep, plan: Planned) -> Iterator[Planned]:
    """One more exit site, on an instruction that runs right before one."""
    walk = sweep.walk(plan)
    walk.objection(plan.start)
    for leaving in plan.exits():
        before = next((at for at in walk.seen if _runs_into(sweep, at, leaving.address)), None)
        if before is not None and before not in plan.sites.by_address:
            yield plan.with_probes([*plan.sites.probes, _at(leaving, before)])


def _second_entry(_: Sweep, plan: Planned) -> Iterator[Planned]:
    entry = plan.sites.probes[0]
    if entry.address != plan.start:
        yield plan.with_probes([*plan.sites.probes, _at(entry, plan.start)])


def _before_a_call(sweep: Sweep, plan: Planned) -> Iterator[Planned]:
    """The exit sites moved to a call that comes back."""
    walk = sweep.walk(plan)
    walk.objection(plan.start)
    calls = (at for at in sorted(walk.seen) if sweep.program.at(at).id == x86.X86_INS_CALL)
    call = next((at for at in calls if at + sweep.program.at(at).size in walk.seen), None)
    if call is not None and call not in plan.sites.by_address:
        yield plan.with_probes([plan.sites.probes[0], _at(plan.exits()[0], call)])


def _other_register(_: Sweep, plan: Planned) -> Iterator[Planned]:
    for leaving in plan.exits():
        if not leaving.return_register:
            continue
        other = replace(leaving, return_register="r11" if leaving.return_register != "r11" else "r9")
        yield plan.with_probes([other if probe is leaving else probe for probe in plan.sites.probes])


def _other_constant(_: Sweep, plan: Planned) -> Iterator[Planned]:
    for leaving in plan.exits():
        for changed in _with_other_constants(leaving):
            yield plan.with_probes([changed if probe is leaving else probe for probe in plan.sites.probes])


def _with_other_constants(leaving: Probe) -> Iterator[Probe]:
    taken, other = leaving.taken_value, leaving.other_value
    if not leaving.condition and taken is not None:
        yield replace(leaving, taken_value=taken + 1, other_value=taken + 1)
    if leaving.condition and taken is not None:
        yield replace(leaving, taken_value=taken + 1)
    if leaving.condition and other is not None:
        yield replace(leaving, other_value=other + 1)


def _other_direction(_: Sweep, plan: Planned) -> Iterator[Planned]:
    """A branch that is left in the direction in which it isn't, in both, or with what the other direction returns."""
    for leaving in plan.exits():
        for changed in _turned(leaving) if leaving.condition else ():
            yield plan.with_probes([changed if probe is leaving else probe for probe in plan.sites.probes])


def _turned(leaving: Probe) -> Iterator[Probe]:
    turned = {Leaving.TAKEN: Leaving.OTHER, Leaving.OTHER: Leaving.TAKEN, Leaving.BOTH: Leaving.BOTH}
    swapped = replace(leaving, taken_value=leaving.other_value, other_value=leaving.taken_value)
    yield replace(swapped, leaving=turned[leaving.leaving])
    yield replace(leaving, condition="jnp" if leaving.condition == "jp" else "jp")
    yield replace(leaving, condition="")
    if leaving.leaving is not Leaving.BOTH:
        yield replace(leaving, leaving=Leaving.BOTH)


def _at(probe: Probe, address: int) -> Probe:
    return replace(probe, address=address)


def _runs_into(sweep: Sweep, address: int, target: int) -> bool:
    line = sweep.program.at(address)
    ends = line.group(x86.X86_GRP_JUMP) or line.group(x86.X86_GRP_RET) or line.group(x86.X86_GRP_CALL)
    return line.address + line.size == target and not ends


SPOIL = (
    *(_without_an_exit, _without_entry, _one_byte_off, _twice),
    *(_second_on_the_way, _second_entry, _before_a_call, _other_register),
)
SPOIL_BRANCHES = (_other_constant, _other_direction)


@pytest.mark.parametrize("spoil", SPOIL, ids=lambda spoil: spoil.__name__.strip("_"))
def test_walk_objects_to_spoiled_plans(sweep: Sweep, spoil: Callable[[Sweep, Planned], Iterator[Planned]]) -> None:
    plans = [each for each in sweep.planned if each.exits()][:MUTATED]
    spoiled = [other for each in plans for other in spoil(sweep, each)]
    passed = [f"{each.start:#x}" for each in spoiled if not sweep.objection(each)]
    assert len(spoiled) > MUTATED // 10
    assert not passed


@pytest.mark.parametrize("spoil", SPOIL_BRANCHES, ids=lambda spoil: spoil.__name__.strip("_"))
def test_walk_objects_to_spoiled_branches(sweep: Sweep, spoil: Callable[[Sweep, Planned], Iterator[Planned]]) -> None:
    """Of all plans that have what can be spoiled so: some libraries have few."""
    spoiled = [other for each in sweep.planned for other in spoil(sweep, each)]
    passed = [f"{each.start:#x}" for each in spoiled if not sweep.objection(each)]
    assert not passed
    assert spoiled or sweep.few_branches


@pytest.mark.parametrize(
    ("body", "entry", "leaving", "objection"),
    [
        ("at_a: push %rbx\npop %rbx\nat_b: ret", "at_a", "at_b", ""),
        ("at_a: dec %edi\njne at_a\nat_b: ret", "at_a", "at_b", "the entry site .* is crossed twice"),
        ("at_a: push %rbx\nat_b: pop %rbx\ndec %edi\njne at_b\nret", "at_a", "at_b", "the exit site .* is crossed twice"),
        ("test %edi, %edi\nje 1f\nat_a: nop\n1: nop\nat_b: ret", "at_a", "at_b", "is crossed before the entry"),
        ("at_a: test %edi, %edi\nje 1f\nat_b: ret\n1: ret", "at_a", "at_b", "is reached past no exit site"),
        ("at_a: nop\nat_b: nop\nmov %ecx, %eax\nret", "at_a", "at_b", "has another return value"),
        ("at_a: nop\nat_b: ret\nnop", "at_a", "at_b", ""),
        ("at_a: nop\nat_b: jmp *%rdi", "at_a", "at_b", "has another return value"),
        ("at_a: nop\nat_b: jmp elsewhere@PLT", "at_a", "at_b", "has another return value"),
        ("at_a: nop\nat_b: call elsewhere@PLT\nret", "at_a", "at_b", "a call follows the exit site"),
    ],
)
def test_walk_of_small_functions(
    assembled: Callable[[str], Assembled], body: str, entry: str, leaving: str, objection: str
) -> None:
    code = assembled(function("f", body))
    begins = Probe(0, code.symbols[entry], Role.ENTRY, "", Cost.EMULATED)
    ends = Probe(0, code.symbols[leaving], Role.EXIT, "", Cost.EMULATED, 0, "rax")
    said = Walk(Program(code.path), Sites((begins, ends)), lambda _: ()).objection(code.symbols["f"])
    assert re.search(objection, said) if objection else not said
