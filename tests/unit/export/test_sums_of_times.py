# SPDX-License-Identifier: Apache-2.0
"""Counters that are times: exact sums, which never fall, whichever processes end first."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_messages import families

from ssllatency.export.formats import otlp, protobuf, text
from ssllatency.export.metrics.exposition import Exposition, Own
from ssllatency.export.metrics.families import FAMILIES, MetricKind
from ssllatency.export.metrics.ledger import Known
from ssllatency.export.metrics.points import Frames, Labels, Point, Reading, Readings, labels
from ssllatency.model.arithmetic.handshake_sums import add_keys
from ssllatency.model.cost import TracingCost
from ssllatency.model.handshakes import Handshakes, KeyUse, Tallies
from ssllatency.model.snapshot import Snapshot, Target

FAMILY, NAME = "ssllatency.private_key.time", "ssllatency_private_key_time_seconds_total"
SIGN_NS = (180_000, 1_500_000)  # what a signature by an RSA key takes on a busy server


@dataclass
class Workers:
    """Processes of one or more services that use private keys, and end."""

    services: int = 1
    alive: dict[int, int] = field(default_factory=dict)
    used: dict[int, dict[str, tuple[int, int]]] = field(default_factory=dict)  # by PID and key: count and nanoseconds

    def started(self, pid: int) -> int | None:
        return self.alive.get(pid)

    def known(self, pid: int, name: str) -> Known:
        return Known(self.alive.get(pid, 0), labels({"service": f"{name or 'nginx'}-{pid % self.services}.service"}))

    def start(self, pid: int) -> None:
        self.alive[pid] = 100 + pid

    def sign(self, pid: int, key: str, count: int, total_ns: int) -> None:
        of = self.used.setdefault(pid, {})
        before = of.get(key, (0, 0))
        of[key] = before[0] + count, before[1] + total_ns

    def snapshot(self) -> Snapshot:
        """In the order that the engine has them in: the key that took the most time first."""
        tallies = {
            pid: Tallies(keys=add_keys([KeyUse("sign", key, *counts) for key, counts in of.items()]))
            for pid, of in self.used.items()
        }
        targets = tuple(Target(pid, "nginx", ()) for pid in self.alive)
        return Snapshot("host", "6.1", "libbpf", "", 1.0, targets, (), handshakes=Handshakes((), by_process=tallies))


def read(exposition: Exposition, workers: Workers) -> dict[Labels, float]:
    """The times that a scraper gets, by the labels."""
    gone = exposition.gone()
    reading = exposition.read(workers.snapshot(), gone, Own(0, 0.1))
    for pid in gone:  # the engine forgets them
        workers.used.pop(pid, None)
    found = text_string_to_metric_families(b"".join(text.pieces(reading, open_metrics=False)).decode())
    return {labels(one.labels): one.value for family in found for one in family.samples if one.name == NAME}


def start_and_sign(workers: Workers, pid: int, keys: int, chance: random.Random) -> int:
    """Return for how long in all."""
    workers.start(pid)
    for key in range(keys):
        count = chance.randrange(1, 3_000)
        workers.sign(pid, f"RSA-{2048 + key}", count, count * chance.randrange(*SIGN_NS) + chance.randrange(1_000))
    return sum(total_ns for _, total_ns in workers.used[pid].values())


@pytest.mark.parametrize(("services", "keys"), [(1, 1), (1, 90), (12, 70)], ids=["one key", "keys without a place", "services"])
def test_no_time_falls_by_the_last_digit_whoever_ends(services: int, keys: int) -> None:
    chance, workers = random.Random(7), Workers(services)
    exposition = Exposition(workers, 100, 300.0, lambda: 1000.0)
    before, true_ns, next_pid = dict[Labels, float](), 0, 1
    for _ in range(40):
        while len(workers.alive) < max(6, services):
            true_ns += start_and_sign(workers, next_pid, keys, chance)
            next_pid += 1
        for _ in range(3):  # one after the other; the others do nothing meanwhile
            shown = read(exposition, workers)
            assert [(of, value, shown[of]) for of, value in before.items() if shown[of] < value] == []
            assert sum(round(value * 1e9) for value in shown.values()) == true_ns
            before = shown
            del workers.alive[chance.choice(sorted(workers.alive)[1:])]  # not the first that is added up


def test_the_overflow_of_times_does_not_fall_when_services_end() -> None:
    chance, workers, now_s = random.Random(7), Workers(1_000), 1000.0
    exposition, overflow = Exposition(workers, 3, 15.0, lambda: now_s), 0.0
    for pid in range(1, 200):
        start_and_sign(workers, pid, 1, chance)
        if len(workers.alive) > 20:
            del workers.alive[chance.choice(sorted(workers.alive))]
        for _ in range(2):  # the second time nothing was counted, and a service has had no process for longer than it is kept
            before, overflow = overflow, read(exposition, workers).get(labels({"otel_metric_overflow": "true"}), 0.0)
            assert overflow >= before
            now_s += 10
    assert overflow


def test_a_time_in_seconds_is_whole_nanoseconds_until_it_is_written() -> None:
    of = labels({"service": "nginx.service", "operation": "sign", "key": "RSA-2048"})
    reading = received(Reading("host", 60.0, (Point(FAMILY, of, 1_803_460_626_334, 0.0),)))
    assert b"} 1803.460626334\n" in b"".join(text.pieces(reading, open_metrics=False))
    assert b"} 1803.460626334\n" in b"".join(text.pieces(reading, open_metrics=True))
    (metric,) = families(b"".join(protobuf.pieces(reading)))[NAME].metric
    assert metric.counter.value == 1803.460626334
    assert otlp_values(otlp.request(reading, {})) == [1803.460626334]


def received(reading: Reading) -> Reading:
    """As the process for the network gets it."""
    return Readings().reading(Frames().frame(reading))


def otlp_values(message: ExportMetricsServiceRequest) -> Sequence[float]:
    return [
        point.as_double
        for of_resource in message.resource_metrics
        for scope in of_resource.scope_metrics
        for metric in scope.metrics
        for point in metric.sum.data_points
    ]


def test_every_counter_that_is_a_time_is_written_in_seconds() -> None:
    workers = Workers()
    workers.start(1)
    workers.sign(1, "RSA-2048", 1, 500_000_000)
    exposition = Exposition(workers, 2000, 300.0, lambda: 1000.0)
    snapshot = workers.snapshot()
    cost = TracingCost(1, 400_000_000, 100_000_000, 500_000_000, 1, 500_000_000, 500_000_000)
    snapshot = Snapshot(**{**vars(snapshot), "cost": cost})
    reading = exposition.read(snapshot, set(), Own(0, 0.1))
    times = {family.name for family in FAMILIES if family.kind is MetricKind.COUNTER and family.unit == "s"}
    points = [point for point in reading.points if point.family in times]
    assert {point.family for point in points} == times
    written = families(b"".join(protobuf.pieces(reading)))
    names = {family.name: family.prometheus_name for family in FAMILIES}
    assert {one.counter.value for name in times for one in written[names[name]].metric} == {0.5}
