# SPDX-License-Identifier: Apache-2.0
"""Plans in words, for `ssllatency probes`: what would be probed where and at what cost, and what is missing and why."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from ssllatency.probes import codec
from ssllatency.probes.costs import REFERENCE, HitCosts, cost_ns, failing_ns
from ssllatency.probes.plan import FilePlan, HandshakeSites, OperationPlan, Probe, Role

_WIDTH = 100
_HEADER = ("OPERATION", "FOUND", "ADDRESS", "NS/CALL", "ROLE", "OFFSET", "COST", "INSTRUCTION", "NOTE")
_RIGHT = ("ADDRESS", "NS/CALL", "OFFSET")
ABSENT = ("Not probed:", "Not seen:")  # what stands above what is missing, of operations and of handshakes
_GOES = ("ADDRESS", "INSTRUCTION", "FOUND", "NOTE")


def render(plans: Sequence[FilePlan], *, sessions: bool = False, costs: HitCosts = REFERENCE, most: int | None = None) -> str:
    """The text of `ssllatency probes`: for each file a header, a table with a row a site, and what is missing.

    `sessions`: whether a return probe will be attached with its entry as one uprobe session. `costs`: what a hit takes. `most`:
    how many columns there are, None where lines may be as long as they get; less important columns are left out then.
    """
    if not plans:
        return "No file with TLS functions was found.\n"
    return "\n".join("\n".join(_file(plan, sessions, costs, most)) + "\n" for plan in plans)


def to_document(plans: Sequence[FilePlan], *, sessions: bool = False, costs: HitCosts = REFERENCE) -> dict[str, Any]:
    """The listing as one JSON document; `cost_ns` is what a call that succeeds costs, `failing_ns` what any call
    does at most, `chosen` how the calls' ends are seen, `hit_ns` what a hit takes by kind of site, and a return beyond its
    entry."""
    return {
        "schema": "ssllatency-probes/1",
        "hit_ns": hit_fields(costs),
        "files": [_document(plan, sessions, costs) for plan in plans],
    }


def _document(plan: FilePlan, sessions: bool, costs: HitCosts) -> dict[str, Any]:
    values = codec.to_values(replace(plan, handshake=HandshakeSites()))
    del values["handshake"]
    for operation, record in zip(plan.operations, values["operations"], strict=True):
        record["cost_ns"], record["failing_ns"] = cost_ns(operation, costs), failing_ns(operation, costs)
        record["chosen"] = chosen(operation, sessions)
        record["found"] = " ".join(filter(None, (operation.found, record.pop("debug_file"))))
    return values


def chosen(plan: OperationPlan, sessions: bool) -> str:
    """Return how the end of a call is seen: "exit sites", "session", "return probe"; "entry only" where it isn't."""
    roles = {probe.role for probe in plan.probes}
    if Role.RETURN in roles:
        return "session" if sessions else "return probe"
    return "exit sites" if Role.EXIT in roles else "entry only"


def _file(plan: FilePlan, sessions: bool, costs: HitCosts, most: int | None) -> Iterator[str]:
    yield plan.path
    for name, value in _facts(plan, sessions, costs):
        yield from fact(name, value, most)
    if plan.operations:
        yield ""
        rows = (row for operation in plan.operations for row in _rows(operation, sessions, costs))
        yield from table([_HEADER, *rows], most, _GOES)
    if plan.missing:
        yield ""
        yield ABSENT[0]
        yield from _missing(plan, most)


def _facts(plan: FilePlan, sessions: bool, costs: HitCosts) -> Iterator[tuple[str, str]]:
    yield "holds", plan.kind or "no function that ssllatency knows"
    yield "version", plan.version or "unknown"
    yield "build-id", plan.build_id or "none"
    for debug_file in sorted({planned.debug_file for planned in plan.operations if planned.debug_file}):
        yield "debug file", debug_file
    offsets = ", ".join(f"{name} {offset}" for name, offset in asdict(plan.offsets).items() if isinstance(offset, int))
    if offsets:
        yield "offsets", offsets
    counts = Counter(chosen(planned, sessions) for planned in plan.operations)
    if counts:
        yield "chosen", ", ".join(f"{way} for {count}" for way, count in counts.most_common())
        yield "ns a hit", hit_words(costs)


def hit_fields(costs: HitCosts) -> dict[str, Any]:
    """The costs of hits, as fields of a document."""
    return {**asdict(costs), "measured_here": costs is not REFERENCE}


def hit_words(costs: HitCosts) -> str:
    """The costs of hits in words."""
    where = "on the reference machine" if costs is REFERENCE else "measured on this machine"
    return (
        f"optimised {costs.optimised:,}, emulated {costs.emulated:,}, single-stepped {costs.single_stepped:,}, "
        f"a return +{costs.returning:,}, after other work +{costs.after_work:,} ({where})"
    )


def _rows(plan: OperationPlan, sessions: bool, costs: HitCosts) -> Iterator[tuple[str, ...]]:
    """One row for each site; the first one also describes the operation."""
    leading: tuple[str, ...] = (plan.operation, plan.found, f"{plan.address:#x}", f"{cost_ns(plan, costs)}")
    for probe in plan.probes:
        role = chosen(plan, sessions) if probe.role is Role.RETURN else probe.role.value
        yield (*leading, role, f"{probe.offset:#x}", probe.cost.value, probe.instruction, _note(probe))
        leading = ("",) * len(leading)


def _note(probe: Probe) -> str:
    notes = [probe.value_note()] if probe.value_note() else []
    notes += [f"{probe.stack_delta} below"] if probe.stack_delta else []
    notes += ["shared"] if probe.shared else []
    notes += ["failed calls"] if probe.fails else []
    return ", ".join(notes)


def fact(name: str, value: str, most: int | None) -> Iterator[str]:
    """A fact about a file, in as many lines as it takes."""
    indent = " " * 13
    line = f"  {name:<11}{value}"
    yield from [line] if most is None else textwrap.wrap(line, most, subsequent_indent=indent, break_on_hyphens=False)


def table(rows: Sequence[tuple[str, ...]], most: int | None = None, goes: Sequence[str] = ()) -> Iterator[str]:
    """The rows, of which the first is the header, in columns; those of `goes` are left out in this order where there is no room
    for them."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    left_out = next((name for name in goes if name in rows[0]), None)
    if most is not None and sum(widths) + 2 * (len(widths) - 1) > most and left_out:
        place = rows[0].index(left_out)
        yield from table([(*row[:place], *row[place + 1 :]) for row in rows], most, goes)
        return
    for row in rows:
        columns = zip(row, widths, rows[0], strict=True)
        yield "  ".join(cell.rjust(width) if name in _RIGHT else cell.ljust(width) for cell, width, name in columns).rstrip()


def _missing(plan: FilePlan, most: int | None) -> Iterator[str]:
    yield from reasons(((absent.reason, absent.operation) for absent in plan.missing), most)


def reasons(pairs: Iterable[tuple[str, str]], most: int | None = None) -> Iterator[str]:
    """A paragraph for each reason with all that has it; the pairs are (reason, what)."""
    width = min(_WIDTH, most or _WIDTH)
    by_reason: dict[str, list[str]] = {}
    for reason, what in pairs:
        by_reason.setdefault(reason, []).append(what)
    for reason, names in by_reason.items():
        text = f"{reason}: {', '.join(names)}"
        yield from textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
