# SPDX-License-Identifier: Apache-2.0
"""The ssllatency report as plain text.

In order: what was traced; the distribution in the style of bpftrace's ssllatency; a table of percentiles, the function
that took the most time first; why calls were retried or failed; what was not traced, and what was lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ssllatency.model.arithmetic import ALL_PROCESSES, by_function
from ssllatency.model.snapshot import Outcome, Series, Snapshot, Target
from ssllatency.reports.text import distribution
from ssllatency.reports.text.frame import heading, lost, not_traced, notes
from ssllatency.reports.words.quantiles import quantile
from ssllatency.reports.words.units import counted, duration, printable, seconds, table, wrapped

_QUANTILES = (0.5, 0.9, 0.99, 0.999)
HEADINGS = ("FUNCTION", "OUTCOME", "COUNT", "MEAN", "P50", "P90", "P99", "P99.9", "MAX")
_OUTCOMES = (Outcome.SUCCESS, Outcome.RETRY, Outcome.CLOSED, Outcome.FAILURE)


def render(snapshot: Snapshot, *, by_process: bool = False) -> str:
    """The report, ending in a newline. Processes are added up, or with `by_process` each has its own section."""
    blocks = [heading(snapshot)]
    series = [one for one in snapshot.series if one.count]
    if not series:
        blocks.append(_nothing_seen(snapshot))
    elif by_process:
        for process, title in _processes(series, snapshot.targets):
            blocks += [[f"--- {title} ---"], *_calls(process)]
    else:
        blocks += _calls(by_function(snapshot).series)
    blocks += [in_flight(snapshot.in_flight), not_traced(snapshot.missing), lost(snapshot.losses)]
    blocks += notes(snapshot.notes)
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _nothing_seen(snapshot: Snapshot) -> list[str]:
    sentence = f"No TLS call was seen in {seconds(snapshot.duration_s)}: check that these are the processes that serve TLS,"
    return wrapped(f"{sentence} and that clients reached them in that time.")


def _processes(series: Iterable[Series], targets: Iterable[Target]) -> Iterator[tuple[list[Series], str]]:
    """The series of each process and its title, the process that spent the most time first, "other" last."""
    comms = {target.pid: target.comm for target in targets}
    groups: dict[int | None, list[Series]] = {}
    for one in series:
        groups.setdefault(one.pid, []).append(one)

    def order(pid: int | None) -> tuple[bool, int, int]:
        return pid is None, -sum(one.total_ns for one in groups[pid]), pid or 0

    for pid in sorted(groups, key=order):
        yield groups[pid], _title(pid, comms)


def _title(pid: int | None, comms: dict[int, str]) -> str:
    if pid is None:
        return "other"
    if pid == ALL_PROCESSES:
        return "all processes"
    return printable(f"{comms[pid]}({pid})") if pid in comms else f"process {pid}"


def _calls(series: Sequence[Series]) -> list[list[str]]:
    """Everything about these calls: one series a function and outcome."""
    histograms, stats, other_stats = distribution.paragraphs([one for one in series if one.count])
    functions = by_time(one for one in series if one.count)
    return [
        ["Latency distribution in microsecond:"],
        histograms,
        stats,
        other_stats,
        table([HEADINGS, *(row(one) for group in functions for one in group)], left=2),
        _retries_and_failures(functions),
    ]


def by_time(series: Iterable[Series]) -> list[list[Series]]:
    """The series of each function, success first; the function that took the most time in all first."""
    groups: dict[str, list[Series]] = {}
    for one in series:
        groups.setdefault(one.function, []).append(one)
    ordered = sorted(groups.values(), key=lambda group: (-sum(one.total_ns for one in group), group[0].function))
    return [sorted(group, key=lambda one: _OUTCOMES.index(one.outcome)) for group in ordered]


def row(series: Series) -> list[str]:
    """The cells under HEADINGS."""
    quantiles = [quantile(series, q) for q in _QUANTILES]
    mean = duration(series.total_ns / series.count)
    return [printable(series.function), series.outcome, str(series.count), mean, *quantiles, duration(series.max_ns)]


def _retries_and_failures(functions: Sequence[Sequence[Series]]) -> list[str]:
    lines = []
    for group in functions:
        parts = [reasons(one) for one in group if one.outcome is not Outcome.SUCCESS]
        if parts:
            lines += wrapped(f"{group[0].function}: {', '.join(parts)}", "  ", "    ")
    return ["Retries and failures:", *lines] if lines else []


def reasons(series: Series) -> str:
    """How many calls ended so, and why."""
    if series.outcome is Outcome.CLOSED:  # close_notify: SSL_read returns 0 at the regular end of a connection
        return f"{series.count} closed by the peer in good order"
    number = counted(series.count, str(series.outcome))
    ordered = sorted(series.reasons.items(), key=lambda item: (-item[1], item[0]))
    named = [f"{name} {count}" for name, count in ordered]
    return f"{number} ({', '.join(named)})" if named else number


def in_flight(number: int) -> list[str]:
    """The sentence about calls that hadn't returned at the end, if there are any."""
    return [f"In flight at the end: {counted(number, 'call')} had begun and not returned."] if number else []
