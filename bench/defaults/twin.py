# SPDX-License-Identifier: Apache-2.0
"""A worker beside its twin, which runs on the same CPU, does the same work and maps copies of the libraries, so that it isn't
probed: what else happens to the machine happens to both."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.measuring.rounds import COST, Sample
from bench.measuring.tracers import Tracer, attached
from bench.measuring.works import SETTLE_S, WorkerWork


class BesideTwin:
    """A request's cost by that of a request of the twin meanwhile, over the windows of its own work."""

    def __init__(self, work: WorkerWork, twin: WorkerWork) -> None:
        self._work, self._twin = work, twin

    @contextmanager
    def round(self) -> Iterator[None]:
        """Runs the clients of both."""
        with self._work.round(), self._twin.round():
            yield

    def untraced(self) -> Sample:
        """What a request takes."""
        time.sleep(SETTLE_S)
        before, before_twin = self._work.look(), self._twin.look()
        time.sleep(self._work.seconds)
        own, other = self._work.between(before, self._work.look()), self._twin.between(before_twin, self._twin.look())
        return {COST: own[COST] / other[COST]}

    def traced(self, tracer: Tracer) -> Sample:
        """The same while the tracer is attached to the worker."""
        with attached(tracer, [self._work.master_pid], self._work.directory):
            return self.untraced()
