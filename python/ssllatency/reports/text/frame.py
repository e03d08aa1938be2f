# SPDX-License-Identifier: Apache-2.0
"""The beginning and the end of every text report."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from ssllatency.model.cost import TracingCost
from ssllatency.model.handshakes import Handshakes
from ssllatency.model.snapshot import Losses, Missing, Snapshot
from ssllatency.reports.rows import losses as loss_rows
from ssllatency.reports.rows.cost import cost_line, cost_sentences
from ssllatency.reports.rows.unclassified import unclassified
from ssllatency.reports.text.page import WIDTH, Page, wrapped
from ssllatency.units import counted, printable, ranges, seconds

_MANY_PROGRAMS = 8


def heading(snapshot: Snapshot, width: int = WIDTH, before: Snapshot | None = None) -> list[str]:
    """The heading: what was traced, where, when and how long, and what couldn't be classified; only when, in one line, where
    all else is as in the interval `before`."""
    unknown = [line for sentence in unclassified(snapshot) for line in wrapped(sentence, hanging="  ", width=width)]
    if before and _subject(before) == _subject(snapshot):
        return [f"--- {seconds(snapshot.duration_s)} from {snapshot.started} ---", *unknown]
    host = f"{snapshot.host}, kernel {snapshot.kernel}, engine {snapshot.engine}, {_when(snapshot)}"
    return [
        *wrapped(host, hanging="  ", width=width),
        *wrapped(f"Traced: {_programs(snapshot)}", hanging="  ", width=width),
        *unknown,
    ]


def short_heading(snapshot: Snapshot) -> str:
    """Say on one line where and when was measured, and what was traced."""
    return f"{snapshot.host}, {_when(snapshot)}, {_programs(snapshot)}"


def _when(snapshot: Snapshot) -> str:
    return f"{seconds(snapshot.duration_s)} from {snapshot.started}"


def _programs(snapshot: Snapshot) -> str:
    pids: dict[str, list[int]] = {}
    for target in snapshot.targets:
        pids.setdefault(target.comm, []).append(target.pid)
    programs = [f"{comm} ({ranges(numbers)})" for comm, numbers in list(pids.items())[:_MANY_PROGRAMS]]
    rest = sum(len(numbers) for numbers in list(pids.values())[_MANY_PROGRAMS:])
    return ", ".join([*programs, *([f"and {counted(rest, 'process')} more"] if rest else [])]) or "no process"


def _subject(snapshot: Snapshot) -> tuple[object, ...]:
    """The subject of the heading, but for the time."""
    targets = frozenset((target.pid, target.comm) for target in snapshot.targets)
    return snapshot.host, snapshot.kernel, snapshot.engine, targets


def not_traced(missing: Iterable[Missing], width: int = WIDTH) -> list[str]:
    """The functions that were left out, by library and reason."""
    lines = []
    for library, reasons in groupby(loss_rows.not_traced(missing), key=lambda left_out: left_out.library):
        lines.append(f"  {printable(library)}")
        for left_out in reasons:
            lines += wrapped(f"{left_out.reason}:", "    ", "    ", width)
            lines += wrapped(", ".join(left_out.functions), "      ", "", width)
    return ["Not traced:", *lines] if lines else []


def lost(
    losses: Losses, handshakes: Handshakes | None = None, title: str = "Lost or uncertain:", width: int = WIDTH
) -> list[str]:
    """The losses that aren't zero, those of handshakes first."""
    lines = [line for phrase in loss_rows.losses(losses, handshakes) for line in wrapped(phrase, "  ", "    ", width)]
    return [title, *lines] if lines else []


def costs(cost: TracingCost | None, page: Page) -> list[list[str]]:
    """The cost of tracing in one sentence; with `verbose` all that is known of it, a block for each."""
    sentences = cost_sentences(cost) if page.verbose else list(filter(None, (cost_line(cost),)))
    return [page.wrapped(sentence, hanging="  ") for sentence in sentences]


def notes(sentences: Iterable[str], page: Page, before: Snapshot | None = None) -> list[list[str]]:
    """A block for each sentence that its reader wasn't told before, be it in the report of the interval `before`."""
    told = page.told if before is None else page.told.union(before.notes)
    return [page.wrapped(f"Note: {sentence}", hanging="  ") for sentence in sentences if sentence not in told]
