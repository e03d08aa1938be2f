# SPDX-License-Identifier: Apache-2.0
"""The account that a JVM's Flight Recorder gave of Java's own TLS (JSSE), as plain data, and how it is read from JSON."""

from __future__ import annotations

from ssllatency.data_class import dataclass
from ssllatency.fields import Field

_MOST_ROWS = 256


@dataclass(frozen=True)
class Negotiated:
    """The handshakes of both sides that the JVM recorded with this version and cipher suite, in Java's words. Of TLS 1.2 and
    older it records those of a server only where a session is resumed, and those of a client only where none is."""

    version: str
    cipher: str
    count: int


@dataclass(frozen=True)
class TimedMethod:
    """The number of runs of a method of JSSE, and its time as the JVM measured it: `step` is what it does in a handshake. The
    times are None where the JVM doesn't tell them, as of a method that never ran."""

    step: str
    method: str
    count: int
    mean_ns: int | None
    min_ns: int | None
    max_ns: int | None


@dataclass(frozen=True)
class Thrown:
    """Exceptions of javax.net.ssl that were thrown with this message, as far as the JVM recorded them."""

    exception: str
    message: str
    count: int


@dataclass(frozen=True)
class FlightRecording:
    """One JVM's recording. `release` is that of its JDK, "17.0.19". `methods` and `thrown` are None where that JDK has no
    timing of methods, which came with JDK 25: then no time is known, and no failure. `peers` is how many hosts the peers were.
    `lost_bytes`: of events that the JVM lost. `cut`: it threw the oldest events away."""

    pid: int
    release: str
    negotiated: tuple[Negotiated, ...]
    peers: int
    methods: tuple[TimedMethod, ...] | None = None
    thrown: tuple[Thrown, ...] | None = None
    lost_bytes: int = 0
    cut: bool = False

    @property
    def count(self) -> int:
        """The number of handshakes that were recorded."""
        return sum(row.count for row in self.negotiated)


def read_recording(field: Field) -> FlightRecording:
    """The recording that dataclasses.asdict() made this of. Raises the error of the field that isn't as it must be."""
    methods, thrown = field.optional("methods"), field.optional("thrown")
    return FlightRecording(
        pid=field.get("pid").whole(),
        release=field.get("release").text(64),
        negotiated=tuple(_negotiated(row) for row in field.get("negotiated").items(_MOST_ROWS)),
        peers=field.get("peers").whole(),
        methods=tuple(_method(row) for row in methods.items(_MOST_ROWS)) if methods and methods.value is not None else None,
        thrown=tuple(_thrown(row) for row in thrown.items(_MOST_ROWS)) if thrown and thrown.value is not None else None,
        lost_bytes=field.get("lost_bytes").whole(),
        cut=field.get("cut").flag(),
    )


def _negotiated(row: Field) -> Negotiated:
    return Negotiated(row.get("version").text(), row.get("cipher").text(), row.get("count").whole())


def _method(row: Field) -> TimedMethod:
    times = (row.get(name).whole_or_null() for name in ("mean_ns", "min_ns", "max_ns"))
    return TimedMethod(row.get("step").text(), row.get("method").text(), row.get("count").whole(), *times)


def _thrown(row: Field) -> Thrown:
    return Thrown(row.get("exception").text(), row.get("message").text(), row.get("count").whole())
