# SPDX-License-Identifier: Apache-2.0
"""A recording as rows for a table: every histogram of every interval with what it is of, for databases to add up exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime

from ssllatency.model.arithmetic.snapshots import ALL_PROCESSES
from ssllatency.model.histogram import ExponentialHistogram
from ssllatency.model.recording import Recording
from ssllatency.model.snapshot import Snapshot
from ssllatency.model.timed import Timed

HANDSHAKE = "handshake"

Row = dict[str, object]


def bucket_rows(recording: Recording) -> Iterator[Row]:
    """A row for each function and outcome, and for each group of handshakes, ending and part, of each interval and process.

    `subject` is the function's name or HANDSHAKE; `part` is None for functions. `pid` is None where calls of several processes
    are added up. `buckets` has those that aren't empty, ascending: `index` (OpenTelemetry's, at scale 4), `le_s`, the upper
    bound in seconds (included; infinite for what is too long to be told apart), and `calls`.
    """
    for number, run in enumerate(recording.runs):
        for interval in run.intervals:
            start = {
                "host": interval.host,
                "run": number,
                "started": datetime.fromisoformat(interval.started),
                "duration_s": interval.duration_s,
            }
            yield from (start | row for row in _interval_rows(interval))


def _interval_rows(interval: Snapshot) -> Iterator[Row]:
    for series in interval.series:
        pid = None if series.pid in (None, ALL_PROCESSES) else series.pid
        yield _row(series.function, None, series.outcome.value, series, pid)
    for group in interval.handshakes.groups if interval.handshakes else ():
        labels = {label.value: value for label, value in group.texts.items()}
        for part, times in group.parts.items():
            yield _row(HANDSHAKE, part.value, group.ending.value, times, None) | {"labels": labels, "other": group.other}


def _row(subject: str, part: str | None, outcome: str, timed: Timed, pid: int | None) -> Row:
    return {
        "subject": subject,
        "part": part,
        "outcome": outcome,
        "pid": pid,
        "labels": {},
        "other": False,
        "count": timed.exponential.count,
        "total_ns": timed.total_ns,
        "min_ns": timed.min_ns,
        "max_ns": timed.max_ns,
        "buckets": _buckets(timed.exponential),
    }


def _buckets(histogram: ExponentialHistogram) -> list[dict[str, object]]:
    grid = histogram.grid
    return [
        {
            "index": bucket,
            "le_s": math.inf if bucket == grid.overflow else grid.bucket_bounds(bucket)[1] / 1e9,
            "calls": calls,
        }
        for bucket, calls in histogram.by_bucket.items()
    ]
