# SPDX-License-Identifier: Apache-2.0
"""The list "flight_recordings" of a document, written and read again: what JVMs told of Java's own TLS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from ssllatency.model.flight_recorder import FlightRecording, Negotiated, Thrown, TimedMethod
from ssllatency.reports.documents.fields import DocumentField

_MOST_ROWS = 256


def flight_recorder_fields(recordings: Sequence[FlightRecording]) -> dict[str, object]:
    """The list as plain data."""
    return {"flight_recordings": [asdict(recording) for recording in recordings]}


def read_flight_recordings(root: DocumentField) -> tuple[FlightRecording, ...]:
    """Those of a document."""
    recordings = root.optional("flight_recordings")
    return tuple(read_recording(recording) for recording in recordings.items()) if recordings else ()


def read_recording(field: DocumentField) -> FlightRecording:
    """One of them."""
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


def _negotiated(row: DocumentField) -> Negotiated:
    return Negotiated(row.get("version").text(), row.get("cipher").text(), row.get("count").whole())


def _method(row: DocumentField) -> TimedMethod:
    times = (row.get(name).whole_or_null() for name in ("mean_ns", "min_ns", "max_ns"))
    return TimedMethod(row.get("step").text(), row.get("method").text(), row.get("count").whole(), *times)


def _thrown(row: DocumentField) -> Thrown:
    return Thrown(row.get("exception").text(), row.get("message").text(), row.get("count").whole())
