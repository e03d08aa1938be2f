# SPDX-License-Identifier: Apache-2.0
"""What holds of every expected plan, whatever the binary: so that a diff in review is judged by rules as well.

The rules share nothing with the planner but the catalogue: what the kernel emulates is told here by mnemonic and length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from itertools import pairwise

from tests.unit.probes.corpus.text import NOT_AN_INSTRUCTION, Call, Operation, Plan, Site

from ssllatency.probes.catalogue import BY_NAME, CATALOGUE, STATE_MACHINE
from ssllatency.probes.plan import CONDITIONS, CONSTANTS, SslOffsets
from ssllatency.stacks.base import LARGEST_FRAME
from ssllatency.stacks.phases import ErrorKind, Phase, Transport

# arch/x86/kernel/uprobes.c: branch_setup_xol_ops and push_setup_xol_ops. By mnemonic, how long the emulated forms are.
_X86 = {"call": (5,), "jmp": (2, 5), "push": (1, 2), "nop": (1,), **dict.fromkeys(CONDITIONS, (2, 6))}
_X86_REGISTERS = {
    *(f"r{name}" for name in ("ax", "bx", "cx", "dx", "si", "di", "bp")),
    *(f"r{number}" for number in range(8, 16)),
}
_ARM_REGISTERS = {f"x{number}" for number in range(29)}
# arch/arm64/kernel/probes/simulate-insn.c.
_ARM = re.compile(r"(b|b\.[a-z]{2}|bl|br|blr|ret|cbz|cbnz|tbz|tbnz|adr|adrp)")
_RESULT = {"x86-64": "rax", "aarch64": "x0"}
_OF_STATIC = ("libssl", "libcrypto")
_POINTERS, _NUMBERS = ("rbio", "wbio"), ("rwstate", "shutdown", "version", "state", "bio_flags", "bio_descriptor")
_TELLS = {*ErrorKind, "offload", "signature", "transcript"}


def objections(plan: Plan) -> list[str]:
    """What breaks a rule, a line each; none where the plan is safe as far as a text can show."""
    if "obstacle" in plan.facts:
        return ["an obstacle, and yet a plan"] if any(plan.sites()) or plan.missing or plan.unseen else []
    said = [*_operations(plan), *_fields(plan)]
    every = (*plan.operations.values(), *((plan.state_machine,) if plan.state_machine else ()))
    for operation in every:
        said += (f"{operation.name}: {objection}" for objection in _operation(operation, plan.machine))
    for call in plan.calls:
        said += (f"{call.what} {call.callee}: {objection}" for objection in _call(call))
    for site in plan.sites():
        said += (f"{site.role} +{site.offset:#x} {site.instruction}: {objection}" for objection in _site(site, plan.machine))
    return said


def _operations(plan: Plan) -> Iterator[str]:
    """Each of the catalogue is planned, or there is a reason why it isn't."""
    if both := plan.operations.keys() & plan.missing.keys():
        yield f"planned, and yet not: {', '.join(sorted(both))}"
    if unknown := (plan.operations.keys() | plan.missing.keys()) - BY_NAME.keys():
        yield f"not of the catalogue: {', '.join(sorted(unknown))}"
    libraries = {BY_NAME[name].library for name in plan.operations.keys() | plan.missing.keys() if name in BY_NAME}
    if plan.kind != "static" and libraries != {plan.kind}:
        yield f"a {plan.kind} with operations of {', '.join(sorted(libraries))}"
    wanted = {operation.name for operation in CATALOGUE if operation.library in libraries}
    if untold := wanted - plan.operations.keys() - plan.missing.keys():
        yield f"neither planned nor missing: {', '.join(sorted(untold))}"
    if empty := [name for name, reason in (*plan.missing.items(), *plan.unseen) if not reason]:
        yield f"no reason: {', '.join(empty)}"


def _fields(plan: Plan) -> Iterator[str]:
    """Offsets are of fields that the library may have, and that lie as fields of their size do."""
    if unknown := plan.offsets.keys() - {field.name for field in fields(SslOffsets)}:
        yield f"unknown offsets: {', '.join(sorted(unknown))}"
    for names, size in ((_POINTERS, 8), (_NUMBERS, 4)):
        yield from (f"offset {name} isn't aligned" for name in names if plan.offsets.get(name, 0) % size)
    for name, path in plan.labels.items():
        way, _, size = path.partition(", bits ")[0].removesuffix(" bytes").rpartition(", ")
        *steps, last = map(int, way.split(" -> "))
        if size not in ("0", "1", "2", "4", "8") or any(step % 8 for step in steps) or last % (int(size) or 1):
            yield f"label {name} isn't aligned: {path}"


def _operation(operation: Operation, machine: str) -> Iterator[str]:
    known = STATE_MACHINE if operation.name == STATE_MACHINE.name else BY_NAME.get(operation.name)
    if known is None or not operation.sites:
        yield "nothing is planned"
        return
    for sites in filter(None, (operation.sites, operation.return_sites)):
        first, *others = sites
        roles = {site.role for site in others}
        if first.role == "return":
            if others:
                yield "a return probe with other sites"
            if known.async_job and operation.name != STATE_MACHINE.name:
                yield "a return probe where an ASYNC job may run"
        elif first.role != "entry":
            yield f"it begins with {first.role}"
        elif known.only_entry:
            yield from ["an end, though only its entry counts"] if "exit" in roles else []
        elif roles != {"exit"}:
            yield "no exit, or more than exits"
        if not first.own:
            yield "the entry lies in another function"
        for site in others:
            yield from _exit(site, machine) if site.role == "exit" else ()
        taken = sorted((site.offset, site.length) for site in sites if site.own)
        if any(offset + length > following for (offset, length), (following, _) in pairwise(taken)):
            yield "two sites overlap"


def _exit(site: Site, machine: str) -> Iterator[str]:
    """Past it the value is known. At a `ret` the stack is as it was at the entry."""
    notes = [note for note in site.notes if note.startswith(("value ", "else "))]
    registers = _X86_REGISTERS if machine == "x86-64" else _ARM_REGISTERS
    values = [re.fullmatch(r"(?:value|else) (?:in (\w+)|(-?\d+))(?: if (?:not )?([\w.]+))?", note) for note in notes]
    if not values or not all(values):
        yield f"+{site.offset:#x}: its value isn't known"
        return
    for value in filter(None, values):
        register, constant, condition = value.groups()
        if register and register not in registers:
            yield f"+{site.offset:#x}: no register is called {register}"
        if constant and int(constant) not in CONSTANTS:
            yield f"+{site.offset:#x}: {constant} can't be told"
        if condition and condition != site.mnemonic:
            yield f"+{site.offset:#x}: {condition} isn't the branch there"
        if site.mnemonic == "ret" and register and register != _RESULT[machine]:
            yield f"+{site.offset:#x}: the value of a ret is in {register}"
    if site.mnemonic == "ret" and any(note.endswith(" below") for note in site.notes):
        yield f"+{site.offset:#x}: a ret with something on the stack"


def _call(call: Call) -> Iterator[str]:
    """It has a begin, and an end in the same function, unless what is called only tells something."""
    if call.what not in {*Phase, *Transport, *_TELLS}:
        yield "what it is isn't known"
    first, *others = call.sites
    roles = [site.role for site in call.sites]
    if call.what in _TELLS:
        yield from [] if roles == ["entry"] else ["more than an entry"]
        return
    if roles[0] != "begin" or set(roles[1:]) != {"end"}:
        yield "no begin, or no end"
    if any(site.size != first.size or site.offset == first.offset for site in others):
        yield "its end lies in another function, or where it begins"
    for note in first.notes:
        if (branch := re.fullmatch(r"if (?:not )?(\S+)", note)) and branch[1] != first.mnemonic:
            yield f"{branch[1]} isn't the branch where it begins"


def _site(site: Site, machine: str) -> Iterator[str]:
    """It is an instruction of the function, and what the kernel is said to emulate is what it emulates."""
    if NOT_AN_INSTRUCTION in site.notes or not site.length:
        yield NOT_AN_INSTRUCTION
    if site.size and site.offset + site.length > site.size:
        yield "it lies outside of the function"
    unit = 8 if machine == "x86-64" else 16
    depth = next((int(note.removesuffix(" below")) for note in site.notes if note.endswith(" below")), 0)
    if depth < 0 or depth % unit or depth >= LARGEST_FRAME:
        yield f"the stack can't be {depth} below"
    if machine == "aarch64":
        emulated = _ARM.fullmatch(site.mnemonic) is not None
        yield from ["not an instruction's place"] if site.length != 4 or site.offset % 4 else []
    else:
        emulated = site.length in _X86.get(site.mnemonic, ()) and not _is_indirect(site)
    if emulated != (site.cost == "emulated") and site.cost != "optimised":
        yield f"{site.cost}, though the kernel {'emulates' if emulated else 'single-steps'} it"


def _is_indirect(site: Site) -> bool:
    """A call or jump by a register or memory, or a push of something else than a register."""
    operand = site.instruction.partition(" ")[2]
    return (bool(operand) and site.mnemonic != "push") or "[" in operand or operand.startswith("0x")
