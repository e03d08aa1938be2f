# SPDX-License-Identifier: Apache-2.0
"""Readings as text, protobuf and OTLP against an oracle: what each duration must be counted as, by whole numbers alone."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics_families
from prometheus_client.parser import text_string_to_metric_families as plain_families
from prometheus_messages import buckets, families
from tests.measured.handshakes import Shake
from tests.measured.recordings import interval_of

from ssllatency.export.formats import otlp, protobuf, text
from ssllatency.export.metrics.collect import ByProcess
from ssllatency.export.metrics.families import FAMILIES, MetricKind
from ssllatency.export.metrics.kept import KeptResults
from ssllatency.export.metrics.points import Distribution, Frames, Point, Reading, Readings, labels
from ssllatency.model.handshakes import Ending, Part
from ssllatency.model.histogram import BUCKET_COUNT, FIRST_BUCKET, ExponentialHistogram, bucket_bounds

SINCE = 1_700_000_000.25
HANDSHAKES, NAME = "ssllatency.handshake.duration", "ssllatency_handshake_duration_seconds"
SERVICE = {"service": 'a\\b\n"c"', "comm": "nginx"}
durations = st.lists(st.integers(0, 10**12), max_size=60)


def distribution(values_ns: list[int]) -> Distribution:
    return Distribution(sum(values_ns), ExponentialHistogram.from_values(values_ns))


def reading(values_ns: list[int]) -> Reading:
    histogram = Point(
        HANDSHAKES, labels({**SERVICE, "outcome": "success", "tls.resumed": "true"}), distribution(values_ns), SINCE
    )
    retries = Point("ssllatency.call.retries", labels({"function": "SSL_read", "reason": "WANT_READ"}), 12, SINCE)
    overhead = Point("ssllatency.overhead", (), 0.0125, SINCE)
    return Reading("host", SINCE + 60, (histogram, retries, overhead))


def index_of(value_ns: int) -> int:
    """Prometheus' index at schema 4: the bucket up to 2^(index/16) s, exactly."""
    power = Fraction(value_ns, 10**9) ** 16
    index = math.ceil(math.log2(value_ns / 1e9) * 16) if value_ns else -(10**9)
    while Fraction(2) ** index < power:
        index += 1
    while Fraction(2) ** (index - 1) >= power:
        index -= 1
    return index


def test_the_grid_is_that_of_seconds() -> None:
    assert FIRST_BUCKET == -384
    assert bucket_bounds(-1)[1] == pytest.approx(1e9)
    assert protobuf.ZERO_THRESHOLD_S == otlp.ZERO_THRESHOLD_S == 2.0**-24


@given(durations)
def test_a_native_histogram_has_each_duration_in_its_bucket(values_ns: list[int]) -> None:
    (metric,) = families(b"".join(protobuf.pieces(reading(values_ns))))[NAME].metric
    histogram, last = metric.histogram, FIRST_BUCKET + BUCKET_COUNT
    short = [value for value in values_ns if value / 1e9 <= 2.0**-24]
    expected = Counter(min(index_of(value), last + 1) for value in values_ns if value not in short)
    assert (histogram.schema, histogram.zero_threshold, histogram.zero_count) == (4, 2.0**-24, len(short))
    assert buckets(histogram) == expected
    assert (histogram.sample_count, histogram.sample_sum) == (len(values_ns), sum(values_ns) / 1e9)
    assert sum(buckets(histogram).values()) + histogram.zero_count == histogram.sample_count
    assert histogram.positive_span  # else Prometheus takes it for a classic one
    assert (histogram.created_timestamp.seconds, histogram.created_timestamp.nanos) == (1_700_000_000, 250_000_000)


def test_counters_and_gauges_in_protobuf() -> None:
    found = families(b"".join(protobuf.pieces(reading([5]))))
    assert list(found) == [NAME, "ssllatency_call_retries_total", "ssllatency_overhead_ratio"]
    (retries,) = found["ssllatency_call_retries_total"].metric
    assert [(pair.name, pair.value) for pair in retries.label] == [("function", "SSL_read"), ("reason", "WANT_READ")]
    assert (retries.counter.value, retries.counter.created_timestamp.seconds) == (12, 1_700_000_000)
    assert found["ssllatency_overhead_ratio"].metric[0].gauge.value == 0.0125
    assert {pair.name: pair.value for pair in found[NAME].metric[0].label}["service"] == SERVICE["service"]


@given(durations)
def test_open_metrics_text_counts_exactly(values_ns: list[int]) -> None:
    (family, *_) = open_metrics_families(b"".join(text.pieces(reading(values_ns), open_metrics=True)).decode())
    assert (family.name, family.type, family.unit) == (NAME, "histogram", "seconds")
    for sample in family.samples:
        assert sample.labels["service"] == SERVICE["service"]
        if sample.name.endswith("_bucket"):
            bound = float(sample.labels["le"])
            assert (
                sample.value == sum(Fraction(value, 10**9) <= Fraction(bound) for value in values_ns)
                if math.isfinite(bound)
                else sample.value == len(values_ns)
            )
    by_name = {sample.name: sample.value for sample in family.samples}
    assert (by_name[f"{NAME}_count"], by_name[f"{NAME}_sum"]) == (len(values_ns), sum(values_ns) / 1e9)
    assert by_name[f"{NAME}_created"] == SINCE


@pytest.mark.parametrize("open_metrics", [True, False])
@pytest.mark.parametrize("value", ["100 %", "%d %b %(x)s %", "100 %\\", '"%s"', "\0\1", "{%}"])
def test_labels_are_written_as_they_are(value: str, open_metrics: bool) -> None:
    """In what is formatted, too, and of a service that is named to disturb that."""
    named = labels({"service": value})
    points = [Point(HANDSHAKES, named, distribution([5, 10**9]), SINCE), Point("ssllatency.call.retries", named, 12, SINCE)]
    written = b"".join(text.pieces(Reading("host", SINCE, tuple(points)), open_metrics=open_metrics)).decode()
    found = open_metrics_families(written) if open_metrics else plain_families(written)
    samples = [sample for family in found for sample in family.samples]
    assert {sample.labels["service"] for sample in samples} == {value}
    assert {sample.value for sample in samples if sample.name.endswith("_count")} == {2}
    assert {sample.value for sample in samples if sample.name == "ssllatency_call_retries_total"} == {12}


def test_a_histogram_without_labels_is_one_as_well() -> None:
    point = Point(HANDSHAKES, (), distribution([10**6]), SINCE)
    written = b"".join(text.pieces(Reading("host", SINCE, (point,)), open_metrics=True)).decode()
    assert f'\n{NAME}_bucket{{le="64.0"}} 1\n{NAME}_bucket{{le="+Inf"}} 1\n{NAME}_count 1\n{NAME}_sum 0.001\n' in written


@given(
    st.lists(st.integers(0, 3), max_size=BUCKET_COUNT),
    st.integers(FIRST_BUCKET, FIRST_BUCKET + BUCKET_COUNT),
    st.sampled_from([1, 300, 2**40]),
)
def test_counts_up_to_a_bound_are_the_same_however_a_histogram_is_kept(counts: list[int], offset: int, times: int) -> None:
    counts = counts[: FIRST_BUCKET + BUCKET_COUNT - offset]
    many = [count * times for count in counts]
    whole = ExponentialHistogram(tuple(many), offset, 2, 5)
    kept = [whole, ExponentialHistogram.from_packed(whole.packed, whole.offset, 2, 5)]
    if times == 1:
        kept.append(ExponentialHistogram.from_bytes(bytes(whole.counts), whole.offset, 2, 5))
        kept.append(ExponentialHistogram.from_bytes(bytes(counts), offset, 2, 5))
    ends = [power << 4 for power in text.POWERS]
    expected = [2 + sum(count for bucket, count in enumerate(many, offset) if bucket < end) for end in ends]
    assert [text.cumulated(histogram) for histogram in kept] == [expected] * len(kept)


def test_prometheus_text_is_read_as_well() -> None:
    found = {
        family.name: family for family in plain_families(b"".join(text.pieces(reading([10**6]), open_metrics=False)).decode())
    }
    assert {name: family.type for name, family in found.items()} == {
        NAME: "histogram",
        "ssllatency_call_retries": "counter",
        "ssllatency_overhead_ratio": "gauge",
    }
    assert found["ssllatency_call_retries"].samples[0].value == 12


@given(durations)
def test_otlp_has_each_duration_in_its_bucket(values_ns: list[int]) -> None:
    message = otlp.request(reading(values_ns), {"deployment.environment": "test"})
    service, host = message.resource_metrics
    (point,) = service.scope_metrics[0].metrics[0].exponential_histogram.data_points
    counts = {index + 1: count for index, count in enumerate(point.positive.bucket_counts, point.positive.offset) if count}
    (metric,) = families(b"".join(protobuf.pieces(reading(values_ns))))[NAME].metric
    assert counts == buckets(metric.histogram)
    assert (point.scale, point.zero_threshold, point.count) == (4, 2.0**-24, len(values_ns))
    assert point.zero_count + sum(counts.values()) == len(values_ns)
    assert (point.start_time_unix_nano, point.time_unix_nano) == (
        1_700_000_000_250_000_000,
        1_700_000_060_250_000_000,
    )
    resource = {attribute.key: attribute.value.string_value for attribute in service.resource.attributes}
    assert resource["service.name"] == SERVICE["service"]
    assert (resource["host.name"], resource["deployment.environment"]) == ("host", "test")
    attributes = {attribute.key: attribute.value for attribute in point.attributes}
    assert attributes["tls.resumed"].bool_value is True
    assert [metric.name for metric in host.scope_metrics[0].metrics] == ["ssllatency.call.retries", "ssllatency.overhead"]
    total = host.scope_metrics[0].metrics[0].sum
    assert (total.is_monotonic, total.aggregation_temporality, total.data_points[0].as_int) == (True, 2, 12)


def test_what_has_ended_is_a_point_without_a_value() -> None:
    message = otlp.ended(reading([]), [(HANDSHAKES, labels(SERVICE))], {})
    (point,) = message.resource_metrics[0].scope_metrics[0].metrics[0].exponential_histogram.data_points
    assert (point.flags, point.count) == (1, 0)


@given(durations)
def test_a_frame_is_read_back(values_ns: list[int]) -> None:
    first = reading(values_ns)
    frame = Frames().frame(first)
    assert frame.endswith(b"\n")
    assert frame.count(b"\n") == 1
    assert Readings().reading(frame) == first


@pytest.mark.parametrize(
    "frame",
    [b"", b"[]", b"{}", b"[1,2,3,4]", b'["h",1,[["f",[],"x",1]],[]]', b'["h",1,[0],[]]', b'["h",1,[-1],[]]', b"[" * 100_000],
)
def test_no_frame_is_refused(frame: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any
        Readings().reading(frame)


def test_names_follow_prometheus_own_rules() -> None:
    names = [family.prometheus_name for family in FAMILIES]
    assert len(set(names)) == len(names)
    for family in FAMILIES:
        assert family.prometheus_name.endswith("_total") == (family.kind is MetricKind.COUNTER)
        assert ("_seconds" in family.prometheus_name) == (family.unit == "s")
        assert ("_bytes" in family.prometheus_name) == (family.unit == "By")


def test_bytes_are_bytes_in_every_format() -> None:
    sent = Reading("host", SINCE, (Point("ssllatency.handshake.largest_flight", (), 4096, SINCE),))
    name = "ssllatency_handshake_largest_flight_bytes"
    (family,) = open_metrics_families(b"".join(text.pieces(sent, open_metrics=True)).decode())
    assert (family.name, family.unit, family.samples[0].value) == (name, "bytes", 4096)
    (plain,) = plain_families(b"".join(text.pieces(sent, open_metrics=False)).decode())
    assert (plain.name, plain.type) == (name, "counter")
    (native,) = families(b"".join(protobuf.pieces(sent))).values()
    assert (native.name, native.unit) == (f"{name}_total", "bytes")
    (metric,) = otlp.request(sent, {}).resource_metrics[0].scope_metrics[0].metrics
    assert (metric.name, metric.unit, metric.sum.is_monotonic) == ("ssllatency.handshake.largest_flight", "By", True)


def test_what_is_known_of_the_peer_of_freed_handshakes_is_told_apart() -> None:
    """And where nothing is, the series is that which it was before."""
    freed = Shake({Part.REST: 1_000}, {}, Ending.ABANDONED, reason="freed")
    shakes = [
        freed,
        *[replace(freed, peer_left=True, undelivered=True)] * 2,
        replace(freed, peer_left=False, undelivered=False),
    ]
    [counts] = ByProcess(KeptResults()).read(interval_of(0, shakes)).values()
    why = {"outcome": "abandoned", "error.type": "freed"}
    assert {row: value for (family, row), value in counts.items() if family == "ssllatency.handshake.errors"} == {
        labels(why): 1,
        labels({**why, "tls.peer.left": "true", "tls.peer.undelivered": "true"}): 2,
        labels({**why, "tls.peer.left": "false", "tls.peer.undelivered": "false"}): 1,
    }
