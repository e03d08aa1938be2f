# SPDX-License-Identifier: Apache-2.0
"""The report of `ssllatency handshakes --jfr` as plain text: what Java virtual machines told of Java's own TLS."""

from __future__ import annotations

from collections.abc import Iterable

from ssllatency.model.flight_recorder import FlightRecording
from ssllatency.model.snapshot import Snapshot
from ssllatency.reports.text.frame import heading, notes
from ssllatency.reports.text.page import PLAIN, Page, joined
from ssllatency.units import counted, duration, printable, rate, share

_NO_TIMES = (
    "This recording has no times, failures or resumption: JDK 25 and later also time methods of Java's own TLS, unless another"
    " recording in the JVM already does."
)
_SIDES = (
    "These are handshakes of both sides, which the JVM doesn't tell apart; of TLS 1.2 and older it records a server's only"
    " where a session is resumed, and a client's only where none is."
)
_WITHIN = "The times are those of the methods with all that they wait for; waits for the peer aren't in them."
_LOST = "The JVM lost {bytes} bytes of events: there were more handshakes than these."
_CUT = "The JVM threw the oldest events away, as there were too many: there were more handshakes than these."


def render(snapshot: Snapshot, page: Page = PLAIN) -> str:
    """The report, ending in a newline."""
    blocks = [block for recording in snapshot.flight_recordings for block in _blocks(recording, snapshot.duration_s, page)]
    return joined([heading(snapshot, page.width), *blocks, *notes(snapshot.notes, page)])


def _blocks(recording: FlightRecording, duration_s: float, page: Page) -> list[list[str]]:
    per_second = f" ({rate(recording.count / duration_s)}/s)" if duration_s else ""
    peers = f" with {counted(recording.peers, 'host')}" if recording.peers else ""
    first = (
        f"Java's own TLS in PID {recording.pid} (JDK {printable(recording.release)}):"
        f" {counted(recording.count, 'handshake')} recorded{peers}{per_second}. {_SIDES}"
    )
    return [
        page.wrapped(first, hanging="  "),
        _negotiated(recording, page),
        _methods(recording, page),
        _failures(recording, page),
        *_said(_unknown(recording), page),
    ]


def _negotiated(recording: FlightRecording, page: Page) -> list[str]:
    if not recording.negotiated:
        return []
    rows = [
        [printable(row.version) or "?", printable(row.cipher) or "?", str(row.count), share(row.count, recording.count)]
        for row in recording.negotiated
    ]
    return page.table([["VERSION", "CIPHER", "COUNT", "SHARE"], *rows], 2)


def _methods(recording: FlightRecording, page: Page) -> list[str]:
    rows = [
        [printable(method.step), str(method.count), *(duration(time) if time is not None else "-" for time in times)]
        for method in recording.methods or ()
        if method.count
        for times in ((method.mean_ns, method.min_ns, method.max_ns),)
    ]
    return (
        [*page.table([["STEP", "COUNT", "MEAN", "MIN", "MAX"], *rows], 1), *page.wrapped(_WITHIN, "  ", "  ")] if rows else []
    )


def _failures(recording: FlightRecording, page: Page) -> list[str]:
    if recording.thrown is None:
        return []
    number = sum(thrown.count for thrown in recording.thrown)
    lines = page.wrapped(f"Thrown for an error of TLS: {counted(number, 'exception')}.", hanging="  ")
    for thrown in recording.thrown:
        lines += page.wrapped(f"{thrown.count} {printable(thrown.exception)}: {printable(thrown.message)}", "  ", "    ")
    return lines


def _unknown(recording: FlightRecording) -> Iterable[str]:
    if recording.methods is None:
        yield _NO_TIMES
    if recording.lost_bytes:
        yield _LOST.format(bytes=recording.lost_bytes)
    if recording.cut:
        yield _CUT


def _said(sentences: Iterable[str], page: Page) -> list[list[str]]:
    return [page.wrapped(sentence, hanging="  ") for sentence in sentences]
