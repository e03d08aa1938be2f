# SPDX-License-Identifier: Apache-2.0
"""The flight recorder: what a recording holds, that one incident leaves one, and what is kept meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.measured.handshakes import Shake
from tests.measured.recordings import interval_of

from ssllatency.model.handshakes import Part
from ssllatency.model.recording import Recording
from ssllatency.reports.documents.recording_reading import from_text
from ssllatency.watch.condition import ThresholdValue
from ssllatency.watch.grammar import parse
from ssllatency.watch.incident import Incidents, Step
from ssllatency.watch.kept import RecentIntervals
from ssllatency.watch.metrics import handshake_subjects
from ssllatency.watch.watching import Bounds, Incident, Watcher

WHEN = "handshake p99 > 50ms for 2s"
FAST_NS, SLOW_NS = 1_000_000, 80_000_000


def seconds(shape: str) -> list[int]:
    """The handshakes' time in each second: s for slow, others are fast."""
    return [SLOW_NS if letter == "s" else FAST_NS for letter in shape]


def watched(shape: str, *, end: bool = True) -> tuple[list[Incident], list[str]]:
    """The incidents of these seconds, and what was said as each began."""
    incidents: list[Incident] = []
    said: list[str] = []

    def begun(readings: Sequence[ThresholdValue]) -> None:
        said.append(" and ".join(reading.words for reading in readings))

    watcher = Watcher(parse(WHEN, handshake_subjects()), Bounds(5, 3, 4), ("0.9", "ssllatency watch"), begun, incidents.append)
    for number, rest_ns in enumerate(seconds(shape)):
        watcher.take(interval_of(number, [Shake({Part.REST: rest_ns})] * 10))
    if end:
        watcher.end()
    return incidents, said


def recorded(incident: Incident) -> Recording:
    return from_text(incident.recording, "watch.jsonl")


def shape_of(recording: Recording) -> str:
    parts = [interval.handshakes.groups[0].parts[Part.WALL] for interval in recording.intervals if interval.handshakes]
    return "".join("s" if part.total_ns > 10 * FAST_NS else "." for part in parts)


def test_before_and_after_are_recorded() -> None:
    [incident], [said] = watched(".........sss...........")
    recording = recorded(incident)
    # It holds from the first slow second on, as that makes the 99th percentile of two; five before its end, three after.
    assert shape_of(recording) == "....sss."
    assert said == "handshake p99 was 80.0 ms (> 50.0 ms for 2 s)"
    assert incident.words == said
    began = datetime.fromisoformat(incident.began)
    assert began == datetime.fromisoformat(recording.intervals[4].started) + timedelta(seconds=1)
    [run] = recording.runs
    assert (run.version, run.command, run.interval_s) == ("0.9", "ssllatency watch", 1.0)
    assert run.notes == (f"Recorded as '{WHEN}' began to hold at {incident.began}: {said}.",)
    assert (incident.intervals, incident.cut_short) == (8, False)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("ssssssssssssssssssssssss", ["sssss"]),
        ("...ss..ss..ss..ss....", ["...ss.."]),
        ("...ss........ss.....", ["...ss..", "....ss.."]),
        ("......", []),
    ],
)
def test_one_incident_leaves_one_recording(shape: str, expected: list[str]) -> None:
    incidents, said = watched(shape)
    assert len(incidents) == len(said) == len(expected)
    assert [shape_of(recorded(incident)) for incident in incidents] == expected


def test_what_the_end_cuts_short_is_recorded() -> None:
    [incident], _ = watched("......s")
    assert incident.cut_short
    assert shape_of(recorded(incident)) == "....s"
    assert "The watch ended before all of it was recorded." in recorded(incident).runs[0].notes
    assert watched("......s", end=False)[0] == []


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 6), st.integers(1, 6))
def test_incidents_follow_one_another(holds: list[bool], after_s: int, quiet_s: int) -> None:
    """Each beginning has its end; between the beginnings the condition hasn't held for so long at a stretch."""
    incidents = Incidents(after_s, quiet_s)
    steps = [incidents.take(now, 1.0) for now in holds]
    marks = [step for step in steps if step is not Step.NOTHING]
    assert marks == [Step.BEGIN, Step.END] * (len(marks) // 2) + [Step.BEGIN] * (len(marks) % 2)
    begins = [number for number, step in enumerate(steps) if step is Step.BEGIN]
    assert all(holds[number] for number in begins)
    assert (not begins) == (True not in holds)
    for number, step in enumerate(steps):
        if step is Step.END:
            assert steps[number - after_s] is Step.BEGIN
    for earlier, later in pairwise(begins):
        assert not any(holds[later - quiet_s : later])
        assert later - earlier > quiet_s


def test_what_is_kept_is_bounded_in_bytes() -> None:
    kept = RecentIntervals(1000, most_bytes=4000)
    for number in range(100):
        kept.add(interval_of(number, [Shake({Part.REST: number})] * 10))
        kept.trim()
    assert 1 < len(kept) < 20
    assert kept.left_out == 100 - len(kept)
    last = interval_of(99, [])
    recording = from_text(kept.recording(last, "0.9", "", 1.0, ()), "kept")
    assert len(recording.intervals) == len(kept)


def test_what_is_kept_is_bounded_in_time() -> None:
    kept = RecentIntervals(3.0)
    for number in range(10):
        kept.add(interval_of(number, [], duration_s=0.5))
        kept.trim()
    assert len(kept) == 6


def test_a_watch_that_has_seen_nothing_ends(tmp_path: Path) -> None:
    assert watched("") == ([], [])
    assert list(tmp_path.iterdir()) == []
