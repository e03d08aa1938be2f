# SPDX-License-Identifier: Apache-2.0
"""The ssllatency report as plain text.

In order: what was traced; the distribution in the style of bpftrace's ssllatency; a table of percentiles, the function
that took the most time first; why calls were retried or failed; what was not traced, and what was lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ssllatency.model.arithmetic.snapshots import ALL_PROCESSES, by_function
from ssllatency.model.sampling import Sampling
from ssllatency.model.snapshot import Outcome, Series, Snapshot, Target
from ssllatency.reports.rows.functions import HEADINGS, function_rows, unsuccessful
from ssllatency.reports.rows.losses import calls_in_flight
from ssllatency.reports.rows.sampling import HEADINGS as SAMPLED_HEADINGS
from ssllatency.reports.rows.sampling import sampling_rows, sampling_sentences
from ssllatency.reports.text import distribution
from ssllatency.reports.text.frame import costs, heading, lost, not_traced, notes
from ssllatency.reports.text.page import PLAIN, Page, joined
from ssllatency.reports.words.marks import FAILURE
from ssllatency.units import printable, seconds

_GOES = ("P99.9", "P90", "MEAN")  # columns that are left out where there is no room
_BOUNDS = "In brackets: 95 % bounds, where there were enough windows for them."


def render(snapshot: Snapshot, page: Page = PLAIN, *, by_process: bool = False, before: Snapshot | None = None) -> str:
    """The report, ending in a newline. Processes are added up, or with `by_process` each has its own section. `before`: the
    interval that was reported before this one, whose heading and notes needn't be repeated."""
    beyond = [
        not_traced(snapshot.missing, page.width),
        lost(snapshot.losses, width=page.width),
        *costs(snapshot.cost, page),
        *notes(snapshot.notes, page, before),
    ]
    return joined([heading(snapshot, page.width, before), *_functions(snapshot, page, by_process), *beyond])


def render_functions(snapshot: Snapshot, page: Page = PLAIN, *, by_process: bool = False) -> str:
    """The part that follows a report of the same snapshot's handshakes, which has said what was traced, what was missed and
    what that has cost."""
    return joined(_functions(snapshot, page, by_process))


def _functions(snapshot: Snapshot, page: Page, by_process: bool) -> list[list[str]]:
    """Everything that is counted by function."""
    blocks: list[list[str]] = []
    series = [calls for calls in snapshot.series if calls.count]
    if not series:
        blocks.append(_nothing_seen(snapshot, page))
    elif by_process:
        for process, title in _processes(series, snapshot.targets):
            blocks += [[f"--- {title} ---"], *_calls(process, page)]
    else:
        blocks += _calls(by_function(snapshot).series, page)
    return [*blocks, *_in_windows(snapshot.sampling, page), calls_in_flight(snapshot.in_flight)]


def _in_windows(sampling: Sequence[Sampling], page: Page) -> list[list[str]]:
    """The functions that were watched in windows only, and what is estimated from that."""
    rows = [[*row.names, *row.cells] for row in sampling_rows(sampling)]
    estimates = page.fitted([[*map(str.upper, SAMPLED_HEADINGS)], *rows], left=2) if rows else []
    note = page.wrapped(_BOUNDS) if rows else []
    return [*(page.wrapped(sentence, hanging="  ") for sentence in sampling_sentences(sampling)), estimates, note]


def _nothing_seen(snapshot: Snapshot, page: Page) -> list[str]:
    sentence = f"No TLS call was seen in {seconds(snapshot.duration_s)}: check that these are the processes that serve TLS,"
    return page.wrapped(f"{sentence} and that clients reached them in that time.")


def _processes(series: Iterable[Series], targets: Iterable[Target]) -> Iterator[tuple[list[Series], str]]:
    """The series of each process and its title, the process that spent the most time first, "other" last."""
    comms = {target.pid: target.comm for target in targets}
    groups: dict[int | None, list[Series]] = {}
    for calls in series:
        groups.setdefault(calls.pid, []).append(calls)

    def order(pid: int | None) -> tuple[bool, int, int]:
        return pid is None, -sum(calls.total_ns for calls in groups[pid]), pid or 0

    for pid in sorted(groups, key=order):
        yield groups[pid], _title(pid, comms)


def _title(pid: int | None, comms: dict[int, str]) -> str:
    if pid is None:
        return "other"
    if pid == ALL_PROCESSES:
        return "all processes"
    return printable(f"{comms[pid]}({pid})") if pid in comms else f"process {pid}"


def _calls(series: Sequence[Series], page: Page) -> list[list[str]]:
    """Everything about these calls: one series a function and outcome."""
    rows = function_rows(series)
    lines = page.fitted([[*map(str.upper, HEADINGS)], *([*row.names, *row.cells] for row in rows)], left=2, goes=_GOES)
    failed = [False, *(row.names[1] == Outcome.FAILURE for row in rows)]
    return [
        ["Latency distribution in microsecond:"],
        *distribution.paragraphs([calls for calls in series if calls.count], page),
        [page.marked(line, FAILURE) if bad else line for line, bad in zip(lines, failed, strict=True)],
        _retries_and_failures(series, page),
    ]


def _retries_and_failures(series: Sequence[Series], page: Page) -> list[str]:
    lines = [line for calls in unsuccessful(series) for line in page.wrapped(calls.words, "  ", "    ")]
    return ["Retries and failures:", *lines] if lines else []
