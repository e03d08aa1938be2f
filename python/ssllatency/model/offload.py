# SPDX-License-Identifier: Apache-2.0
"""Work of handshakes that is done elsewhere, asynchronously: plain data."""

from __future__ import annotations

from ssllatency.data_class import dataclass


@dataclass(frozen=True)
class Batches:
    """Calls of one multi-buffer function by how many of their lanes were used: `fill[n]` calls used n lanes."""

    function: str
    fill: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of calls."""
        return sum(self.fill)

    @property
    def lanes(self) -> int:
        """The number of lanes that a call has."""
        return len(self.fill) - 1

    @property
    def used(self) -> int:
        """The number of lanes that were used in all."""
        return sum(lanes * calls for lanes, calls in enumerate(self.fill))


@dataclass(frozen=True)
class PollingThread:
    """A thread that completed offloaded operations: how many, and the processor time it took meanwhile (None if unknown)."""

    pid: int
    tid: int
    comm: str
    completions: int
    cpu_s: float | None


@dataclass(frozen=True)
class Offload:
    """Asynchronous work. `engine` names what offloads ("libcrypto_mb", "qatengine", "ASYNC jobs").

    `waiting` and `most_waiting`: handshakes paused in the offload, now and at most, the latter None where it isn't known (an
    interval whose maximum was reached before it, or dropped records); `pauses` in all, in `handshakes` that had any.
    `software`: private-key operations inside handshakes that OpenSSL's own methods did instead, counted from the start where
    a library that offloads is mapped, else from the first pause on. `unseen`: waits whose completion wasn't seen, so that
    they aren't split.
    """

    engine: str
    waiting: int
    most_waiting: int | None
    pauses: int
    handshakes: int
    software: int
    unseen: int
    batches: tuple[Batches, ...] = ()
    pollers: tuple[PollingThread, ...] = ()
