# SPDX-License-Identifier: Apache-2.0
"""Processes that have ended, in a live view: the kernel's rows of them are freed, and no count is lost, doubled or moved."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.measured.handshakes import Shake, handshakes_of
from tests.measured.live_readings import BY, shake
from tests.measured.live_readings import failed as failing
from tests.measured.recordings import calls_of, interval_of
from tests.measured.replay import Replay
from tests.parameters import slow_except

from ssllatency.model.arithmetic.handshake_sums import total
from ssllatency.model.handshakes import Ending, Handshakes, Label, Part, Tallies
from ssllatency.model.live.history import HISTORY_S, History, tallies
from ssllatency.model.live.reading import FUNCTION, OTHER, SERVICE, LiveReading
from ssllatency.model.live.rows import rows, whole
from ssllatency.model.process_label import ProcessLabel
from ssllatency.model.snapshot import Series, Snapshot
from ssllatency.output.screen.recorder import Recorder
from ssllatency.reports.documents.recording_reading import from_text
from ssllatency.targets.containers.service import Service, ServiceKind
from ssllatency.tracing.top.ended import LiveSession
from ssllatency.tracing.top.services import ServiceNames


class Host(Replay):
    """Processes that come and go, and a session whose counts are by process until they are forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: dict[int, str] = {}
        self.counted: dict[int, list[Shake]] = {}
        self.truth: list[tuple[float, str, Shake]] = []  # when each ended, of which service
        self.second = 0.0

    def process(self, pid: int, service: str) -> None:
        self.alive[pid] = service

    def shakes(self, pid: int, *made: Callable[[str], Shake]) -> None:
        label = f"{self.alive[pid]}({pid})"
        for make in made:
            self.counted.setdefault(pid, []).append(make(label))
            self.truth.append((self.second, self.alive[pid], self.counted[pid][-1]))

    def end(self, pid: int) -> None:
        del self.alive[pid]

    def is_there(self, pid: int) -> bool:
        return pid in self.alive

    def forget(self, pids: Collection[int]) -> None:
        for pid in pids:
            self.counted.pop(pid, None)

    def read(self, *, per_interval: bool = False) -> Snapshot:
        del per_interval
        every = [one for shakes in self.counted.values() for one in shakes]
        by_process = {pid: _tallies(handshakes_of(shakes)) for pid, shakes in self.counted.items()}
        handshakes = replace(handshakes_of(every, BY), by_process=by_process)
        return replace(interval_of(0, (), list(self._series())), duration_s=self.second, handshakes=handshakes)

    def _series(self) -> Iterator[Series]:
        for pid, shakes in self.counted.items():
            yield calls_of("SSL_do_handshake", [one.parts[Part.CALLS] for one in shakes], pid=pid)


def _tallies(handshakes: Handshakes) -> Tallies:
    return Tallies(handshakes.causes, handshakes.keys, handshakes.mix)


def session_of(host: Host, most: int = 256) -> tuple[LiveSession, ServiceNames]:
    services = ServiceNames(lambda pid, comm: Service(host.alive.get(pid, comm), ServiceKind.UNIT))
    return LiveSession(host, services, most, host.is_there), services


def read(session: LiveSession, services: ServiceNames) -> LiveReading:
    snapshot = session.read(per_interval=True)
    return LiveReading(snapshot, services.names(snapshot), 0.0, session.ended)


def counts(history: History, seconds: float, view: str = SERVICE) -> dict[str, int]:
    window, newest = history.window(seconds), history.newest
    assert window
    assert newest
    return {row.name: row.count for row in rows(window.snapshot, view, newest.services)}


def live(host: Host, chance: random.Random, pids: Iterator[int]) -> None:
    """A second of a server that forks for each connection, of one whose workers are replaced, and of one that stays."""
    for _ in range(chance.randrange(6)):
        pid = next(pids)
        host.process(pid, "sshd")
        host.shakes(pid, *chance.choices([shake, failing], [4, 1], k=chance.randrange(1, 3)))
        if chance.random() < 0.8:
            host.end(pid)
    for pid, service in list(host.alive.items()):
        host.shakes(pid, *[shake] * chance.randrange(3))
        if service == "sshd" or chance.random() < 0.1:
            host.end(pid)
            if service == "nginx":
                host.process(next(pids), "nginx")


@pytest.mark.parametrize("seed", slow_except(range(5), 0))
def test_no_count_is_lost_doubled_or_moved(seed: int) -> None:
    chance, host, pids = random.Random(seed), Host(), iter(range(100, 100_000))
    session, services = session_of(host)
    history = History()
    host.process(1, "haproxy")
    host.process(2, "nginx")
    history.add(read(session, services))
    for second in range(1, 60):
        host.second = second
        live(host, chance, pids)
        reading = read(session, services)
        history.add(reading)
        handshakes, series = reading.snapshot.handshakes, reading.snapshot.series
        assert handshakes
        every = handshakes_of([one for _, _, one in host.truth])
        assert sum(group.count for group in handshakes.groups) == len(host.truth)
        assert sum(group.total_ns(Part.WALL) for group in handshakes.groups) == sum(
            one.parts[Part.WALL] for _, _, one in host.truth
        )
        assert {cause.reason: cause.count for cause in handshakes.causes} == {c.reason: c.count for c in every.causes}
        assert {use.key: use.count for use in handshakes.keys} == {use.key: use.count for use in every.keys}
        assert handshakes.mix == every.mix
        assert sum(calls.count for calls in series) == len(host.truth)
        for seconds in (1, 3, 10):
            since = second - seconds
            assert counts(history, seconds) == Counter(service for at, service, _ in host.truth if at > since)
        assert len(host.counted) <= len(host.alive) + 12  # the rows of what ended in the last second or two are left
    by_interval = {service: [0] * len(history.intervals) for service in ("sshd", "nginx", "haproxy")}
    for at, service, _ in host.truth:
        by_interval[service][int(at) - 1] += 1
    newest = history.newest
    assert newest
    for service, expected in by_interval.items():
        seen = [tally.count for tally in tallies(history.intervals, SERVICE, newest.services, service)]
        assert seen == expected
    of_functions = [tally.count for tally in tallies(history.intervals, FUNCTION, newest.services, None)]
    assert sum(of_functions) == len(host.truth)


@pytest.mark.slow
def test_days_of_a_server_that_forks_leave_room_for_others() -> None:
    host = Host()
    session, services = session_of(host)
    history = History()
    history.add(read(session, services))
    for second in range(1, 1 + round(1.2 * HISTORY_S)):
        host.second = second
        for pid in range(10 * second, 10 * second + 10):
            host.process(pid, "sshd")
            host.shakes(pid, shake)
            host.end(pid)
        history.add(read(session, services))
    assert counts(history, 1e9) == {"sshd": sum(at > host.second - 310 for at, _, _ in host.truth)}
    host.second += 1
    host.process(9, "nginx")
    host.shakes(9, shake)
    history.add(read(session, services))
    assert counts(history, 1) == {"nginx": 1}
    assert counts(history, 1, Label.PROCESS) == {"nginx(9)": 1}
    assert len(host.counted) < 20


def test_rows_of_ended_processes_say_so() -> None:
    host = Host()
    session, services = session_of(host)
    history = History()
    host.process(7, "exim (4)")
    history.add(read(session, services))
    host.second = 1
    host.shakes(7, shake, failing)
    history.add(read(session, services))
    assert counts(history, 1, Label.PROCESS) == {"exim (4)(7)": 2}
    host.end(7)
    host.second = 2
    history.add(read(session, services))
    assert counts(history, 1) == {}
    assert counts(history, 2, Label.PROCESS) == {"ended: exim [4)": 2}
    window = history.window(2)
    assert window
    [row] = rows(window.snapshot, SERVICE, {})
    assert (row.count, row.failed, row.retries, row.pids) == (2, 1, None, frozenset())
    assert whole(window.snapshot).count == 2


def test_beyond_the_bound_ended_processes_are_other() -> None:
    host = Host()
    session, services = session_of(host, most=2)
    history = History()
    for number in range(1, 6):
        host.process(number, f"unit-{number}")
    history.add(read(session, services))
    for second in range(1, 6):
        host.second = second
        host.shakes(second, shake)
        host.end(second)
        history.add(read(session, services))
        host.second += 0.5
        history.add(read(session, services))
    assert counts(history, 100) == {"unit-1": 1, "unit-2": 1, OTHER: 3}
    assert not host.counted


def test_a_recording_has_each_handshake_once(tmp_path: Path) -> None:
    chance, host, pids = random.Random(3), Host(), iter(range(100, 100_000))
    session, services = session_of(host)
    file = tmp_path / "x.jsonl"
    recorder = Recorder(lambda: str(file), "ssllatency top --all", 1.0)
    host.process(1, "haproxy")
    host.process(2, "nginx")
    recorder.take(read(session, services))
    recorder.toggle()
    for second in range(1, 30):
        host.second = second
        live(host, chance, pids)
        assert recorder.take(read(session, services)) == ""
    recorder.close()
    intervals = from_text(file.read_text(), "x").intervals
    groups: Sequence[tuple[str, int]] = [
        (group.process.name if group.process else "", group.count)
        for interval in intervals
        for group in (interval.handshakes.groups if interval.handshakes else ())
    ]
    seen = Counter[str]()
    for service, count in groups:
        seen[service] += count
    assert seen == Counter(service for _, service, _ in host.truth)
    failed = [total(interval.handshakes, Ending.FAILURE) for interval in intervals if interval.handshakes]
    assert sum(group.count for group in failed if group) == sum(one.ending is Ending.FAILURE for _, _, one in host.truth)


def test_a_process_that_takes_the_place_of_another_counts_on() -> None:
    """The PID is used again within a second: nobody can tell, and nothing is lost."""
    host = Host()
    session, services = session_of(host)
    host.process(7, "nginx")
    host.shakes(7, shake)
    read(session, services)
    host.end(7)
    host.process(7, "nginx")
    host.shakes(7, shake)
    handshakes = read(session, services).snapshot.handshakes
    assert handshakes
    [group] = handshakes.groups
    assert (group.process, group.count) == (ProcessLabel(7, "nginx"), 2)
