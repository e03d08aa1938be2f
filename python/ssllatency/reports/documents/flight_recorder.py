# SPDX-License-Identifier: Apache-2.0
"""The list "flight_recordings" of a document, written and read again: what JVMs told of Java's own TLS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from ssllatency.model.flight_recorder import FlightRecording, read_recording
from ssllatency.reports.documents.fields import DocumentField


def flight_recorder_fields(recordings: Sequence[FlightRecording]) -> dict[str, object]:
    """The list as plain data."""
    return {"flight_recordings": [asdict(recording) for recording in recordings]}


def read_flight_recordings(root: DocumentField) -> tuple[FlightRecording, ...]:
    """Those of a document."""
    recordings = root.optional("flight_recordings")
    return tuple(read_recording(recording) for recording in recordings.items()) if recordings else ()
