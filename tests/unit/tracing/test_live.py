# SPDX-License-Identifier: Apache-2.0
"""When a run ends, and what its intervals are, where reading takes longer than an interval."""

from __future__ import annotations

import argparse
import gc
import math
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.measured.recordings import recording_of
from tests.measured.replay import Replay

from ssllatency.model.arithmetic.handshake_sums import total
from ssllatency.model.handshakes import Ending
from ssllatency.model.snapshot import Snapshot
from ssllatency.stopping import STOP, stop_is_asked_for, wait_for
from ssllatency.targets import Selection
from ssllatency.tracing import live
from ssllatency.tracing.live import RunEnd, announce, readings, snapshots, take_first_looks
from ssllatency.tracing.plan_source import PlanSource
from ssllatency.tracing.resolve import Resolved

SOURCE = PlanSource(argparse.Namespace(no_return_probes=False, no_cache=True))


class SlowSource(Replay):
    """A source whose reading takes a while; in the third a signal comes."""

    def __init__(self, number: signal.Signals | None) -> None:
        super().__init__()
        self._number = number

    def read(self, *, per_interval: bool = False) -> Snapshot:
        assert per_interval
        self.reads += 1
        time.sleep(0.02)
        if self.reads == 3 and self._number:
            signal.pthread_kill(threading.get_ident(), self._number)  # another thread may not have it blocked
        return Snapshot("web1", "6.1.0", "libbpf", "2030-01-31T12:00:00Z", self.reads, (), ())


@pytest.fixture(autouse=True)
def blocked() -> Iterator[None]:
    """As prepare() has them: signals wait until they are asked for."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP)
    yield
    while signal.sigpending() & STOP:
        signal.sigtimedwait(STOP, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ending(duration: float) -> RunEnd:
    return RunEnd(Resolved((), (), True, (), SOURCE, (), Selection(everything=True)), duration)


@pytest.mark.parametrize("number", sorted(STOP))
def test_a_signal_ends_a_run_whose_intervals_take_longer_than_they_last(number: signal.Signals) -> None:
    session = SlowSource(number)
    assert len(list(snapshots(session, ending(60), 0.001))) == session.reads == 4


@pytest.mark.parametrize("number", sorted(STOP))
def test_a_signal_that_is_blocked_ends_a_wait(number: signal.Signals) -> None:
    """It goes on waiting to be asked for, and is told of in each later wait."""
    readable, writable = os.pipe()
    assert wait_for([readable], 0) == set()
    os.write(writable, b".")
    assert wait_for([readable], 300) == {readable}
    os.read(readable, 1)
    signal.pthread_kill(threading.get_ident(), number)
    assert wait_for([readable], 300) == set()
    assert wait_for([], 300) == set()
    assert stop_is_asked_for()
    os.close(readable)
    os.close(writable)


def test_a_signal_ends_a_start_before_it_looks_at_anything() -> None:
    everyone, options = Selection(everything=True), argparse.Namespace(no_return_probes=False, no_cache=True)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    with ExitStack() as stack, pytest.raises(KeyboardInterrupt):
        live.resolved_ahead(everyone, options, stack)


def test_a_signal_ends_a_start_while_it_brings_in_what_it_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "asks_for_the_end.py").write_text(
        "import signal, threading\nsignal.pthread_kill(threading.get_ident(), signal.SIGINT)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    everyone = Selection(libraries=("/lib/libssl.so.3",))  # who maps a file isn't followed

    def resolve(_selection: object, _arguments: object, stack: ExitStack, *, load_early: Any, **_options: object) -> object:
        return load_early(Resolved((), (), True, (), SOURCE, selection=everyone), stack)

    monkeypatch.setattr(live, "resolve", resolve)
    with ExitStack() as stack, pytest.raises(KeyboardInterrupt):
        live.resolved_ahead(everyone, argparse.Namespace(), stack, modules=["asks_for_the_end", "not_there"])


class Arriving:
    """Somebody to be waited for, who comes at the third look."""

    looks = 0

    @property
    def arrived(self) -> bool:
        return self.looks >= 3

    def look(self) -> None:
        self.looks += 1

    def anyone_left(self) -> bool:
        return True


def test_a_run_that_waits_lasts_from_the_first_arrival_on() -> None:
    follower = Arriving()
    end = RunEnd(Resolved((), (), False, (), SOURCE, waits=True), 1e-9, cast("Any", follower))
    assert end.at == float("inf")
    assert not end.has_come()
    assert not end.has_come()
    assert end.at == float("inf")
    end.has_come()
    assert end.has_come()


@pytest.mark.parametrize("followed", [True, False])
def test_a_wait_for_what_a_command_reads_sees_what_else_needs_a_look(followed: bool) -> None:
    """Such as a burst of hits, which the follower hears of; without one at least the descriptor ends the wait."""
    waited: list[tuple[float, int]] = []
    follower = SimpleNamespace(wait=lambda *words: waited.append(words), arrived=True, look=lambda: pytest.fail("looked again"))
    end = RunEnd(Resolved((), (), True, (), SOURCE), 20.0, cast("Any", follower) if followed else None)
    reader, writer = os.pipe()
    try:
        os.write(writer, b"x")
        end.wait_for(reader, 50.0)
        assert waited == ([(50.0, reader)] if followed else [])
        assert not end.has_come()
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize(("due_in_s", "pause_s"), [(math.inf, 0.1), (10, 0.2), (0.1, 0.1), (-1, 0.01)])
def test_a_session_is_polled_when_a_window_is_due(due_in_s: float, pause_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """And seldom while one is far: what looks take of the machine is no part of a budget."""
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    waited: list[float] = []

    def wait(until: float) -> bool:
        waited.append(until - 1000)
        return True

    session, end = SlowSource(None), SimpleNamespace(wait=wait, at=math.inf)
    session.due_s = 1000 + due_in_s
    assert len(list(readings(session, cast("Any", end), 60, lambda: None))) == 1
    assert waited == [pytest.approx(pause_s)]


class Looking:
    """A source with looks due at these times, one after the other, by a clock that only sleep moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, due_s: list[float]) -> None:
        self.now, self._due_s = 1000.0, due_s
        self.polled: list[float] = []
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    @property
    def due_s(self) -> float:
        return self._due_s[len(self.polled) - 1]

    def poll(self) -> list[Any]:
        self.polled.append(round(self.now - 1000, 6))
        return []


def test_the_first_looks_are_taken_before_anything_else_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Looking(monkeypatch, [1000.008, 1000.03, 1000.06])
    take_first_looks(cast(Any, source))
    assert source.polled == [0, 0.008, 0.03]


def test_first_looks_give_way_to_what_the_caller_has_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    source, waited = Looking(monkeypatch, [1000.008, 1000.03]), []

    def wait(seconds: float) -> bool:
        waited.append(round(seconds, 6))
        return len(waited) == 2

    take_first_looks(cast(Any, source), wait)
    assert (source.polled, waited) == ([0, 0], [0.008, 0.03])


def test_first_looks_end_though_one_is_always_due(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Looking(monkeypatch, [1000.03, 0.0, *[1000.039] * 5, *[1001.0] * 20])
    take_first_looks(cast(Any, source))
    assert len(source.polled) < 20


def test_an_interval_that_took_too_long_is_not_made_up_for() -> None:
    session, number = SlowSource(None), 0
    for _ in snapshots(session, ending(2), 0.4):
        number += 1
        if number == 1:
            time.sleep(1.3)  # three more would have begun meanwhile
    assert number <= 4


def test_the_last_interval_ends_with_the_run_however_busy_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other one is begun where this process had no processor while both the interval and the run ended."""
    now, waits = 1000.0, 0

    def wait(_until: float) -> bool:
        nonlocal now, waits
        now, waits = now + 1.5, waits + 1  # past the border, and past the end once it has been asked
        return waits == 2

    monkeypatch.setattr(time, "monotonic", lambda: now)
    end = SimpleNamespace(wait=wait, at=1000.999)
    assert len(list(readings(SlowSource(None), cast("Any", end), 1.0))) == 1


def test_intervals_that_are_replayed_come_back_as_they_were() -> None:
    intervals = recording_of(seed=7, intervals=4).runs[0].intervals
    source = Replay(intervals)
    back = list(snapshots(source, ending(0.05), 0.001))[: len(intervals)]
    assert source.is_detached
    assert [counts(interval) for interval in back] == [counts(interval) for interval in intervals]


def counts(interval: Snapshot) -> tuple[object, ...]:
    assert interval.handshakes
    whole = total(interval.handshakes, Ending.SUCCESS)
    assert whole
    return whole.count, {part: (times.count, times.total_ns) for part, times in whole.parts.items()}


def test_garbage_is_looked_for_again_once_the_probes_are_attached() -> None:
    gc.disable()
    try:
        announce(Resolved((), (), True, (), SOURCE), 1.0)
        assert gc.isenabled()
        assert gc.get_freeze_count()
    finally:
        gc.enable()
        gc.unfreeze()
