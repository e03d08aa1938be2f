# SPDX-License-Identifier: Apache-2.0
"""Keeps the intervals that are read for a live view in a recording, while that is switched on. It attaches nothing itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack

from ssllatency import __version__
from ssllatency.errors import SsllatencyError
from ssllatency.model.arithmetic.snapshots import difference
from ssllatency.model.live.ended import folded
from ssllatency.model.live.reading import LiveReading
from ssllatency.model.snapshot import Snapshot
from ssllatency.output.recordings import Writer
from ssllatency.reports.documents.recording import end_line, header_line, interval_line, run_fields
from ssllatency.units import counted


class Recorder:
    """A recording that can be started and stopped, each time in a new file. May be used from several threads."""

    def __init__(self, name_of_file: Callable[[], str], command: str, interval_s: float) -> None:
        """`name_of_file` is asked at each start."""
        self._name_of_file, self._command, self._interval_s = name_of_file, command, interval_s
        self._lock = threading.Lock()
        self._opened = ExitStack()
        self._writer: Writer | None = None
        self._latest: Snapshot | None = None
        self._number = 0
        self.file = ""

    @property
    def running(self) -> bool:
        """Whether intervals are being kept."""
        return self._writer is not None

    def toggle(self) -> str:
        """Starts or stops; what happened, in a sentence. SsllatencyError where the file can't be written."""
        with self._lock:
            return self._stop() if self._writer else self._start()

    def take(self, reading: LiveReading) -> str:
        """Keeps what happened since the reading before, while it runs. A sentence where that failed, which ends the recording,
        else ""."""
        with self._lock:
            earlier, self._latest = self._latest, reading.snapshot
            if self._writer is None or earlier is None:
                return ""
            try:
                self._number += 1
                since = difference(reading.snapshot, folded(earlier, reading.ended))
                self._writer.write(interval_line(since, self._number))
            except SsllatencyError as error:
                self._close()
                return f"The recording has ended: {error}"
            return ""

    def close(self) -> str:
        """Stops if it runs; what was kept, "" where nothing was."""
        with self._lock:
            return self._stop() if self._writer else ""

    def _start(self) -> str:
        if self._latest is None:
            return "There is nothing to record yet."
        name, host, kernel = self._name_of_file(), self._latest.host, self._latest.kernel
        self._writer = self._opened.enter_context(Writer(name))
        self.file, self._number = name, 0
        try:
            self._writer.write(header_line([run_fields(host, kernel, __version__, self._command, self._interval_s)]))
        except SsllatencyError:
            self._close()
            raise
        return f"Recording to {name}; r stops it."

    def _stop(self) -> str:
        try:
            if self._writer:
                self._writer.write(end_line(self._number))
        except SsllatencyError as error:
            return f"The recording has ended: {error}"
        finally:
            self._close()
        return f"{self.file} holds {counted(self._number, 'interval')}."

    def _close(self) -> None:
        self._writer = None
        self._opened.close()
        self._opened = ExitStack()
