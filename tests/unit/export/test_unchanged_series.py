# SPDX-License-Identifier: Apache-2.0
"""Readings of which most is what it was before: whatever is kept on the way, each is what it would be without that, down to the
bytes that a scraper gets."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from tests.measured.handshakes import Shake, handshakes_of

from ssllatency.export.formats import protobuf
from ssllatency.export.metrics.collect import ByProcess
from ssllatency.export.metrics.exposition import Exposition, Own
from ssllatency.export.metrics.kept import KeptResults
from ssllatency.export.metrics.ledger import Known
from ssllatency.export.metrics.points import Distribution, Frames, Labels, Point, Reading, Readings, labels
from ssllatency.export.serve.negotiation import open_metrics, plain
from ssllatency.model.arithmetic.handshake_sums import add_times
from ssllatency.model.handshakes import Ending, Group, Handshakes, Label, Part, Tallies, Times
from ssllatency.model.histogram import ExponentialHistogram
from ssllatency.model.process_label import ProcessLabel
from ssllatency.model.snapshot import Outcome, Series, Snapshot, Target
from ssllatency.model.times_on_demand import PartsOnDemand

SERVICES = ("web", "mail", "proxy")


class World:
    """Processes that call and shake hands, and end; a PID may be used again. Their snapshots have the same objects again where
    nothing was counted, as those of a session."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.started: dict[int, int] = {}
        self.series: dict[int, Series] = {}
        self.groups: dict[int, Group] = {}
        self.true: dict[str, int] = dict.fromkeys(SERVICES, 0)
        self.ticks = 0
        self.now_s = 1000.0

    def step(self) -> set[int]:
        """Some calls; who has ended."""
        self.now_s += 1
        ended = {pid for pid in self.started if self.chance.random() < 0.05}
        for pid in ended:
            del self.started[pid]
        for pid in self.chance.sample(range(1, 40), 5):
            if pid not in self.started and pid not in self.series:
                self.ticks += 1
                self.started[pid] = self.ticks
        for pid in self.chance.sample(sorted(self.started), len(self.started) // 4):
            self._count(pid)
        return ended

    def _count(self, pid: int) -> None:
        values = [self.chance.randrange(1, 10**9) for _ in range(self.chance.randrange(1, 4))]
        self.true[service_of(pid)] += len(values)
        histogram, total = ExponentialHistogram.from_values(values), sum(values)
        if pid in self.series:
            before = self.series[pid]
            histogram, total = ExponentialHistogram.added([before.exponential, histogram]), total + before.total_ns
        self.series[pid] = Series("SSL_read", Outcome.SUCCESS, pid, total, None, None, histogram, None, {})
        times = Times(total, None, None, histogram)
        self.groups[pid] = Group(
            {Label.VERSION: "TLSv1.3", Label.PROCESS: ProcessLabel(pid, "x")},
            Ending.SUCCESS,
            dict.fromkeys((Part.WALL, Part.CALLS), times),
        )

    def forget(self, pids: set[int]) -> None:
        for pid in pids:
            self.series.pop(pid, None)
            self.groups.pop(pid, None)

    def snapshot(self) -> Snapshot:
        targets = tuple(Target(pid, service_of(pid), ()) for pid in self.started)
        handshakes = Handshakes(tuple(self.groups.values()))
        return Snapshot("host", "6.1", "libbpf", "", 1.0, targets, tuple(self.series.values()), handshakes=handshakes)

    def labels_of(self, pid: int, name: str) -> Labels:
        return labels({"service": name or service_of(pid)})


class Processes:
    """What a ledger asks."""

    def __init__(self, world: World) -> None:
        self._world = world

    def started(self, pid: int) -> int | None:
        return self._world.started.get(pid)

    def known(self, pid: int, name: str) -> Known:
        return Known(self._world.started.get(pid, 0), self._world.labels_of(pid, name))


def service_of(pid: int) -> str:
    return SERVICES[pid % len(SERVICES)]


def anew(reading: Reading) -> Reading:
    """The same of objects of its own, of which nothing was written before."""
    return replace(reading, points=tuple(replace(point) for point in reading.points))


def test_nothing_is_handed_out_that_has_changed() -> None:
    world = World(1)
    exposition = Exposition(Processes(world), 2000, 300.0, lambda: world.now_s)
    sent, received = Frames(), Readings()
    calls = labels({"function": "SSL_read", "outcome": "success"})
    before: Reading | None = None
    unchanged = 0
    for _ in range(150):
        world.step()
        gone = exposition.gone()
        reading = exposition.read(world.snapshot(), gone, Own(0, 0.1))
        world.forget(gone)
        came = received.reading(sent.frame(reading))
        assert came == reading
        for render in (protobuf.pieces, open_metrics, plain):
            assert render(came) == render(anew(reading))
        counted = {
            dict(point.labels)["service"]: point.value.buckets.count
            for point in reading.points
            if point.family == "ssllatency.call.duration"
            and isinstance(point.value, Distribution)
            and set(calls) <= set(point.labels)
        }
        assert counted == {service: count for service, count in world.true.items() if count}
        unchanged += sum(point in before.points for point in came.points) if before else 0
        before = came
    assert unchanged


def test_what_is_kept_of_processes_is_what_it_would_be_without() -> None:
    world, results = World(2), KeptResults()
    kept = ByProcess(results)
    for _ in range(100):
        world.forget(world.step())
        snapshot = world.snapshot()
        assert kept.read(snapshot) == ByProcess(KeptResults()).read(snapshot)
        results.end_reading()


def test_a_process_in_which_nothing_was_counted_has_the_same_counts_again() -> None:
    world, results = World(3), KeptResults()
    kept = ByProcess(results)
    for _ in range(5):
        world.step()
    first = kept.read(world.snapshot())
    results.end_reading()
    again = kept.read(world.snapshot())
    assert first
    assert all(again[pid] is counts for pid, counts in first.items())


def test_of_a_process_only_what_has_changed_is_another_point() -> None:
    world = World(5)
    while len(world.groups) < 2:
        world.step()
    exposition = Exposition(Processes(world), 2000, 300.0, lambda: world.now_s)
    group = next(iter(world.groups.values()))
    failed = replace(group, ending=Ending.FAILURE)
    host = "ssllatency.losses"
    readings = []
    for parts in (failed.parts, {part: add_times([times, times]) for part, times in failed.parts.items()}):
        anew = {part: replace(times) for part, times in group.parts.items()}
        snapshot = world.snapshot()
        groups = (replace(group, parts=anew), replace(failed, parts=parts), *list(world.groups.values())[1:])
        snapshot = replace(snapshot, handshakes=Handshakes(groups))
        readings.append(exposition.read(snapshot, exposition.gone(), Own(0, 0.1)))
    before, after = ({(point.family, point.labels): point for point in reading.points} for reading in readings)
    assert before.keys() == after.keys()
    other = {series for series, point in after.items() if point is not before[series]}
    own = {"ssllatency.reading", "ssllatency.series", "ssllatency.series.dropped", "ssllatency.build.info"}
    own |= {"ssllatency.targets.refused", "ssllatency.targets.spared"}
    assert {family for family, _ in other} - own == {"ssllatency.handshake.duration", "ssllatency.handshake.calls"}
    assert all(("outcome", "failure") in of for family, of in other if family not in own)
    assert any(family == host for family, _ in after)


def test_series_keep_their_order_whichever_counts_come_first() -> None:
    world = World(8)
    while len(world.groups) < 2:
        world.step()
    exposition = Exposition(Processes(world), 2000, 300.0, lambda: world.now_s)
    group = next(iter(world.groups.values()))
    failed = replace(group, ending=Ending.FAILURE, parts=dict(reversed(group.parts.items())))
    orders = []
    for groups in ((group, failed), (failed, replace(group))):
        reading = exposition.read(replace(world.snapshot(), handshakes=Handshakes(groups)), set(), Own(0, 0.1))
        orders.append([(point.family, point.labels) for point in reading.points])
    assert orders[0] == orders[1]


def test_times_that_are_not_made_yet_add_up_to_those_that_are() -> None:
    world = World(9)
    for _ in range(20):
        world.step()
        groups = [
            replace(group, labels={**group.labels, Label.VERSION: version})
            for group in world.groups.values()
            for version in ("TLSv1.2", "TLSv1.3")
        ]
        raw = [replace(group, parts=on_demand(group.parts)) for group in groups]
        assert [dict(one.parts) for one in raw] == [dict(one.parts) for one in groups]
        expected = ByProcess(KeptResults()).read(replace(world.snapshot(), handshakes=Handshakes(tuple(groups))))
        for mixed in (raw, [*raw[::2], *groups[1::2]]):
            assert ByProcess(KeptResults()).read(replace(world.snapshot(), handshakes=Handshakes(tuple(mixed)))) == expected


def on_demand(parts: Mapping[Part, Times]) -> PartsOnDemand:
    return PartsOnDemand(
        {
            part: (times.total_ns, (of.packed, of.offset, of.underflow, of.overflow))
            for part, times in parts.items()
            for of in (times.exponential,)
        }
    )


def test_the_points_of_processes_that_are_not_told_apart_are_the_same_again() -> None:
    world = World(6)
    world.step()
    exposition = Exposition(Processes(world), 2000, 300.0, lambda: world.now_s)
    (group, *_) = world.groups.values()
    snapshot = replace(world.snapshot(), handshakes=Handshakes((replace(group, labels={}, other=True),)))
    points = []
    for _ in range(2):
        reading = exposition.read(snapshot, exposition.gone(), Own(0, 0.1))
        points.append([point for point in reading.points if ("otel.metric.overflow", "true") in point.labels])
    assert points[0]
    assert [id(point) for point in points[0]] == [id(point) for point in points[1]]


def test_a_point_that_was_sent_before_is_the_same_object_again() -> None:
    world = World(4)
    world.step()
    exposition = Exposition(Processes(world), 2000, 300.0, lambda: world.now_s)
    sent, received = Frames(), Readings()
    readings = [exposition.read(world.snapshot(), exposition.gone(), Own(0, 0.1)) for _ in range(2)]
    frames = [sent.frame(reading) for reading in (*readings, readings[1])]
    assert len(frames[1]) < len(frames[0])
    first, second, third = (received.reading(frame) for frame in frames)
    same = {id(point) for point in first.points} & {id(point) for point in second.points}
    assert {point.family for point in second.points if id(point) in same} >= {"ssllatency.call.duration"}
    assert [id(point) for point in third.points] == [id(point) for point in second.points]
    assert third == readings[1]


def test_series_without_a_place_count_in_the_overflow_and_no_reading_changes_afterwards() -> None:
    """Their points are the same objects, with other values."""
    world = World(7)
    exposition = Exposition(Processes(world), 3, 1.0, lambda: world.now_s)
    sent, received = Frames(), Readings()
    seen: list[tuple[Reading, list[Point]]] = []
    for _ in range(120):
        world.step()
        gone = exposition.gone()
        reading = exposition.read(world.snapshot(), gone, Own(0, 0.1))
        world.forget(gone)
        assert received.reading(sent.frame(reading)) == reading
        calls = [point.value for point in reading.points if point.family == "ssllatency.call.duration"]
        assert sum(value.buckets.count for value in calls if isinstance(value, Distribution)) == sum(world.true.values())
        seen.append((reading, [replace(point) for point in reading.points]))
    assert all(list(reading.points) == points for reading, points in seen)
    assert any(("otel.metric.overflow", "true") in point.labels for point in seen[-1][0].points)


def test_alerts_that_clients_send_to_one_server_take_no_room_of_anothers_series() -> None:
    world = World(2)
    alerts = [
        Shake({Part.REST: 1}, {}, Ending.FAILURE, reason=f"alert {number}", alert=f"alert {number}", state=state)
        for number in range(256)
        for state in ("TLSv1.2", "TLSv1.3", "before the ClientHello")
    ]
    refused = Shake({Part.REST: 1}, {}, Ending.FAILURE, reason="no shared cipher")
    exposition = Exposition(Processes(world), 500, 300.0, lambda: world.now_s)

    def read(shakes: Mapping[int, list[Shake]]) -> dict[str, dict[Labels, object]]:
        by_process = {}
        for pid, of in shakes.items():
            made = handshakes_of(of)
            by_process[pid] = Tallies(made.causes, made.keys, made.mix)
        reading = exposition.read(
            replace(world.snapshot(), handshakes=Handshakes((), by_process=by_process)), set(), Own(0, 0.1)
        )
        found: dict[str, dict[Labels, object]] = {}
        for point in reading.points:
            found.setdefault(point.family, {})[point.labels] = point.value
        return found

    world.started = {3: 1}  # PIDs that are of `web` and of `mail`
    read({3: alerts})
    world.started[4] = 2
    found = read({3: alerts, 4: [refused]})
    errors = found["ssllatency.handshake.errors"]
    assert errors[labels({"service": "mail", "outcome": "failure", "error.type": "no shared cipher"})] == 1
    assert len(errors) == 33 + 1
    others = labels({"service": "web", "outcome": "failure", "error.type": "other"})
    unassigned = [of for of in errors if ("error.type", "unassigned alert") in of]
    assert (len(unassigned), sum(errors.values())) == (3, len(alerts) + 1)  # type: ignore[arg-type]
    assert found["ssllatency.series.dropped"] == {(): 37 * 3 + 3 - 32}
    assert errors[others] == 37 * 3 + 3 - 32
