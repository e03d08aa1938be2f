# SPDX-License-Identifier: Apache-2.0
"""Readings of a made-up session for tests of the live view: cumulative, a second apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ssllatency.model.arithmetic.handshake_sums import merge
from ssllatency.model.arithmetic.snapshots import add_series
from ssllatency.model.handshakes import NO, YES, Ending, Handshakes, Label, Part
from ssllatency.model.live.history import History
from ssllatency.model.live.reading import LiveReading
from ssllatency.model.snapshot import Outcome, Series
from tests.measured.handshakes import Shake, handshakes_of
from tests.measured.recordings import calls_of, interval_of

BY = (Label.PROCESS, Label.RESUMED)
SERVICES = {17: "nginx.service", 18: "nginx.service", 40: "docker:lb"}
MS = 1_000_000
FUNCTION = "SSL_do_handshake"


def shake(process: str, ms: float = 2.0, *, resumed: bool = False, waits_ms: float = 0.0, queue_ms: float = 0.0) -> Shake:
    """A successful handshake of so many milliseconds in calls, half of them in the private key, beside its waits and queue."""
    half = round(ms * MS / 2)
    waits = {Part.WAIT_PEER: round(waits_ms * MS), Part.QUEUE_SERVER: round(queue_ms * MS)}
    times = {Part.PRIVATE_KEY: half, Part.REST: half, **{part: time_ns for part, time_ns in waits.items() if time_ns}}
    return Shake(times, {Label.PROCESS: process, Label.RESUMED: YES if resumed else NO}, key=("sign", "RSA-2048"))


def failed(process: str, reason: str = "no shared cipher") -> Shake:
    """A handshake that failed for this reason."""
    labels = {Label.PROCESS: process, Label.RESUMED: NO}
    why = {"reason": reason, "code": 0xA0000C1, "alert": "handshake failure"}
    return Shake({Part.REST: MS // 10}, labels, Ending.FAILURE, sent=True, **why)  # type: ignore[arg-type]


def readings(
    seconds: Sequence[Sequence[Shake]],
    retries: Sequence[int] = (),
    services: Mapping[int, str] = SERVICES,
    by: Sequence[Label] = BY,
) -> list[LiveReading]:
    """One at the start, and one after each second in which these handshakes ended and process 17 had so many retries."""
    handshakes, series = handshakes_of((), tuple(by)), tuple[Series, ...]()
    read = [_reading(0, handshakes, series, services)]
    for number, shakes in enumerate(seconds, 1):
        handshakes = merge(handshakes, handshakes_of(shakes, tuple(by)))
        series = _added((*series, *_calls(len(shakes), retries[number - 1] if number <= len(retries) else 0)))
        read.append(_reading(number, handshakes, series, services))
    return read


def _calls(successes: int, retries: int) -> list[Series]:
    return [
        *([calls_of(FUNCTION, [20_000] * retries, Outcome.RETRY)] if retries else ()),
        *([calls_of(FUNCTION, [2 * MS] * successes)] if successes else ()),
    ]


def _added(series: Sequence[Series]) -> tuple[Series, ...]:
    by_outcome = {calls.outcome: [other for other in series if other.outcome is calls.outcome] for calls in series}
    return tuple(add_series(alike, alike[0].pid) for alike in by_outcome.values())


def _reading(number: int, handshakes: Handshakes, series: tuple[Series, ...], services: Mapping[int, str]) -> LiveReading:
    snapshot = replace(interval_of(0, (), series), duration_s=float(number), handshakes=handshakes)
    return LiveReading(snapshot, services, own_cpu_s=number * 0.02)


def history_of(
    seconds: Sequence[Sequence[Shake]],
    retries: Sequence[int] = (),
    services: Mapping[int, str] = SERVICES,
    by: Sequence[Label] = BY,
) -> History:
    """The history of such readings."""
    history = History()
    for reading in readings(seconds, retries, services, by):
        history.add(reading)
    return history
