# SPDX-License-Identifier: Apache-2.0
"""The last intervals in memory, as a recording has them, compressed: bounded in time and in bytes."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Sequence

from ssllatency.model.snapshot import Snapshot
from ssllatency.reports.documents.recording import end_line, header_line, interval_text, numbered, run_fields

MOST_BYTES = 64 << 20
_LEVEL = 1  # of compression: an interval's names and empty buckets compress well by any


class RecentIntervals:
    """At most the last `seconds` of intervals, and at most so many bytes of them."""

    def __init__(self, seconds: float, most_bytes: int = MOST_BYTES) -> None:
        self._seconds, self._most_bytes = seconds, most_bytes
        self._intervals: deque[tuple[float, bytes]] = deque()
        self._bytes = self.left_out = 0
        self._kept_s = 0.0

    def __len__(self) -> int:
        return len(self._intervals)

    def add(self, interval: Snapshot) -> None:
        """Adds an interval at the end."""
        text = zlib.compress(interval_text(interval).encode(), _LEVEL)
        self._intervals.append((interval.duration_s, text))
        self._bytes += len(text)
        self._kept_s += interval.duration_s
        while self._bytes > self._most_bytes and len(self._intervals) > 1:
            self._drop_first()
            self.left_out += 1

    def trim(self) -> None:
        """Drops what is too old to keep."""
        while self._intervals and self._kept_s - self._intervals[0][0] >= self._seconds:
            self._drop_first()

    def _drop_first(self) -> None:
        seconds, text = self._intervals.popleft()
        self._bytes -= len(text)
        self._kept_s -= seconds

    def recording(self, last: Snapshot, version: str, command: str, interval_s: float, notes: Sequence[str]) -> str:
        """All of it as the text of a recording with these notes. `last` tells host and kernel."""
        lines = [header_line([run_fields(last.host, last.kernel, version, command, interval_s, notes)])]
        lines += [numbered(zlib.decompress(text).decode(), number) for number, (_, text) in enumerate(self._intervals, 1)]
        return "".join([*lines, end_line(len(self._intervals))])
