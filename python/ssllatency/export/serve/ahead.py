# SPDX-License-Identifier: Apache-2.0
"""Answers that are made just before they are asked for: a scraper comes at regular times, and most of what its scrape takes is
to read what was counted since the last one.

An answer is no older than any other may be: a reading is handed out for a second. Where a scraper doesn't come when it is
expected, one answer was made in vain, and none is made ahead until scrapes are regular again; those of several scrapers aren't.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from ssllatency.export.metrics.points import NoReading

_AHEAD_S = 0.6  # so long before a scrape its answer is made, which on a busy machine may take half of that
_OFF_S = 0.25  # by so much at most a regular scrape comes early or late
_LEAST_S = 2.0  # between two scrapes: of more frequent ones each would be just after the last


class Rhythm:
    """The times of scrapes, by the clock's seconds, and when the next one should come."""

    def __init__(self) -> None:
        self._last_s = float("-inf")
        self._interval_s = 0.0
        self.next_s: float | None = None

    def heard(self, now_s: float) -> None:
        """A scrape has come. The next is expected where the last two intervals are the same."""
        interval_s, before_s = now_s - self._last_s, self._interval_s
        is_regular = interval_s >= _LEAST_S and abs(interval_s - before_s) <= _OFF_S
        self._last_s, self._interval_s = now_s, interval_s
        self.next_s = now_s + interval_s if is_regular else None


class Ahead:
    """Makes answers in a thread of its own, from `start` to `stop`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rhythm = Rhythm()
        self._changed = threading.Condition()
        self._make: Callable[[], object] = lambda: None
        self._over = False

    def start(self) -> None:
        """Starts the thread."""
        threading.Thread(target=self._run, daemon=True).start()

    def stop(self) -> None:
        """Ends it."""
        with self._changed:
            self._over = True
            self._changed.notify()

    def scraped(self, make: Callable[[], object]) -> None:
        """A scrape has come; `make` makes its answer, or raises NoReading."""
        with self._changed:
            self._make = make
            self._rhythm.heard(self._clock())
            self._changed.notify()

    def due_s(self) -> float | None:
        """Seconds until the next answer is made; None where none is expected."""
        with self._changed:
            return self._due_s()

    def make_due(self) -> None:
        """Makes the next answer where it is time."""
        with self._changed:
            due_s = self._due_s()
            if due_s is None or due_s > 0:
                return
            self._rhythm.next_s = None  # once, whether the scrape comes or not
            make = self._make
        with suppress(NoReading):
            make()

    def _due_s(self) -> float | None:
        next_s = self._rhythm.next_s
        return None if next_s is None else next_s - _AHEAD_S - self._clock()

    def _run(self) -> None:
        while not self._over:
            with self._changed:
                due_s = self._due_s()
                if due_s is None or due_s > 0:
                    self._changed.wait(due_s)
            self.make_due()
