# SPDX-License-Identifier: Apache-2.0
"""Counts of processes folded into their services: whatever ends or is used again, sums are exact and nothing falls."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from ssllatency.export.metrics.alerts import of_assigned
from ssllatency.export.metrics.cap import IN_OVERFLOW, Cap
from ssllatency.export.metrics.kept import KeptResults
from ssllatency.export.metrics.ledger import Folded, Known, Ledger, Row, Value
from ssllatency.export.metrics.places import Places
from ssllatency.export.metrics.points import Distribution, Labels, Point, labels
from ssllatency.model.histogram import ExponentialHistogram

CALLS: Row = ("ssllatency.call.retries", labels({"function": "SSL_read"}))


@dataclass
class World:
    """Processes with services, and an engine that counts by PID, as the kernel does."""

    processes: dict[int, tuple[int, str]] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    true: dict[str, int] = field(default_factory=dict)
    now: float = 1000.0
    ticks: int = 0

    def started(self, pid: int) -> int | None:
        return self.processes[pid][0] if pid in self.processes else None

    def known(self, pid: int, name: str) -> Known:
        started, service = self.processes.get(pid, (0, name))
        return Known(started, labels({"service": service}))

    def start(self, pid: int, service: str) -> None:
        self.ticks += 1
        self.processes[pid] = self.ticks, service
        self.names[pid] = service

    def call(self, pid: int, times: int = 1) -> None:
        self.counts[pid] = self.counts.get(pid, 0) + times
        service = self.processes[pid][1]
        self.true[service] = self.true.get(service, 0) + times

    def end(self, pid: int) -> None:
        del self.processes[pid]

    def read(self, ledger: Ledger) -> dict[str, int]:
        gone = ledger.gone()
        counts: dict[int, Mapping[Row, Value]] = {pid: {CALLS: count} for pid, count in self.counts.items()}
        folded = ledger.fold(counts, gone, dict(self.names))
        for pid in gone:  # the engine forgets them
            self.counts.pop(pid, None)
            self.names.pop(pid, None)
        return {dict(service)["service"]: total(of) for service, of in folded.items()}


def total(folded: Folded) -> int:
    value = folded.counts.get(CALLS, 0)
    assert isinstance(value, int)
    return value


def ledger_of(world: World, linger_s: float = 300.0) -> Ledger:
    return Ledger(world, KeptResults(), world.now, linger_s, lambda: world.now)


def test_a_process_that_ends_stays_in_its_service() -> None:
    world = World()
    ledger = ledger_of(world)
    world.start(1, "a.service")
    world.start(2, "a.service")
    world.call(1, 5)
    world.call(2, 7)
    assert world.read(ledger) == {"a.service": 12}
    world.call(1, 3)
    world.end(1)
    assert world.read(ledger) == {"a.service": 15}
    assert 1 not in world.counts
    assert world.read(ledger) == {"a.service": 15}


def test_one_that_has_ended_before_anybody_looked_counts_by_its_name() -> None:
    world = World()
    ledger = ledger_of(world)
    world.start(1, "short")
    world.call(1, 4)
    world.end(1)
    assert world.read(ledger) == {"short": 4}
    assert world.read(ledger) == {"short": 4}
    assert world.counts == {}


def test_a_pid_that_is_used_again_is_another_service() -> None:
    world = World()
    ledger = ledger_of(world)
    world.start(1, "old")
    world.call(1, 10)
    assert world.read(ledger) == {"old": 10}
    world.end(1)
    world.start(1, "new")  # in the same row of the kernel's
    assert world.read(ledger) == {"old": 10, "new": 0}
    world.call(1, 2)
    assert world.read(ledger) == {"old": 10, "new": 2}
    world.end(1)
    assert world.read(ledger) == {"old": 10, "new": 2}


def test_a_pid_that_is_used_again_before_anybody_looked_is_another_service() -> None:
    world = World()
    ledger = ledger_of(world)
    world.start(1, "short")
    world.call(1, 4)
    world.end(1)
    assert world.read(ledger) == {"short": 4}
    world.start(1, "new")
    world.call(1, 2)
    world.read(ledger)
    world.call(1, 5)
    assert world.read(ledger) == {"short": 4, "new": 7}


def test_a_service_without_processes_is_forgotten_after_a_while_and_counts_anew() -> None:
    world = World()
    ledger = ledger_of(world, linger_s=60)
    world.start(1, "a")
    world.call(1, 3)
    world.read(ledger)
    world.end(1)
    assert world.read(ledger) == {"a": 3}
    world.now += 61
    assert world.read(ledger) == {}
    world.start(2, "a")
    world.call(2)
    assert world.read(ledger) == {"a": 1}
    (again,) = ledger.fold({2: {CALLS: 1}}, set(), {2: "a"}).values()
    assert again.since_s == 1061


def test_no_counter_falls_and_sums_are_exact_whatever_happens() -> None:
    chance, world = random.Random(7), World()
    ledger, before = ledger_of(world, linger_s=1e9), {"": 0}
    for _ in range(2000):
        pid = chance.randrange(8)
        if pid not in world.processes:
            world.start(pid, f"s{chance.randrange(3)}")
        elif chance.random() < 0.2:
            world.end(pid)
        else:
            world.call(pid, chance.randrange(5))
        if chance.random() < 0.3:
            now = world.read(ledger)
            assert all(now[service] >= count for service, count in before.items() if service)
            assert sum(now.values()) == sum(world.true.values())
            before = now


def points(*counts: int) -> list[Point]:
    return [
        Point("ssllatency.call.retries", labels({"service": str(number)}), count, 0.0)
        for number, count in enumerate(counts)
        if count
    ]


def values(placed: list[Point]) -> dict[str, Value]:
    return {dict(point.labels).get("service", "overflow"): point.value for point in placed}


def test_beyond_the_cap_series_are_added_up_and_counted() -> None:
    cap = Cap(2, 0.0)
    placed, ended = cap.place(points(1, 2, 3, 4))
    assert values(placed) == {"0": 1, "1": 2, "overflow": 7}
    assert [point.labels for point in placed][-1] == IN_OVERFLOW
    assert (ended, cap.dropped, len(cap)) == ([], 2, 3)
    assert values(cap.place(points(1, 2, 5, 4))[0])["overflow"] == 9
    assert cap.dropped == 2


def test_series_are_placed_by_what_they_are_in_whatever_order_they_come() -> None:
    chance, cap, true = random.Random(7), Cap(5, 0.0), [0] * 9
    for turn in range(60):
        true = [count + chance.randrange(1, 4) for count in true]
        shown = points(*true)
        if turn % 3 == 2:  # the other times they come as they did before
            chance.shuffle(shown)
        placed, ended = cap.place(shown)
        own = {str(number): count for number, count in enumerate(true[:5])}  # those that came first
        assert values(placed) == {**own, "overflow": sum(true[5:])}
        assert (ended, cap.dropped, len(cap)) == ([], 4, 6)


def test_labels_that_are_made_anew_are_those_of_the_same_series() -> None:
    """A place is found by which object the labels are: none is taken for one that is there no more."""
    cap, true = Cap(3, 0.0), [1] * 6
    for turn in range(40):
        if turn % 3 == 2:
            true.insert(3, 1)  # another one, whose labels may lie where others have lain
        true = [count + 1 for count in true]
        shown = points(*true)
        for point in shown:
            point.labels = (*point.labels[:0], *point.labels)
        placed, _ = cap.place(shown)
        own = {str(number): count for number, count in enumerate(true[:3])}
        assert values(placed) == {**own, "overflow": sum(true[3:])}


def test_the_overflow_keeps_what_has_ended_and_lets_nothing_out() -> None:
    cap = Cap(1, 0.0)
    cap.place(points(1, 2, 3))
    placed, ended = cap.place(points(0, 2, 0, 8))  # the first has ended, which makes room for the last alone
    assert values(placed) == {"3": 8, "overflow": 5}
    assert ended == [("ssllatency.call.retries", labels({"service": "0"}))]
    assert values(cap.place(points(0, 4, 0, 8))[0]) == {"3": 8, "overflow": 7}
    assert cap.dropped == 2


def error(alert: int) -> Row:
    """The row of handshakes in which the client sent this alert."""
    alerts = {"error.type": f"alert {alert}", "tls.alert": f"alert {alert}", "tls.alert.sent": "false"}
    return "ssllatency.handshake.errors", labels({"outcome": "failure", **alerts})


class Attacked(World):
    """Two servers: clients of the first send alerts, of which there are ever more kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.start(1, "attacked.service")
        self.alerts: dict[Row, Value] = {}

    def shake(self, *rows: Row) -> None:
        for row in rows:
            self.alerts[row] = self.alerts.get(row, 0) + 1  # type: ignore[operator]

    def fold(self, ledger: Ledger) -> dict[Row, float]:
        folded = ledger.fold({1: dict(self.alerts)}, ledger.gone(), self.names)
        counts = folded[labels({"service": "attacked.service"})].counts
        return {row: value for row, value in counts.items() if not isinstance(value, Distribution)}


def fold_of(ledger: Ledger, world: Attacked, service: Labels) -> Mapping[Row, Value]:
    return ledger.fold({1: dict(world.alerts)}, ledger.gone(), world.names)[service].counts


REFUSED: Row = "ssllatency.handshake.errors", labels({"outcome": "failure", "error.type": "no shared cipher"})
OTHERS: Row = "ssllatency.handshake.errors", labels({"outcome": "failure", "error.type": "other"})


def test_clients_of_a_service_take_no_room_of_others_nor_of_what_the_service_refuses() -> None:
    world = Attacked()
    ledger = ledger_of(world)
    world.shake(*[error(number) for number in range(10)])
    assert world.fold(ledger) == {error(number): 1 for number in range(10)}
    world.shake(*[error(number) for number in range(510)], *[error(300)] * 7)
    shown = world.fold(ledger)
    assert len(shown) == 33
    assert (shown[error(0)], shown[error(300)], shown[OTHERS]) == (2, 8, 510 - 32)
    assert ledger.left == 510 - 32
    world.shake(REFUSED, error(509))
    again = world.fold(ledger)
    assert again == {**shown, REFUSED: 1, OTHERS: 510 - 32 + 1}
    world.end(1)
    assert world.fold(ledger) == again  # also once they are kept
    assert ledger.left == 510 - 32


def test_no_row_of_a_service_ever_falls_however_many_there_are() -> None:
    chance, world = random.Random(7), Attacked()
    ledger, before, true = ledger_of(world), dict[Row, float](), 0
    for _ in range(200):
        rows = [error(int(chance.expovariate(0.01))) for _ in range(chance.randrange(5))]
        world.shake(*rows)
        true += len(rows)
        shown = world.fold(ledger)
        assert all(shown[row] >= value for row, value in before.items())
        assert sum(shown.values()) == true
        assert len(shown) <= 33
        before = shown
        if chance.random() < 0.1:  # another process of the service goes on, with counts of its own
            world.end(1)
            world.fold(ledger)
            world.start(1, "attacked.service")
            world.alerts = {}


def test_rows_that_count_nothing_take_no_place() -> None:
    """As those of a process that has another's PID: what was counted by then is that one's."""
    world = Attacked()
    ledger, service_b = ledger_of(world), labels({"service": "b.service"})
    alerts = [error(number) for number in range(40)]
    world.shake(*alerts)
    world.fold(ledger)
    world.end(1)
    world.start(1, "b.service")
    left = ledger.left
    counts = fold_of(ledger, world, service_b)
    assert {row: value for row, value in counts.items() if value} == {}
    assert ledger.left == left
    own = [error(number) for number in range(100, 132)]
    world.shake(*own, alerts[0])
    counts = fold_of(ledger, world, service_b)
    assert {row: value for row, value in counts.items() if value} == {**dict.fromkeys([alerts[0], *own][:32], 1), OTHERS: 1}
    assert ledger.left == left + 1


def timed(*values_ns: int) -> Distribution:
    return Distribution(sum(values_ns), ExponentialHistogram.from_values(values_ns))


@pytest.mark.parametrize(
    ("families", "own", "label", "nothing", "something"),
    [
        (("private_key.operations", "private_key.time"), {"operation": "sign"}, "key", 0, 5),
        (("handshake.duration", "handshake.calls"), {"outcome": "success"}, "tls.protocol.version", timed(), timed(10**6)),
    ],
    ids=["numbers", "durations"],
)
def test_what_counts_nothing_yet_has_a_place_once_it_counts(
    families: Sequence[str], own: Mapping[str, str], label: str, nothing: Value, something: Value
) -> None:
    rows = [(f"ssllatency.{family}", labels({**own, label: str(number)})) for number in range(70) for family in families]
    places = Places()
    others = places.others(dict.fromkeys(rows, nothing))
    assert set(others.values()) == {(f"ssllatency.{family}", labels({**own, label: "other"})) for family in families}
    assert (others.keys(), places.left) == (set(rows), 0)
    assert (places.others(dict.fromkeys(rows[:128], something)), places.left) == ({}, 0)
    assert places.others(dict.fromkeys(rows, something)).keys() == set(rows[128:])
    assert places.left == 12


def test_what_counts_without_being_ranked_yet_never_falls() -> None:
    """A time whose operations aren't counted yet, as of a row that is read while it is written."""
    of = labels({"operation": "sign", "key": "RSA-2048"})
    places, row = Places(), ("ssllatency.private_key.time", of)
    for operations in (0, 1):
        assert places.others({("ssllatency.private_key.operations", of): operations, row: 500}).get(row, row) == row


def test_keys_and_their_times_are_other_together() -> None:
    """As durations and calls are: else a mean would be one of other handshakes."""
    counts: dict[Row, Value] = {}
    for number in range(100):
        of = labels({"operation": "sign", "key": f"RSA-{number}"})
        counts["ssllatency.private_key.operations", of] = number
        counts["ssllatency.private_key.time", of] = 1000.0 - number
    others = Places().others(counts)
    operations, times = ({values for family, values in others if family.endswith(kind)} for kind in ("operations", "time"))
    assert operations == times == {labels({"operation": "sign", "key": f"RSA-{number}"}) for number in range(36)}
    assert set(others.values()) == {
        (f"ssllatency.private_key.{kind}", labels({"operation": "sign", "key": "other"})) for kind in ("operations", "time")
    }


def test_alerts_that_nobody_assigned_are_one() -> None:
    assert {of_assigned(f"alert {number}") for number in range(122, 256)} == {"unassigned alert"}
    assert len({of_assigned(f"alert {number}") for number in range(256)}) == 38  # and 37 that are assigned
    for words in ("", "alert 52", "unknown CA", "alert certificate required", "reason 200", "alert 1٢", "alert "):
        assert of_assigned(words) == words
