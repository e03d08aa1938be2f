# SPDX-License-Identifier: Apache-2.0
"""What every text report begins and ends with."""

from __future__ import annotations

from collections.abc import Iterable

from ssllatency.model.snapshot import Losses, Missing, Snapshot
from ssllatency.reports.words.units import WIDTH, counted, printable, ranges, seconds, wrapped

_MANY_PROGRAMS = 8


def heading(snapshot: Snapshot, width: int = WIDTH) -> list[str]:
    """What was traced, where, when and how long."""
    pids: dict[str, list[int]] = {}
    for target in snapshot.targets:
        pids.setdefault(target.comm, []).append(target.pid)
    programs = [f"{comm} ({ranges(numbers)})" for comm, numbers in list(pids.items())[:_MANY_PROGRAMS]]
    rest = sum(len(numbers) for numbers in list(pids.values())[_MANY_PROGRAMS:])
    if rest:
        programs.append(f"and {counted(rest, 'process')} more")
    when = f"{seconds(snapshot.duration_s)} from {snapshot.started}"
    return [
        *wrapped(f"{snapshot.host}, kernel {snapshot.kernel}, engine {snapshot.engine}, {when}", hanging="  ", width=width),
        *wrapped(f"Traced: {', '.join(programs) or 'no process'}", hanging="  ", width=width),
    ]


def not_traced(missing: Iterable[Missing], width: int = WIDTH) -> list[str]:
    """What was left out, by library and reason."""
    groups: dict[str, dict[str, list[str]]] = {}
    for one in missing:
        groups.setdefault(one.library, {}).setdefault(one.reason, []).append(one.function)
    lines = []
    for library, reasons in sorted(groups.items()):
        lines.append(f"  {printable(library)}")
        for reason, functions in sorted(reasons.items()):
            lines += [*wrapped(f"{reason}:", "    ", "    ", width), *wrapped(", ".join(functions), "      ", "", width)]
    return ["Not traced:", *lines] if lines else []


def lost(losses: Losses, before: Iterable[tuple[int, str, str]] = ()) -> list[str]:
    """The losses that aren't zero, after others: each a number, what was lost (a noun) and how."""
    lines = [
        *before,
        (losses.unmatched_entries, "call", "seen to begin but never to end"),
        (losses.unmatched_exits, "call", "seen to end but not to begin, those that ran when the trace began among them"),
        (losses.map_full, "call", "not counted because a kernel map was full"),
        (losses.events_dropped, "record", "dropped because a ring buffer was full"),
        (losses.folded_processes, "process", 'counted together as "other", being more than the maximum'),
        (losses.late_processes, "process", "traced late, whose calls until then aren't counted"),
    ]
    words = [f"  {counted(number, noun)} {what}" for number, noun, what in lines if number]
    return ["Lost:", *words] if words else []


def notes(sentences: Iterable[str], width: int = WIDTH) -> list[list[str]]:
    """A block for each sentence."""
    return [wrapped(f"Note: {sentence}", hanging="  ", width=width) for sentence in sentences]
