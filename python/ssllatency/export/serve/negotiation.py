# SPDX-License-Identifier: Apache-2.0
"""The format that a scraper gets: the one that it likes best of those that there are, by its Accept header (RFC 9110)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ssllatency.export.formats import protobuf, text
from ssllatency.export.metrics.points import Reading

Render = Callable[[Reading], Sequence[bytes]]  # the exposition, in pieces


def open_metrics(reading: Reading) -> Sequence[bytes]:
    """OpenMetrics text."""
    return text.pieces(reading, open_metrics=True)


def plain(reading: Reading) -> Sequence[bytes]:
    """Prometheus' text."""
    return text.pieces(reading, open_metrics=False)


_LONGEST = 2048  # characters of a header that is looked into


def chosen(accept: str) -> tuple[str, Render]:
    """The content type and what makes it; Prometheus' text for who asks for nothing in particular."""
    best: tuple[str, Render] = text.PROMETHEUS, plain
    quality = 0.0
    for item in accept[:_LONGEST].split(","):
        kind, *parameters = (part.strip().lower() for part in item.split(";"))
        values = dict(parameter.partition("=")[::2] for parameter in parameters)
        found = _of(kind, values)
        if found and (wanted := _quality(values.get("q", "1"))) > quality:
            best, quality = found, wanted
    return best


def _of(kind: str, values: dict[str, str]) -> tuple[str, Render] | None:
    if kind == "application/vnd.google.protobuf":
        proto, encoding = values.get("proto", ""), values.get("encoding", "")
        return (protobuf.CONTENT_TYPE, protobuf.pieces) if (proto, encoding) == _PROTOBUF else None
    if kind == "application/openmetrics-text":
        return (text.OPEN_METRICS, open_metrics) if values.get("version", "1.0.0") in _VERSIONS else None
    return (text.PROMETHEUS, plain) if kind in ("text/plain", "text/*", "*/*") else None


_PROTOBUF = ("io.prometheus.client.metricfamily", "delimited")
_VERSIONS = ("0.0.1", "1.0.0")


def _quality(text: str) -> float:
    try:
        return min(1.0, max(0.0, float(text)))
    except ValueError:
        return 0.0
