# SPDX-License-Identifier: Apache-2.0
"""Prometheus' messages for the protobuf library, by the numbers and types of metrics.proto: what tests decode with."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal.decoder import _DecodeVarint32  # type: ignore[attr-defined]

_PACKAGE = "io.prometheus.client"
_T = descriptor_pb2.FieldDescriptorProto
_MESSAGES: dict[str, list[tuple[str, int, Any, bool]]] = {
    "Timestamp": [("seconds", 1, _T.TYPE_INT64, False), ("nanos", 2, _T.TYPE_INT32, False)],
    "LabelPair": [("name", 1, _T.TYPE_STRING, False), ("value", 2, _T.TYPE_STRING, False)],
    "Gauge": [("value", 1, _T.TYPE_DOUBLE, False)],
    "Counter": [("value", 1, _T.TYPE_DOUBLE, False), ("created_timestamp", 3, "Timestamp", False)],
    "BucketSpan": [("offset", 1, _T.TYPE_SINT32, False), ("length", 2, _T.TYPE_UINT32, False)],
    "Histogram": [
        ("sample_count", 1, _T.TYPE_UINT64, False),
        ("sample_sum", 2, _T.TYPE_DOUBLE, False),
        ("schema", 5, _T.TYPE_SINT32, False),
        ("zero_threshold", 6, _T.TYPE_DOUBLE, False),
        ("zero_count", 7, _T.TYPE_UINT64, False),
        ("positive_span", 12, "BucketSpan", True),
        ("positive_delta", 13, _T.TYPE_SINT64, True),
        ("created_timestamp", 15, "Timestamp", False),
    ],
    "Metric": [
        ("label", 1, "LabelPair", True),
        ("gauge", 2, "Gauge", False),
        ("counter", 3, "Counter", False),
        ("histogram", 7, "Histogram", False),
    ],
    "MetricFamily": [
        ("name", 1, _T.TYPE_STRING, False),
        ("help", 2, _T.TYPE_STRING, False),
        ("type", 3, _T.TYPE_INT32, False),
        ("metric", 4, "Metric", True),
        ("unit", 5, _T.TYPE_STRING, False),
    ],
}


def _family() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="metrics.proto", package=_PACKAGE, syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            added = message.field.add(name=field, number=number)
            added.label = _T.LABEL_REPEATED if repeated else _T.LABEL_OPTIONAL
            if isinstance(kind, str):
                added.type, added.type_name = _T.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                added.type = kind
            if kind == _T.TYPE_SINT64:
                added.options.packed = True
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)  # type: ignore[attr-defined]
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.MetricFamily"))


FAMILY = _family()


def families(content: bytes) -> dict[str, Any]:
    """The messages of an exposition, each after its length, by name."""
    found, position = {}, 0
    while position < len(content):
        length, position = _DecodeVarint32(content, position)
        family = FAMILY()
        family.ParseFromString(content[position : position + length])
        assert not list(family.FindInitializationErrors())
        found[family.name] = family
        position += length
    return found


def buckets(histogram: Any) -> dict[int, int]:
    """The counts by index, as Prometheus reads spans and deltas."""
    found, index, count, deltas = {}, 0, 0, iter(histogram.positive_delta)
    for span in histogram.positive_span:
        index += span.offset
        for _ in range(span.length):
            count += next(deltas)
            found[index] = count
            index += 1
    assert next(deltas, None) is None
    return {index: count for index, count in found.items() if count}
