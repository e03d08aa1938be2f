# SPDX-License-Identifier: Apache-2.0
"""Readings as OTLP: an ExportMetricsServiceRequest with cumulative points and exponential histograms. Each service is a
resource; its points have the same attributes as Prometheus' labels, so that they are told apart wherever resources aren't kept.

OpenTelemetry has no bucket for what is longer than any: it is in the one after the last, which so means "64 s or longer".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE, DataPointFlags

from ssllatency import __version__
from ssllatency.export.metrics import families as names
from ssllatency.export.metrics.families import BY_NAME, IN_NANOSECONDS, Family, MetricKind
from ssllatency.export.metrics.points import Distribution, Labels, Point, Reading, nanoseconds
from ssllatency.model.histogram import FIRST_BUCKET, OVERFLOW, SCALE, ExponentialHistogram

ZERO_THRESHOLD_S = 2.0 ** (FIRST_BUCKET / (1 << SCALE))
_OF_SERVICE = frozenset(names.OF_SERVICE)
_NAMESPACE = "ssllatency"
_BOOLEANS = {"true": True, "false": False}
_BOOLEAN = (names.RESUMED, names.SENT, names.PEER_LEFT, names.UNDELIVERED, names.OVERFLOW)


def request(reading: Reading, resource: Mapping[str, str]) -> Any:
    """The message. `resource`: attributes that all resources get."""
    message = ExportMetricsServiceRequest()
    at_ns = nanoseconds(reading.at_s)
    by_service: dict[Labels, list[Point]] = {}
    for point in reading.points:
        by_service.setdefault(_service(point.labels), []).append(point)
    for service, points in by_service.items():
        scope = _scope(message, reading.host, service, resource)
        for family, of_family in groupby(points, key=lambda point: point.family):
            _add(_metric(scope, BY_NAME[family]), BY_NAME[family], of_family, at_ns)
    return message


def ended(reading: Reading, series: Iterable[tuple[str, Labels]], resource: Mapping[str, str]) -> Any:
    """The message that these series are no more: points without a value."""
    message = ExportMetricsServiceRequest()
    for family, labels in series:
        scope = _scope(message, reading.host, _service(labels), resource)
        point = _points(_metric(scope, BY_NAME[family]), BY_NAME[family].kind).add()
        point.time_unix_nano = nanoseconds(reading.at_s)
        point.flags = DataPointFlags.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK
        _set(point.attributes, dict(labels))
    return message


def _service(labels: Labels) -> Labels:
    return tuple(pair for pair in labels if pair[0] in _OF_SERVICE)


def _scope(message: Any, host: str, service: Labels, resource: Mapping[str, str]) -> Any:
    of = dict(service)
    name, comm = of.pop(names.SERVICE, _NAMESPACE), of.pop(names.COMM, "")
    instance = ":".join(filter(None, (host, of.get(names.CONTAINER_ID, ""), name, comm)))
    identity = {"service.name": name, "service.instance.id": instance, "host.name": host}
    resource_metrics = message.resource_metrics.add()
    _set(resource_metrics.resource.attributes, {**of, **identity, **resource})
    scope = resource_metrics.scope_metrics.add()
    scope.scope.name, scope.scope.version = _NAMESPACE, __version__
    return scope


def _metric(scope: Any, family: Family) -> Any:
    metric = scope.metrics.add()
    metric.name, metric.unit, metric.description = family.name, family.unit, family.help
    return metric


def _points(metric: Any, kind: MetricKind) -> Any:
    """Set the metric's kind, and return where its points go."""
    if kind is MetricKind.GAUGE:
        return metric.gauge.data_points
    data = metric.exponential_histogram if kind is MetricKind.HISTOGRAM else metric.sum
    data.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
    if kind is MetricKind.COUNTER:
        data.is_monotonic = True
    return data.data_points


def _add(metric: Any, family: Family, points: Iterable[Point], at_ns: int) -> None:
    data = _points(metric, family.kind)
    for point in points:
        added = data.add()
        added.time_unix_nano = at_ns
        if family.kind is not MetricKind.GAUGE:
            added.start_time_unix_nano = nanoseconds(point.since_s)
        _set(added.attributes, dict(point.labels))
        if isinstance(point.value, Distribution):
            _fill(added, point.value)
        elif point.family in IN_NANOSECONDS:
            added.as_double = point.value / 1e9
        elif isinstance(point.value, int):
            added.as_int = point.value
        else:
            added.as_double = point.value


def _fill(point: Any, value: Distribution) -> None:
    buckets = value.buckets
    point.count, point.sum, point.scale = buckets.count, value.total_ns / 1e9, SCALE
    point.zero_count, point.zero_threshold = buckets.underflow, ZERO_THRESHOLD_S
    point.positive.offset = buckets.offset
    point.positive.bucket_counts.extend(filled(buckets))


def filled(buckets: ExponentialHistogram) -> list[int]:
    """The counts from the first bucket on, with the overflow in the one after the last."""
    if not buckets.overflow:
        return list(buckets.counts)
    return [*buckets.counts, *[0] * (OVERFLOW - buckets.offset - len(buckets.counts)), buckets.overflow]


def _set(attributes: Any, values: Mapping[str, str]) -> None:
    for name, value in values.items():
        attribute = attributes.add()
        attribute.key = name
        if name in _BOOLEAN and value in _BOOLEANS:
            attribute.value.bool_value = _BOOLEANS[value]
        else:
            attribute.value.string_value = value
