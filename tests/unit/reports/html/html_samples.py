# SPDX-License-Identifier: Apache-2.0
"""Recordings to make pages of: a server over time, before and after its key became slower, and whatever else there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

from tests.measured.handshakes import Shake
from tests.measured.recordings import calls_of, interval_of, shakes_of
from tests.unit.reports import handshake_samples, report_samples

from ssllatency.model.handshakes import NO, Ending, Label, Part
from ssllatency.model.recording import Recording, Run
from ssllatency.model.snapshot import Outcome, Snapshot

_STARTED = datetime.fromisoformat("2030-01-31T12:00:00+00:00")
_LABELS = {Label.VERSION: "TLSv1.3", Label.RESUMED: NO}
_FAILED = Shake({Part.REST: 21_000}, {}, Ending.FAILURE, None, "no shared cipher", 0x0A0000C1, "handshake failure", True)


def at(snapshot: Snapshot, second: float, duration_s: float = 1.0) -> Snapshot:
    """The snapshot as the interval that began so long after the beginning."""
    started = (_STARTED + timedelta(seconds=second)).isoformat().replace("+00:00", "Z")
    return replace(snapshot, started=started, duration_s=duration_s)


def served(seconds: int, key_ns: int = 600_000, seed: int = 1) -> Recording:
    """A server for so many seconds, with a key that takes about so long; every fourth second two handshakes failed."""
    random = Random(seed)
    made = []
    for second in range(seconds):
        good = [replace(one, labels=_LABELS, key=("sign", "RSA-2048")) for one in shakes_of(random, 30, key_ns)]
        calls = calls_of("SSL_do_handshake", [one.parts[Part.CALLS] for one in good])
        asked = replace(calls_of("SSL_read", [700, 900], Outcome.RETRY), reasons={"WANT_READ": 2})
        made.append(interval_of(second, good if second % 4 else [*good, _FAILED, _FAILED], [calls, asked]))
    return Recording.of(made, "served.jsonl")


def _later(recording: Recording, second: int) -> tuple[Snapshot, ...]:
    return tuple(at(one, second + number) for number, one in enumerate(recording.intervals))


def alone(snapshot: Snapshot) -> Recording:
    """One interval."""
    return Recording.of([snapshot])


RECORDINGS: Mapping[str, Callable[[], tuple[Recording, Recording | None]]] = {
    "over_time": lambda: (served(60), None),
    "interrupted": lambda: (Recording((*served(20).runs, Run(_later(served(20, seed=2), 40)))), None),
    "changed": lambda: (served(60, 900_000), served(50, seed=2)),
    "kinds": lambda: (alone(handshake_samples.distant()), None),
    "kinds_changed": lambda: (alone(handshake_samples.distant()), alone(handshake_samples.near())),
    "offloaded": lambda: (alone(handshake_samples.offloaded()), None),
    "failing": lambda: (alone(handshake_samples.failing()), None),
    "failing_now": lambda: (alone(handshake_samples.failing()), alone(handshake_samples.near())),
    "nothing": lambda: (alone(handshake_samples.idle()), None),
    "functions": lambda: (alone(report_samples.busy()), None),
    "functions_changed": lambda: (alone(report_samples.busy()), alone(report_samples.processes())),
    "troubled": lambda: (alone(report_samples.troubled()), None),
    "no_call": lambda: (alone(report_samples.idle()), None),
}
