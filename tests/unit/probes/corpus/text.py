# SPDX-License-Identifier: Apache-2.0
"""The plans of a file as text that reads well in a diff, and back.

A site is a line. It holds no address: where it lies is told from the start of the function, so that plans of builds that differ
elsewhere are alike. `exit /0x2d+0x2c:1 ret | single-stepped | value in rax, shared`: in a function of 0x2d bytes that isn't the
operation's own, at its byte 0x2c, an instruction of one byte. Without a note of its cost the kernel emulates it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ssllatency.code.decode import lines
from ssllatency.code.machine import Cost
from ssllatency.elf.image import ElfError, Image
from ssllatency.probes.catalogue import CATALOGUE
from ssllatency.probes.contents import file_facts
from ssllatency.probes.costs import cost_ns, failing_ns
from ssllatency.probes.handshake.phases import plan_handshake
from ssllatency.probes.plan import FilePlan, HandshakeSites, OperationPlan, PhaseCall, Probe
from ssllatency.probes.planner import plan_image
from ssllatency.probes.settings import PlanSettings
from ssllatency.stacks.names import Names
from ssllatency.stacks.registry import stack_of

NOT_AN_INSTRUCTION = "no instruction begins here"
_LARGEST_FUNCTION = 1 << 20
_NAMES = ("reasons", "libraries", "alerts", "states", "ciphers", "groups", "signatures", "curves", "objects")
_BRANCH = re.compile(r"(j\w+|call|b|bl|b\.\w+|cbn?z|tbn?z|adrp?)\b")
_FOLLOWS = "  "


@dataclass(frozen=True)
class Site:
    """A probe site as the text has it. `size` is that of the function that it is in, 0 where that isn't known; `length` the
    instruction's; `own`: whether the function is the operation's."""

    role: str
    own: bool
    size: int
    offset: int
    length: int
    instruction: str
    cost: str
    notes: tuple[str, ...]

    @property
    def mnemonic(self) -> str:
        return self.instruction.split()[0]


@dataclass
class Operation:
    """An operation that is planned: how it was found, what a call costs that succeeds, and what one does that fails; and the
    same with return probes, where they are cheaper."""

    name: str
    size: int
    found: str
    ns: int
    failing_ns: int
    sites: list[Site] = field(default_factory=list)
    return_ns: int = 0
    return_sites: list[Site] = field(default_factory=list)


@dataclass
class Call:
    """A call that is a phase of a handshake or a wait, or where an error is told (only a begin)."""

    what: str
    callee: str
    notes: tuple[str, ...]
    sites: list[Site] = field(default_factory=list)


@dataclass
class Plan:
    """All that is planned in a file, and what of it isn't and why."""

    machine: str = ""
    kind: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)
    operations: dict[str, Operation] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    state_machine: Operation | None = None
    unseen: list[tuple[str, str]] = field(default_factory=list)

    def sites(self) -> Iterator[Site]:
        """All of them."""
        for operation in (*self.operations.values(), *([self.state_machine] if self.state_machine else [])):
            yield from (*operation.sites, *operation.return_sites)
        for call in self.calls:
            yield from call.sites


# Writing.


def describe(path: Path) -> str:
    """The text about the file at `path`; "" for one that holds no TLS. What debug files say is left out."""
    image = Image.open(path, debug_roots=())
    facts = file_facts(image)
    if not facts.libraries and not facts.obstacle:
        return ""
    plan = replace(plan_image(image), handshake=plan_handshake(image))
    text = list(_Writer(image).lines(plan, plan_image(image, PlanSettings(prefer_return_probes=True)), facts.obstacle))
    return "\n".join(text) + "\n"


class _Writer:
    """Writes the plans of one image."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._starts: dict[tuple[int, int], dict[int, int]] = {}

    def lines(self, plan: FilePlan, preferring: FilePlan, obstacle: str) -> Iterator[str]:
        yield f"{plan.machine} {plan.kind or 'none'}"
        if obstacle:
            yield "obstacle: stripped: nothing in the file names its functions"
            return
        offsets = [f"{name} {value}" for name, value in vars(plan.offsets).items() if isinstance(value, int)]
        yield from [f"offsets: {', '.join(offsets)}"] if offsets else []
        counts = _counts(self._image) if plan.kind in ("libssl", "libcrypto", "static") else ""
        yield from [f"names: {counts}"] if counts else []
        cheaper = {operation.operation: operation for operation in preferring.operations}
        order = {operation.name: place for place, operation in enumerate(CATALOGUE)}
        for operation in sorted(plan.operations, key=lambda operation: order[operation.operation]):
            yield ""
            yield from self._operation(operation)
            other = cheaper.get(operation.operation, operation)
            if other.probes != operation.probes:
                yield f"{_FOLLOWS}with return probes: {cost_ns(other)} ns"
                yield from (f"{_FOLLOWS}{line}" for line in self._sites(other.probes, other.address))
        yield from _absent("not planned", ((missing.operation, missing.reason) for missing in plan.missing))
        yield from self._handshake(plan.handshake)

    def _operation(self, plan: OperationPlan) -> Iterator[str]:
        dearest = f", {failing_ns(plan)} failing" if failing_ns(plan) > cost_ns(plan) else ""
        yield f"{plan.operation}, {self._size(plan.address) or plan.size:#x} bytes, {plan.found}: {cost_ns(plan)} ns{dearest}"
        yield from self._sites(plan.probes, plan.address)

    def _sites(self, probes: Iterable[Probe], own: int) -> Iterator[str]:
        return (f"{_FOLLOWS}{self._site(probe.role.value, probe, own)}" for probe in probes)

    def _site(self, role: str, probe: Probe, own: int, *more: str) -> str:
        start, end = self._image.function_bounds(probe.address) or (own, own)
        place = "" if start == own else f"/{end - start:#x}"
        length = self._length(start, probe.address)
        notes = [probe.value_note()] if role != "end" and probe.value_note() else []
        notes += [f"{probe.stack_delta} below"] if probe.stack_delta else []
        notes += ["shared"] if probe.shared else []
        notes += ["failed calls"] if probe.fails else []
        notes += [f"after {probe.passed} more"] if probe.passed else []
        notes += ["keeps the length"] if probe.keeps_length else []
        notes += more
        notes += [] if length else [NOT_AN_INSTRUCTION]
        cost = [] if probe.cost is Cost.EMULATED else [probe.cost.value]
        parts = [f"{role} {place}+{probe.address - start:#x}:{length} {_instruction(probe)}", *cost]
        return " | ".join(parts + ([", ".join(notes)] if notes else []))

    def _size(self, address: int) -> int:
        bounds = self._image.function_bounds(address)
        return bounds[1] - bounds[0] if bounds else 0

    def _length(self, start: int, address: int) -> int:
        """The length of the instruction at `address`, by decoding from the start of its function; 0 where none begins there."""
        known = self._starts.setdefault((start, self._size(start)), {})
        if not known:
            code = self._image.code(start, min(self._size(start) or address - start + 16, _LARGEST_FUNCTION))
            known.update((line.address, len(line.code)) for line in lines(code, start, self._image.machine))
        return known.get(address, 0)

    def _handshake(self, sites: HandshakeSites) -> Iterator[str]:
        if sites.labels:
            yield ""
        for name, path in sorted(sites.labels.items()):
            bits = f", bits {path.bits:#x}" if path.bits else ""
            yield f"label {name}: {' -> '.join(map(str, path.offsets))}, {path.size} bytes{bits}"
        if sites.state_machine:
            yield ""
            yield from self._operation(sites.state_machine)
            if sites.within_data:
                yield f"{_FOLLOWS}reads and writes are watched as well"
        for call in (*sites.calls, *sites.transport):
            yield ""
            yield from self._call(call)
        for error in sites.errors:
            yield ""
            yield f"{error.kind.value} {error.function}"
            yield f"{_FOLLOWS}{self._site('entry', error.probe, 0)}"
        if sites.signs:
            yield ""
            yield "signature ssl_private_key_sign"
            yield f"{_FOLLOWS}{self._site('entry', sites.signs, 0)}"
        if sites.transcript:
            yield ""
            yield "transcript"
            yield f"{_FOLLOWS}{self._site('entry', sites.transcript, 0)}"
        if sites.wake:
            yield ""
            yield "offload ASYNC_WAIT_CTX_set_wait_fd"
            yield f"{_FOLLOWS}{self._site('entry', sites.wake, 0)}"
        yield from _absent("not seen", ((missing.what, missing.reason) for missing in sites.missing))

    def _call(self, call: PhaseCall) -> Iterator[str]:
        notes = [call.operation] if call.operation else []
        notes += [f"not if argument {call.skip_null} is NULL"] if call.skip_null is not None else []
        place = "at" if call.size_is_pointer else "in"
        notes += [f"size {place} argument {call.size_argument}"] if call.size_argument is not None else []
        yield ", ".join((f"{call.phase.value} {call.callee}", *notes))
        taken = [f"if {'' if call.taken else 'not '}{call.condition}"] if call.condition else []
        yield f"{_FOLLOWS}{self._site('begin', call.begin, 0, *taken)}"
        yield from (f"{_FOLLOWS}{self._site('end', end, 0)}" for end in call.ends)


def _instruction(probe: Probe) -> str:
    """Without the address that it leads to, and without that of data."""
    text = re.sub(r"\brip [+-] 0x[0-9a-f]+", "rip", probe.instruction)
    return re.sub(r",? ?#?0x[0-9a-f]+$", "", text) if _BRANCH.match(text) else text


def _counts(image: Image) -> str:
    try:
        found: Names = stack_of(image).names(image)
    except ElfError as error:
        return f"unreadable: {error}"
    counts = ((name, len(getattr(found, name))) for name in _NAMES)
    return ", ".join(f"{number} {name}" for name, number in counts if number)


def _absent(head: str, pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    rows = [f"{_FOLLOWS}{name}: {re.sub('0x[0-9a-f]+', '0x…', reason)}" for name, reason in pairs]
    if rows:
        yield ""
        yield f"{head}:"
        yield from rows


# Reading.

_SITE = re.compile(r"(\w+) (?:/0x([0-9a-f]+))?\+0x([0-9a-f]+):(\d+) (.*)")
_OPERATION = re.compile(r"(.*), 0x([0-9a-f]+) bytes, (.*): (\d+) ns(?:, (\d+) failing)?")
_RETURN = re.compile(r"  with return probes: (\d+) ns")


class MalformedError(Exception):
    """A text that describe() doesn't write."""


def parse(text: str) -> Plan:
    """The plan that a text tells of. MalformedError for another text, with the line that can't be read."""
    plan = Plan()
    paragraphs = [paragraph.split("\n") for paragraph in text.rstrip("\n").split("\n\n")]
    _head(plan, paragraphs[0])
    for first, *others in paragraphs[1:]:
        _paragraph(plan, first, others)
    return plan


def _head(plan: Plan, rows: Sequence[str]) -> None:
    plan.machine, _, plan.kind = rows[0].partition(" ")
    plan.facts = dict(row.split(": ", 1) for row in rows[1:])
    for part in plan.facts.pop("offsets", "").split(", "):
        name, _, value = part.partition(" ")
        plan.offsets.update({name: int(value)} if name else {})


def _paragraph(plan: Plan, first: str, others: Sequence[str]) -> None:
    if first.startswith("label "):
        plan.labels = dict(row.removeprefix("label ").split(": ", 1) for row in (first, *others))
    elif first == "not planned:":
        plan.missing = dict(_pair(row) for row in others)
    elif first == "not seen:":
        plan.unseen = [_pair(row) for row in others]
    elif match := _OPERATION.fullmatch(first):
        name, size, found, ns, failing = match.groups()
        operation = Operation(name, int(size, 16), found, int(ns), int(failing or 0))
        _sites_of(operation, others)
        if name == "state_machine":
            plan.state_machine = operation
        else:
            plan.operations[name] = operation
    else:
        what, *notes = first.split(", ")
        kind, _, callee = what.partition(" ")
        plan.calls.append(Call(kind, callee, tuple(notes), [_site(row, 0) for row in others]))


def _pair(row: str) -> tuple[str, str]:
    name, separator, reason = row.removeprefix(_FOLLOWS).partition(": ")
    if not separator:
        raise MalformedError(row)
    return name, reason


def _sites_of(operation: Operation, rows: Sequence[str]) -> None:
    for row in rows:
        if match := _RETURN.fullmatch(row):
            operation.return_ns = int(match[1])
        elif operation.return_ns:
            operation.return_sites.append(_site(row, operation.size))
        elif row != f"{_FOLLOWS}reads and writes are watched as well":
            operation.sites.append(_site(row, operation.size))


def _site(row: str, own: int) -> Site:
    match = _SITE.fullmatch(row.strip())
    if not match:
        raise MalformedError(row)
    role, size, offset, length, rest = match.groups()
    instruction, *others = rest.split(" | ")
    costs = {cost.value for cost in Cost}
    cost = others.pop(0) if others and others[0] in costs else Cost.EMULATED.value
    notes = tuple(others[0].split(", ")) if others else ()
    in_own = size is None
    return Site(role, in_own, own if in_own else int(size, 16), int(offset, 16), int(length), instruction, cost, notes)
