# SPDX-License-Identifier: Apache-2.0
"""From plans to the text of a bpftrace script: a pure function. A `CallRecorder` decides what is recorded of a call.

Starts are kept in @running by process, stack pointer at entry and operation, as in the BPF object. The text keeps to what
bpftrace has had since 0.17: no functions, variables declared in the block that uses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ssllatency.abi import Outcome, Reason
from ssllatency.data_class import dataclass
from ssllatency.engines.attach.images import not_traced, without_operations
from ssllatency.engines.attach.sites import operations_of
from ssllatency.engines.base import Side, TracedImage
from ssllatency.engines.bpftrace import exits as bpftrace_exits
from ssllatency.engines.bpftrace import judge as bpftrace_judge
from ssllatency.engines.bpftrace.judge import Lines
from ssllatency.engines.bpftrace.symbols import site_name
from ssllatency.model.snapshot import Missing
from ssllatency.probes import plan
from ssllatency.probes.catalogue import BY_NAME
from ssllatency.probes.plan import OperationPlan, Probe
from ssllatency.stacks.operation import Operation
from ssllatency.stacks.registry import stack_named

# As bpftrace calls the registers of a call's arguments.
ARGUMENTS = {"x86-64": ("di", "si", "dx", "cx", "r8", "r9"), "aarch64": ("r0", "r1", "r2", "r3", "r4", "r5")}
NO_RETURN_PROBES = "it needs a return probe, which bpftrace can't set with the stack pointer of the call"
_LONGEST_CHAIN = 16  # processes that a condition names one by one; more are looked up


class CallRecorder(Protocol):
    """The statements that record a call: $ns is how long it took, $outcome an abi.Outcome."""

    begin_lost: str
    end_lost: str
    full: str

    def verdict(self, operation: str, outcome: Outcome, reason: Reason) -> str:
        """The statement that sets $outcome, and keeps the reason."""

    def record(self, number: int, operation: str) -> Lines:
        """The statements that add the call to its row."""


@dataclass(frozen=True)
class ScriptProbe:
    """One probe's text: what it attaches to, its condition, and its statements."""

    site: str
    condition: str
    body: tuple[str, ...]


def by_sites(planned: OperationPlan) -> bool:
    """Whether the operation is timed, and by entry and exit sites alone."""
    roles = {probe.role for probe in planned.probes}
    return not BY_NAME[planned.operation].only_entry and plan.Role.RETURN not in roles


def scripted(image: TracedImage) -> TracedImage:
    """The image without its operations where no script tells how the calls of its stack ended."""
    return image if stack_named(image.plan.stack).scripted else without_operations(image, "bpftrace")


def left_out(planned: plan.FilePlan) -> tuple[Missing, ...]:
    """The operations that a file holds and a script doesn't trace."""
    untimed = (
        operation.operation
        for operation in planned.operations
        if not by_sites(operation) and not BY_NAME[operation.operation].only_entry
    )
    return (*not_traced(planned), *(Missing(name, planned.path, NO_RETURN_PROBES) for name in untimed))


def sites(image: TracedImage) -> dict[str, int]:
    """The names and addresses of all sites that the script probes in an image."""
    timed = (planned for planned in image.plan.operations if by_sites(planned))
    return {site_name(planned.operation, probe): probe.address for planned in timed for probe in planned.probes}


def render(
    images: Sequence[TracedImage],
    recorder: CallRecorder,
    *,
    role: Side,
    everyone: bool,
    begin: Lines,
    extra: Sequence[str] = (),
) -> str:
    """The script. `begin` are statements of BEGIN, `extra` whole probes that come last.

    Exits stand after entries, as bpftrace attaches from the last probe to the first: no call is seen to begin and not to end.
    """
    images = [scripted(image) for image in images]
    names = operations_of(images)
    parts: dict[plan.Role, list[ScriptProbe]] = {plan.Role.EXIT: [], plan.Role.ENTRY: []}
    lookups: Lines = []
    for index, image in enumerate(images):
        condition = "" if everyone and not image.companion else _condition(index, image.pids)
        if condition.startswith("@"):
            lookups += [f"@wanted[{index}, {pid}] = 1;" for pid in image.pids]
        for planned in filter(by_sites, image.plan.operations):
            call = _Call(image, BY_NAME[planned.operation], names.index(planned.operation), recorder, role)
            for probe in planned.probes:
                site = f"uprobe:{image.file}:{site_name(planned.operation, probe)}"
                parts[probe.role].append(ScriptProbe(site, call.condition(probe, condition), call.body(probe)))
    probes = [line for part in _joined(parts[plan.Role.ENTRY] + parts[plan.Role.EXIT]) for line in part]
    return _indented(["BEGIN", "{", *lookups, *begin, "}", *probes, *extra])


def _condition(index: int, pids: Sequence[int]) -> str:
    if len(pids) > _LONGEST_CHAIN:
        return f"@wanted[{index}, pid] == 1"
    return " || ".join(f"pid == {pid}" for pid in pids)


@dataclass(frozen=True)
class _Call:
    image: TracedImage
    operation: Operation
    number: int
    recorder: CallRecorder
    role: Side

    @property
    def _arguments(self) -> tuple[str, ...]:
        return ARGUMENTS[self.image.plan.machine]

    def condition(self, probe: Probe, processes: str) -> str:
        """Under which a hit counts: of these processes, no size query, and where a branch there leaves the call."""
        counts = bpftrace_exits.leaves(probe)
        skip = self.operation.skip_null
        if probe.role is plan.Role.ENTRY and skip is not None:
            counts = f'reg("{self._arguments[skip]}") != 0'
        return f"({processes}) && {counts}" if processes and counts else processes or counts

    def body(self, probe: Probe) -> tuple[str, ...]:
        begin = [f'$stack = reg("sp") + {probe.stack_delta};']
        key = f"@running[pid, $stack, {self.number}]"
        if probe.role is plan.Role.ENTRY:
            return (*begin, *self._entry(key))
        return ("$now = nsecs;", *begin, *self._exit(key, probe))

    def _entry(self, key: str) -> Lines:
        first = f'reg("{self._arguments[0]}")' if self.operation.ssl_argument else "(uint64)0"
        return [
            f"if ({key}.0 != 0) {{",
            self.recorder.begin_lost,
            "}",
            f"{key} = (nsecs, {first});",
            f"if ({key}.0 == 0) {{",
            self.recorder.full,
            "}",
        ]

    def _exit(self, key: str, probe: Probe) -> Lines:
        # A size query's exit has no entry that was counted, like that of a shared function.
        expected = not probe.shared and self.operation.skip_null is None
        lines = [f"$call = {key};", "if ($call.0 != 0) {", f"delete({key});", "$ns = $now - $call.0;"]
        lines += [f"$raw = {bpftrace_exits.returned(probe)};", "$value = (int32)$raw;"]
        if self.operation.ssl_argument:
            lines += ["$ssl = $call.1;", *bpftrace_judge.sides(self.role, self.image.plan.offsets), "if ($wanted == 1) {"]
            lines += [*self._record(), "}"]
        else:
            lines += self._record()
        return [*lines, "} else {", self.recorder.end_lost, "}"] if expected else [*lines, "}"]

    def _record(self) -> Lines:
        name = self.operation.name
        success = bpftrace_judge.succeeded(self.operation.return_value)
        untold = Outcome.SUCCESS if success else Outcome.UNKNOWN
        lines = [f"$outcome = {untold.value};", f"$reason = {Reason.NONE.value};"]
        if success:
            lines += [f"if (!({success})) {{", *self._unsuccessful(name), "}"]
        return [*lines, *self.recorder.record(self.number, name)]

    def _unsuccessful(self, name: str) -> Lines:
        def emit(outcome: Outcome, reason: Reason) -> str:
            return self.recorder.verdict(name, outcome, reason)

        if not self.operation.ssl_argument:
            return [emit(Outcome.FAILURE, Reason.NONE)]
        return bpftrace_judge.unsuccessful_ssl(self.image.plan.offsets, stack_named(self.image.plan.stack).codes, emit)


def _joined(parts: Sequence[ScriptProbe]) -> list[Lines]:
    """The lines of each probe; those that do the same are one with several attach points."""
    together: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for part in parts:
        together.setdefault((part.condition, part.body), []).append(part.site)
    lines = []
    for (condition, body), places in together.items():
        points = [f"{place}," for place in places[:-1]] + places[-1:]
        lines.append(["", *points, *([f"/{condition}/"] if condition else []), "{", *body, "}"])
    return lines


def _indented(lines: Sequence[str]) -> str:
    depth, text = 0, ""
    for line in lines:
        depth -= line.startswith("}")
        text += "\t" * depth + line + "\n" if line else "\n"
        depth += line.endswith("{")
    return text
