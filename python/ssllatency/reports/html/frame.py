# SPDX-License-Identifier: Apache-2.0
"""What a page says of functions, of what was traced, and of what wasn't seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from ssllatency.model.arithmetic import by_function
from ssllatency.model.recording import Recording
from ssllatency.model.snapshot import Missing, Outcome, Snapshot
from ssllatency.model.statistics.comparison import Comparison
from ssllatency.reports.html import change as html_change
from ssllatency.reports.html.tables import Row, Table, compared, table, title
from ssllatency.reports.text import trace as text
from ssllatency.reports.text.frame import lost
from ssllatency.reports.text.handshakes.report import lost_handshakes, uncounted
from ssllatency.reports.words.units import counted, printable, ranges, seconds

_MOST_NAMES = 12


@dataclass(frozen=True)
class Fact:
    """A line of the page's head: what it is and what it says."""

    name: str
    text: str


def facts(recording: Recording, whole: Snapshot) -> list[Fact]:
    """Where, when and how long was measured, by what."""
    runs, intervals = len(recording.runs), len(recording.intervals)
    length = f"{seconds(whole.duration_s)} in {counted(intervals, 'interval')}"
    commands = dict.fromkeys(run.command for run in recording.runs if run.command)
    return [
        Fact("Host", whole.host),
        *([Fact("File", recording.label)] if recording.label else []),
        Fact("Started", _clock(whole.started)),
        Fact("Measured", f"{length} of {counted(runs, 'run')}" if runs > 1 else length),
        Fact("Kernel", whole.kernel),
        Fact("Engine", whole.engine),
        *(Fact("Command", command) for command in list(commands)[:4]),
    ]


def _clock(started: str) -> str:
    return f"{datetime.fromisoformat(started):%Y-%m-%d %H:%M:%S %Z}"


def targets(whole: Snapshot) -> Table:
    """The traced programs with their processes and libraries."""
    pids: dict[tuple[str, str, str], list[int]] = {}
    for target in whole.targets:
        for library in target.libraries or (None,):
            gone = f"{library.path} (deleted)" if library and library.deleted else library.path if library else "no library"
            pids.setdefault((target.comm, gone, library.version if library else ""), []).append(target.pid)
    rows = [Row((comm, path, version or "-", ranges(numbers)), ()) for (comm, path, version), numbers in pids.items()]
    return table("Traced", ("Program", "Library", "Version", "Processes"), rows)


def functions(after: Snapshot, comparison: Comparison | None) -> Table:
    """Calls by function and outcome, the function that took the most time first."""
    headings = [title(heading) for heading in text.HEADINGS]
    before = comparison.before if comparison else None
    verdicts = html_change.function_verdicts(comparison) if comparison else None
    return compared("Calls by function and outcome", headings, _functions, after, before, verdicts)


def _functions(snapshot: Snapshot) -> Iterator[Row]:
    for group in text.by_time(one for one in by_function(snapshot).series if one.count):
        for one in group:
            function, outcome, *cells = text.row(one)
            yield Row((function, outcome), tuple(cells))


def reasons(snapshot: Snapshot) -> list[str]:
    """Why calls were retried or failed, a sentence a function."""
    sentences = []
    for group in text.by_time(one for one in by_function(snapshot).series if one.count):
        parts = [text.reasons(one) for one in group if one.outcome is not Outcome.SUCCESS]
        sentences += [f"{group[0].function}: {', '.join(parts)}."] if parts else []
    return sentences


def missing(functions: Iterable[Missing]) -> Table:
    """What was not traced, by library and reason."""
    groups: dict[tuple[str, str], list[str]] = {}
    for one in functions:
        groups.setdefault((one.library, one.reason), []).append(one.function)
    rows = [Row((library, reason, _listed(names)), ()) for (library, reason), names in sorted(groups.items())]
    return table("Not traced", ("Library", "Reason", "Functions"), rows)


def _listed(names: Sequence[str]) -> str:
    beyond = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + beyond


def incomplete(whole: Snapshot) -> bool:
    """Whether something was left out because there was no room for it."""
    dropped = whole.handshakes.dropped if whole.handshakes else 0
    return bool(dropped or whole.losses.map_full or whole.losses.events_dropped)


def unseen(whole: Snapshot) -> list[str]:
    """Sentences about what was lost and what was still under way."""
    handshakes = whole.handshakes
    lines = [line.strip() for line in lost(whole.losses, lost_handshakes(handshakes) if handshakes else ())[1:]]
    lost_words = [f"Lost: {line}." for line in lines] or ["Nothing was lost."]
    under_way = text.in_flight(whole.in_flight)
    if handshakes and handshakes.in_flight:
        under_way.append(f"In flight at the end: {counted(handshakes.in_flight, 'handshake')} had begun and not ended.")
    notes = [*(uncounted(handshakes) if handshakes else ()), *whole.notes]
    return [*lost_words, *under_way, *(f"Note: {printable(note)}" for note in notes)]
