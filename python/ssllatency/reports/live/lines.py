# SPDX-License-Identifier: Apache-2.0
"""The lines of a live view: what stands above and below its table, and the cells of the table itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from ssllatency.model.cost import TracingCost
from ssllatency.model.handshakes import Cause, Handshakes
from ssllatency.model.live.history import Failures
from ssllatency.model.live.rows import LiveRow, handshakes_of
from ssllatency.model.snapshot import Snapshot
from ssllatency.reports.diagnosis.diagnosis import conclusion, diagnose
from ssllatency.reports.live.columns import Column
from ssllatency.reports.live.drawings import rates, spark
from ssllatency.reports.live.shown import Shown
from ssllatency.reports.live.styled import Line, Piece, PieceStyle, words
from ssllatency.reports.rows.handshakes.endings import cause_words
from ssllatency.reports.rows.losses import losses
from ssllatency.reports.text.page import Page
from ssllatency.reports.words.label_words import ADJECTIVES
from ssllatency.units import duration, printable, rate, seconds, share

_TITLE, _LEAST_HOST = "top  ", 6
_NOTHING = "No handshake ended in this time."


def clock(at_s: float) -> str:
    """The time of day, where we are."""
    return datetime.fromtimestamp(at_s).astimezone().strftime("%H:%M:%S")


def heading(shown: Shown, at_s: float, page: Page) -> Line:
    """Return whose numbers these are, of how long up to when, and what they cost; a long host name is cut."""
    snapshot, paid = shown.window.snapshot, cost(shown)
    when = f"  {clock(at_s)}, last {seconds(snapshot.duration_s)}  "
    room = page.width - len(_TITLE) - len(when) - len(paid)
    return [
        Piece(_TITLE, PieceStyle.STRONG),
        Piece(cut(snapshot.host, max(_LEAST_HOST, room))),
        Piece(when),
        Piece(paid, PieceStyle.FAINT),
    ]


def cost(shown: Shown) -> str:
    """The cost of the probes to the traced processes, and of the tool itself."""
    own = "" if shown.window.own_cpu is None else f"top {share(shown.window.own_cpu, 1.0)} of a core"
    return ", ".join(filter(None, (_of_probes(shown.window.snapshot.cost), own)))


def _of_probes(paid: TracingCost | None) -> str:
    if paid is None:
        return ""
    if paid.cpu_ns:
        return f"probes {share(paid.total_ns, paid.cpu_ns)} of their CPU"
    return f"probes {duration(paid.total_ns)} of CPU"


def totals(shown: Shown) -> Line:
    """All handshakes together."""
    row, handshakes = shown.whole, shown.window.snapshot.handshakes
    resumed = f", resumed {share(row.resumed, 1.0)}" if row.resumed is not None else ""
    queue = f", queue {duration(row.queue_ns)}" if row.queue_ns is not None else ""
    in_flight = f", {handshakes.in_flight} in flight" if handshakes and handshakes.in_flight else ""
    pieces = [Piece(f"{rate(row.rate)} handshakes/s{resumed}")]
    pieces += [Piece(", "), Piece(f"{row.failed} failed", PieceStyle.FAILURE)] if row.failed else [Piece(", none failed")]
    pieces += [Piece(f", {row.abandoned} abandoned")] if row.abandoned else []
    return [*pieces, Piece(queue), Piece(in_flight)]


def lost(shown: Shown) -> Line:
    """Return what was lost; nothing where nothing was."""
    phrases = losses(shown.window.snapshot.losses, shown.window.snapshot.handshakes)
    return [Piece(f"  LOST: {phrases[0]}", PieceStyle.FAILURE)] if phrases else []


def headings(shown: Shown, columns: Sequence[Column]) -> list[str]:
    """The headings of the columns, the name's first; the one by which rows are ordered is marked."""
    mark = "^" if shown.choice.ascending else "*"
    keys = ["name", *(column.key for column in columns)]
    texts = [shown.choice.view.upper().replace("_", " "), *(column.heading for column in columns)]
    return [f"{mark}{text}" if key == shown.choice.sort else text for key, text in zip(keys, texts, strict=True)]


def cut(name: str, width: int) -> str:
    """The name, cut off in the middle where it is too long: both ends tell names apart."""
    name = printable(name)
    if len(name) <= width:
        return name
    return f"{name[: width - width // 2 - 1]}~{name[len(name) - width // 2 :]}"


def cell(row: LiveRow, column: Column) -> Piece:
    """One cell; failures stand out."""
    text = column.cell(row)
    return Piece(text, PieceStyle.FAILURE if column.key == "failed" and row.failed else PieceStyle.PLAIN)


def trend(shown: Shown, row: LiveRow, width: int, page: Page) -> str:
    """Return how the row's rate went over the last minutes."""
    return spark(rates(shown.intervals, shown.counts_of(row), width), width, page)


def diagnosis(snapshot: Snapshot) -> list[str]:
    """The diagnosis from the numbers of all handshakes."""
    said = conclusion(snapshot.handshakes, snapshot.duration_s) if snapshot.handshakes else []
    return said or [_NOTHING]


def diagnosis_of(row: LiveRow, snapshot: Snapshot) -> list[str]:
    """The diagnosis of one row, of which keys and reasons aren't known by themselves."""
    measured = snapshot.handshakes or Handshakes(())
    shown = replace(handshakes_of(row), arrivals=measured.arrivals, quotas=measured.quotas, role=measured.role)
    return diagnose(shown, row.duration_s)


def failures(newest: Iterable[Failures], most: int) -> list[Line]:
    """Return why handshakes didn't succeed, the newest first: a line for each cause, with when it occurred last, and how often
    in the last minutes."""
    by_cause: dict[Cause, list[Failures]] = {}
    for failure in newest:
        cause = replace(failure.cause, count=0, total_ns=0)
        by_cause[cause] = [*by_cause.pop(cause, []), failure]  # the newest last
    return [_failure_line(cause, alike) for cause, alike in list(by_cause.items())[::-1][:most]]


def _failure_line(cause: Cause, alike: Sequence[Failures]) -> Line:
    number = sum(failure.cause.count for failure in alike)
    what = f"{f'{number} x ' if number > 1 else ''}{ADJECTIVES[cause.ending]}: {cause_words(cause)}"
    return [Piece(f"{clock(alike[-1].at_s)}  ", PieceStyle.FAINT), words(what, PieceStyle.FAILURE)]
