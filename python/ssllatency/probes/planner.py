# SPDX-License-Identifier: Apache-2.0
"""From an image to its plan: which operations of the catalogue it holds, where they are, and which instructions are probed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import fields, replace

from ssllatency.code.calls import calls_of
from ssllatency.code.flow import Code, Unplannable
from ssllatency.code.machine import Machine
from ssllatency.elf.image import ElfError, Function, Image
from ssllatency.errors import phrase
from ssllatency.probes.catalogue import BY_NAME, CATALOGUE
from ssllatency.probes.evidence import CodeEvidence
from ssllatency.probes.plan import NOT_IN_LIBRARY, FilePlan, MissingOperation, OperationPlan, Role, SslOffsets
from ssllatency.probes.settings import DEFAULTS, PlanSettings
from ssllatency.probes.sites.operation import Planner
from ssllatency.probes.sites.own import plan_own
from ssllatency.stacks.base import Stack, Tables
from ssllatency.stacks.implementations import library_version
from ssllatency.stacks.operation import Operation
from ssllatency.stacks.registry import called, has_lower, libraries_in, stack_of

NOT_NAMED = "no symbol and no table names it"
NOT_CONFIRMED = "only a debug file names it, and the file's own unwind tables know no function there"


def kind_of(image: Image) -> str:
    """The kind of the file: a library of the catalogue by its name, "static" for several of them in one file, "" for none."""
    libraries = libraries_in(image)
    return libraries[0] if len(libraries) == 1 else "static" if libraries else ""


class _Finder:
    """Finds the functions of operations in one image, or says why there is none."""

    def __init__(self, image: Image, tables: Tables) -> None:
        self._image = image
        self._tables = tables

    def find(self, operation: Operation) -> Function | None:
        """By the file's own symbols, else by its own tables, which overrule what a debug file says: that comes last."""
        function = self._first(self._image.own_function, operation) or self._tables.find(operation)
        return function or self._first(self._image.hinted_function, operation)

    def find_all(self, operation: Operation) -> list[Function]:
        """Find the functions of an operation that may be several."""
        if operation.callers_of:
            return self._callers(operation)
        function = self.find(operation)
        return [function] if function else []

    def twin(self, operation: Operation) -> Function | None:
        """Find the function in which the operation's calls may go on."""
        return self._image.own_function(operation.twin) if operation.twin else None

    def _callers(self, operation: Operation) -> list[Function]:
        """None where the file holds what they call: then others than the library's functions call it, too."""
        if self._image.function(operation.callers_of):
            return []
        calls = calls_of(self._image, [operation.callers_of])[operation.callers_of]
        callers = {bounds for call in calls if (bounds := self._image.function_bounds(call))}
        return [
            Function(operation.name, start, end - start, f"call of {operation.callers_of}") for start, end in sorted(callers)
        ]

    @staticmethod
    def _first(look_up: Callable[[str], Function | None], operation: Operation) -> Function | None:
        return next((function for name in operation.symbols if (function := look_up(name))), None)

    def reason(self, operation: Operation) -> str:
        """Return why it wasn't found. A function that libraries export or offer by name, and that this one doesn't, isn't in
        it."""
        if any(self._image.unconfirmed(name) for name in operation.symbols):
            return NOT_CONFIRMED
        return self._tables.obstacle(operation) or (NOT_NAMED if self._tables.may_hold(operation) else NOT_IN_LIBRARY)


def machine_of(name: str) -> Machine:
    """The machine called `name`. Imported here: it brings the decoder, which a plan from the cache doesn't need."""
    if name == "aarch64":
        from ssllatency.code.aarch64.machine import Aarch64

        return Aarch64()
    from ssllatency.code.x86.machine import X86

    return X86()


def plan_image(
    image: Image,
    settings: PlanSettings = DEFAULTS,
    names: Container[str] = BY_NAME,
) -> FilePlan:
    """The plan of one file: every operation of the catalogue that belongs in it and is among `names`, with its probes or with
    why it has none; but not the sites of its handshakes, which plan_handshake() makes."""
    libraries = libraries_in(image)
    stack = stack_of(image)
    evidence = CodeEvidence(image)
    wanted = [operation for operation in CATALOGUE if operation.library in libraries and operation.name in names]
    operations, missing = _plan_operations(image, stack, wanted, settings, evidence)
    return FilePlan(
        path=image.label,
        build_id=image.build_id,
        version=library_version(image) if libraries else "",
        kind=kind_of(image),
        operations=tuple(operations),
        missing=tuple(missing),
        offsets=_offsets(image, stack, libraries),
        code=evidence.ranges(),
        machine=image.machine,
        stack=stack.name if libraries else "",
    )


def _plan_operations(
    image: Image, stack: Stack, wanted: Sequence[Operation], settings: PlanSettings, evidence: CodeEvidence
) -> tuple[list[OperationPlan], list[MissingOperation]]:
    machine = machine_of(image.machine)
    own = stack.site_planner(image, settings.emulation) if wanted else None
    if own:
        return plan_own(image, machine, own, wanted, settings.emulation, evidence)
    code, tails = Code(image, machine), stack.tails(image)
    planner = Planner(image, machine, code, tails, settings)
    finder = _Finder(image, stack.tables(image))
    operations: list[OperationPlan] = []
    missing: list[MissingOperation] = []
    taken: dict[int, str] = {}
    twins: set[int] = set()
    found = [(operation, finder.find_all(operation)) for operation in wanted]
    # Those of a provider in a file of its own are called by what they are for, so that none may be for several things.
    uses = Counter(functions[0].address for operation, functions in found if functions and operation.library == "provider")
    for operation, functions in found:
        if not functions:
            missing.append(MissingOperation(operation.name, finder.reason(operation)))
            continue
        if uses[functions[0].address] > 1:
            missing.append(MissingOperation(operation.name, "its provider has one function for several kinds of keys"))
            continue
        if functions[0].address in twins:
            continue
        first = taken.setdefault(functions[0].address, operation.name)
        if first != operation.name:
            missing.append(MissingOperation(operation.name, f"the same code as {first}"))
            continue
        twin = finder.twin(operation)
        try:
            planned, *others = (planner.plan(operation, function, twin) for function in functions)
            planned = replace(planned, probes=(*planned.probes, *(probe for other in others for probe in other.probes)))
            evidence.add(planned.probes, (planned.address, planned.address + planned.size))
            operations.append(planned)
            if twin and any(probe.shared for probe in planned.probes if probe.role is Role.ENTRY):
                twins.add(twin.address)  # its calls are this operation's
        except (Unplannable, ElfError) as reason:
            missing.append(MissingOperation(operation.name, phrase(reason)))
    return operations, missing


def _offsets(image: Image, stack: Stack, libraries: tuple[str, ...]) -> SslOffsets:
    offset_by_name = stack.connection(image) if called(libraries) else {}
    in_bio = stack.bio(image) if has_lower(libraries) else {}
    names = {field.name for field in fields(SslOffsets)}
    offsets = {name: offset for name, offset in offset_by_name.items() if name in names}
    types, records = (stack.known_types(image), stack.runtime_fields(image)) if called(libraries) else ((), ())
    return SslOffsets(**{**offsets, **in_bio}, go_types=types, go_fields=records)
