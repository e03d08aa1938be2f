# SPDX-License-Identifier: Apache-2.0
"""Sends readings to an OTLP receiver at an interval: again with growing pauses where the receiver asks for that, its partial
successes counted (OpenTelemetry Protocol 1.x over HTTP)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace

from ssllatency.export.formats import otlp
from ssllatency.export.metrics import families as names
from ssllatency.export.metrics.families import FAMILIES
from ssllatency.export.metrics.points import Labels, Point, Reading, labels
from ssllatency.export.push.delivery import Again, Delivery, Refused
from ssllatency.export.push.settings import PushSettings
from ssllatency.output.printing import tell

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
_RETRIES = 5
_MOST_ENDED = 10_000
_SILENCE_S = 300.0  # after a failure was told, before the next one is


class Counted:
    """The outcome of requests, which is exported itself."""

    def __init__(self) -> None:
        self.requests = {"success": 0, "retry": 0, "failure": 0}
        self.rejected = 0

    def points(self, since_s: float) -> list[Point]:
        """Return them as points."""
        requests = [
            Point("ssllatency.otlp.requests", labels({names.RESULT: result}), count, since_s)
            for result, count in self.requests.items()
        ]
        return [*requests, Point("ssllatency.otlp.rejected", (), self.rejected, since_s)]

    def added_to(self, reading: Reading) -> Reading:
        """The reading with these points, in the families' order."""
        order = {family.name: number for number, family in enumerate(FAMILIES)}
        since_s = min((point.since_s for point in reading.points), default=reading.at_s)
        points = sorted((*reading.points, *self.points(since_s)), key=lambda point: order[point.family])
        return replace(reading, points=tuple(points))


class Pusher:
    """Sends what `read` gives, until the process ends."""

    def __init__(
        self,
        settings: PushSettings,
        delivery: Delivery,
        read: Callable[[], Reading],
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._delivery, self._read = settings, delivery, read
        self._sleep, self._clock = sleep, clock
        self.counted = Counted()
        self._present: set[tuple[str, Labels]] = set()
        self._told_s = float("-inf")

    def run(self) -> None:
        """Sends at each interval; what can't be sent is in the next one's counts, as these are cumulative."""
        due_s = self._clock() + random.uniform(0.1, 1.0) * min(self._settings.interval_s, 5.0)
        while True:
            self._sleep(max(0.0, due_s - self._clock()))
            try:
                self.push_once(due_s + self._settings.interval_s)
            except Exception as error:  # of a reading, or of the receiver: the next one may be better
                self._tell(f"{type(error).__name__}: {error}")
            due_s = max(due_s + self._settings.interval_s, self._clock())

    def push_once(self, until_s: float) -> bool:
        """Sends one reading, by `until_s` at the latest; whether it was taken."""
        reading = self.counted.added_to(self._read())
        present = {(point.family, point.labels) for point in reading.points}
        message = otlp.request(reading, self._settings.resource)
        if gone := sorted(self._present - present)[:_MOST_ENDED]:
            message.MergeFrom(otlp.ended(reading, gone, self._settings.resource))
        taken = self._deliver(message.SerializeToString(), until_s)
        if taken:
            self._present = present
        return taken

    def _deliver(self, content: bytes, until_s: float) -> bool:
        pause_s = _FIRST_PAUSE_S
        for attempt in range(_RETRIES + 1):
            try:
                rejected, words = self._delivery.send(content)
            except Refused as error:
                return self._fail(str(error))
            except Again as error:
                wanted_s = error.after_s or pause_s * random.uniform(0.5, 1.5)
                if attempt == _RETRIES or self._clock() + wanted_s >= until_s:
                    return self._fail(str(error))
                self.counted.requests["retry"] += 1
                self._sleep(wanted_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                continue
            self.counted.requests["success"] += 1
            self.counted.rejected += rejected
            if rejected or words:
                self._tell(f"it rejected {rejected} data points ({words})" if rejected else words)
            return True
        return False

    def _fail(self, why: str) -> bool:
        self.counted.requests["failure"] += 1
        self._tell(why)
        return False

    def _tell(self, why: str) -> None:
        """Says it, but not each time."""
        if self._clock() - self._told_s >= _SILENCE_S:
            self._told_s = self._clock()
            tell(f"{self._settings.shown}: {why}.")
