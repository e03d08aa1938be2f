# SPDX-License-Identifier: Apache-2.0
"""The JSON document of a measurement, schema "ssllatency/1": written, and read again without loss.

Fields are added to the schema, never renamed or removed; a field that this version doesn't know is ignored. `count`,
`mean_ns` and the percentiles follow from the rest: they are written for other programs, null where they are not known. `pid`
is null for a function added up over processes; for processes folded while tracing `other` is true beside it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields

from ssllatency.bounded_json import parsed
from ssllatency.errors import SsllatencyError
from ssllatency.model.arithmetic.snapshots import ALL_PROCESSES, by_function
from ssllatency.model.handshakes import Single
from ssllatency.model.histogram import LinearHistogram
from ssllatency.model.snapshot import Losses, Missing, Outcome, Series, Snapshot, Target, TracedLibrary
from ssllatency.reports.documents.client import client_fields, read_client
from ssllatency.reports.documents.cost import cost_fields, read_cost
from ssllatency.reports.documents.fields import DocumentField
from ssllatency.reports.documents.flight_recorder import flight_recorder_fields, read_flight_recordings
from ssllatency.reports.documents.handshake_fields import handshake_fields, single_fields
from ssllatency.reports.documents.handshake_reading import read_handshakes
from ssllatency.reports.documents.sampling import read_sampling, sampling_fields
from ssllatency.reports.documents.timed import exponential_fields, read_timed, timed_fields

SCHEMA = "ssllatency/1"


def to_document(snapshot: Snapshot, *, by_process: bool = False) -> dict[str, object]:
    """The document as plain data. Functions are added up over processes unless `by_process`."""
    series = snapshot.series if by_process else by_function(snapshot).series
    return {
        "schema": SCHEMA,
        "host": snapshot.host,
        "kernel": snapshot.kernel,
        "engine": snapshot.engine,
        "started": snapshot.started,
        "duration_s": snapshot.duration_s,
        "targets": [_target(target) for target in snapshot.targets],
        "functions": [_function(calls) for calls in series],
        "missing": [asdict(missing) for missing in snapshot.missing],
        "losses": asdict(snapshot.losses),
        "in_flight": snapshot.in_flight,
        "notes": list(snapshot.notes),
        **(handshake_fields(snapshot.handshakes) if snapshot.handshakes else {}),
        **(client_fields(snapshot) if snapshot.client else {}),
        **(cost_fields(snapshot.cost) if snapshot.cost else {}),
        **(sampling_fields(snapshot.sampling) if snapshot.sampling else {}),
        **(flight_recorder_fields(snapshot.flight_recordings) if snapshot.flight_recordings else {}),
    }


def to_json(snapshot: Snapshot, *, by_process: bool = False, indent: int | None = None) -> str:
    """The document as one JSON text without a newline at its end; a single line unless `indent` is given."""
    return json.dumps(to_document(snapshot, by_process=by_process), indent=indent, allow_nan=False)


def single_to_json(single: Single) -> str:
    """One handshake by itself, as it ended: a line of JSON with the fields that "slowest" has."""
    return json.dumps({"schema": SCHEMA, "handshake": single_fields(single)}, allow_nan=False)


def from_document(document: object) -> Snapshot:
    """The snapshot that a document was made of. Raises SsllatencyError with the field that isn't as it must be."""
    root = DocumentField(document)
    schema = root.get("schema")
    if schema.value != SCHEMA:
        schema.refuse(f'"{SCHEMA}"')
    in_flight, notes = root.optional("in_flight"), root.optional("notes")
    return Snapshot(
        host=root.get("host").text(),
        kernel=root.get("kernel").text(),
        engine=root.get("engine").text(),
        started=root.get("started").time(),
        duration_s=root.get("duration_s").number(),
        targets=tuple(_read_target(target) for target in root.get("targets").items()),
        series=root.get("functions").rows(_read_function, "function, outcome and process"),
        missing=tuple(_read_missing(missing) for missing in root.get("missing").items()),
        losses=_read_losses(root.get("losses")),
        in_flight=in_flight.whole() if in_flight else 0,
        notes=tuple(note.text() for note in notes.items()) if notes else (),
        handshakes=read_handshakes(root),
        client=read_client(root),
        cost=read_cost(root),
        sampling=read_sampling(root),
        flight_recordings=read_flight_recordings(root),
    )


def from_json(text: str) -> Snapshot:
    """The snapshot of a document's JSON text. Raises SsllatencyError as from_document() does, or when it isn't JSON
    or too much of it."""
    try:
        document = parsed(text)
    except (ValueError, RecursionError):
        raise SsllatencyError(
            "This is not a measurement that ssllatency can read: it is not one JSON document, or it was cut short."
        ) from None
    return from_document(document)


def _target(target: Target) -> dict[str, object]:
    return {"pid": target.pid, "comm": target.comm, "libraries": [asdict(library) for library in target.libraries]}


def _function(series: Series) -> dict[str, object]:
    return {
        "function": series.function,
        "outcome": str(series.outcome),
        "pid": None if series.pid == ALL_PROCESSES else series.pid,
        **({"other": True} if series.pid is None else {}),
        **timed_fields(series),
        "reasons": dict(series.reasons),
        "exponential": exponential_fields(series.exponential),
        "linear": _linear(series.linear) if series.linear else None,
    }


def _linear(histogram: LinearHistogram) -> dict[str, object]:
    return {
        "unit": histogram.unit,
        "min": histogram.minimum,
        "max": histogram.maximum,
        "step": histogram.step,
        "counts": list(histogram.counts),
    }


def _read_target(target: DocumentField) -> Target:
    libraries = tuple(_read_library(library) for library in target.get("libraries").items())
    return Target(target.get("pid").whole(), target.get("comm").text(), libraries)


def _read_library(library: DocumentField) -> TracedLibrary:
    path, build_id, version = (library.get(name).text() for name in ("path", "build_id", "version"))
    deleted = library.optional("deleted")
    return TracedLibrary(path, build_id, version, deleted=bool(deleted and deleted.flag()))


def _read_missing(missing: DocumentField) -> Missing:
    return Missing(missing.get("function").text(), missing.get("library").text(), missing.get("reason").text())


_LATER_LOSSES = {"late_processes", "left"}  # which documents of earlier versions don't have


def _read_losses(losses: DocumentField) -> Losses:
    names = [field.name for field in fields(Losses)]
    counts = {name: losses.optional(name) if name in _LATER_LOSSES else losses.get(name) for name in names}
    return Losses(**{name: value.whole() for name, value in counts.items() if value})


def _read_function(function: DocumentField) -> tuple[object, Series]:
    reasons = function.optional("reasons")
    total_ns, min_ns, max_ns, exponential = read_timed(function)
    series = Series(
        function=function.get("function").text(),
        outcome=function.get("outcome").one_of(Outcome),
        pid=_read_pid(function),
        total_ns=total_ns,
        min_ns=min_ns,
        max_ns=max_ns,
        exponential=exponential,
        linear=_read_linear(function.get("linear")),
        reasons={name: count.whole() for name, count in reasons.members()} if reasons else {},
    )
    return (series.function, series.outcome, series.pid), series


def _read_pid(function: DocumentField) -> int | None:
    pid, other = function.get("pid"), function.optional("other")
    if pid.value is not None:
        return pid.whole() or pid.refuse("null or a number of 1 or more")
    return None if other and other.flag() else ALL_PROCESSES


def _read_linear(histogram: DocumentField) -> LinearHistogram | None:
    if histogram.value is None:
        return None
    unit = histogram.get("unit")
    if unit.value != LinearHistogram.unit:
        unit.refuse(f'"{LinearHistogram.unit}"')
    minimum, maximum, step = (histogram.get(name).whole() for name in ("min", "max", "step"))
    try:
        return LinearHistogram(minimum, maximum, step, histogram.get("counts").wholes())
    except ValueError as error:
        histogram.refuse(f"a linear histogram ({error})")
