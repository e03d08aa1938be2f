# SPDX-License-Identifier: Apache-2.0
"""When processes last executed another program, and the handshakes of the program before."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import MagicMock

from ssllatency import abi
from ssllatency.engines.bpf.executed import Executed, Sweeps
from ssllatency.engines.bpf.process_slots import slot_of
from ssllatency.engines.bpf.running import InFlight, Running
from ssllatency.engines.sessions.handshakes import HandshakeSession

NOBODY = 4_194_304  # no PID is that large


def test_the_last_time_counts() -> None:
    executed = Executed()
    executed.note(7, 20)
    executed.note(7, 10)  # by another processor's buffer
    assert (executed.at_ns(7), executed.at_ns(8)) == (20, 0)


def test_a_sweep_is_wanted_once_a_target_is_known_to_have_replaced_its_program() -> None:
    """The time that it did so doesn't matter: it may be known only after a sweep that came later."""
    executed, sweeps = Executed({6, 7}), Sweeps()
    assert not sweeps.are_wanted(executed)
    with sweeps.sweep(executed):
        pass
    executed.note(7, 1)
    assert sweeps.are_wanted(executed)
    with sweeps.sweep(executed):
        executed.note(6, 2)
    assert sweeps.are_wanted(executed), "it became known while one went on"
    with sweeps.sweep(executed):
        pass
    assert not sweeps.are_wanted(executed)


def test_who_becomes_a_target_by_its_program_has_left_nothing_to_look_for() -> None:
    targets: dict[int, str] = {}
    executed, sweeps = Executed(targets), Sweeps()
    executed.note(7, 1)
    targets[7] = "curl"
    assert not sweeps.are_wanted(executed)
    assert executed.at_ns(7) == 1
    executed.note(7, 2)
    assert sweeps.are_wanted(executed)


def test_a_sweep_is_followed_by_a_rest_many_times_as_long() -> None:
    now_s = [100.0]
    executed, sweeps = Executed({7}), Sweeps(lambda: now_s[0])
    assert sweeps.are_rested()
    with sweeps.sweep(executed):
        now_s[0] += 1
    executed.note(7, 1)
    now_s[0] += 49
    assert not sweeps.are_rested()
    now_s[0] += 1
    assert sweeps.are_rested()
    assert sweeps.are_wanted(executed), "what became known meanwhile isn't forgotten"


def polled(executed: Executed, sweeps: Sweeps) -> bool:
    """Whether a session of handshakes looks for those in flight, as it does in a sweep."""
    session = MagicMock(_sweeps=sweeps)
    session.attachment.processes.executed = executed
    session._running.side_effect = lambda: HandshakeSession._running(session)
    session._counters.threshold_ns = session._counters.unexplained = 0
    HandshakeSession.poll(session)
    return bool(session._running.called)


def test_a_session_of_handshakes_looks_for_those_of_replaced_programs_and_rests() -> None:
    now_s = [100.0]
    executed, sweeps = Executed({7}), Sweeps(lambda: now_s[0])
    assert not polled(executed, sweeps)
    executed.note(8, 1)
    assert not polled(executed, sweeps)
    executed.note(7, 1)
    assert polled(executed, sweeps)
    assert not polled(executed, sweeps)
    with sweeps.sweep(executed):
        now_s[0] += 1
    executed.note(7, 1)
    assert not polled(executed, sweeps)
    now_s[0] += 50
    assert polled(executed, sweeps)


def test_processes_that_are_gone_are_forgotten_in_the_end() -> None:
    executed = Executed()
    executed.note(os.getpid(), 1)
    for pid in range(NOBODY, NOBODY + 2000):
        executed.note(pid, 2)
    assert executed.at_ns(os.getpid()) == 1
    assert executed.at_ns(NOBODY) == 0
    assert executed.at_ns(NOBODY + 1999) == 2


class Table:
    """A map of the kernel's."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}
        self.read: list[tuple[bytes, bytes]] | None = None

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        yield from self.read or self.entries.items()

    def lookup(self, key: bytes) -> bytes | None:
        return self.entries.get(key)

    def delete(self, key: bytes) -> bool:
        return self.entries.pop(key, None) is not None

    def add(self, pid: int, ssl: int, began_ns: int, flags: int = 0) -> None:
        self.entries[bytes(abi.HandshakeKey(ssl, pid))] = bytes(abi.Handshake(began_ns=began_ns, flags=flags))


class Loaded:
    """An object with the tables of handshakes, and that of calls that found no slot."""

    def __init__(self) -> None:
        self.tables = {name: Table() for name in ("handshakes", "excess_handshakes", "overflow")}
        self.sections: dict[str, Any] = {}

    def map(self, name: str, *_sizes: int) -> Table:
        return self.tables[name]

    def has_map(self, name: str) -> bool:
        return name in self.tables

    def live_section(self, name: str, kind: type[ctypes.Structure]) -> ctypes.Structure:
        return self.sections.setdefault(name, kind())  # type: ignore[no-any-return]

    def holding(self, table: abi.Shared, *pids: int) -> Callable[[int], int]:
        """Takes it that each of these processes has ten entries in a table; how many one of them has then."""
        of = self.sections["holdings"].of
        for pid in pids:
            of[slot_of(pid)].entries[table] = 10
        return lambda pid: int(of[slot_of(pid)].entries[table])


def test_handshakes_of_the_program_before_are_closed() -> None:
    loaded, executed = Loaded(), Executed()
    handshakes, in_flight = loaded.tables["handshakes"], InFlight(loaded)  # type: ignore[arg-type]
    held = loaded.holding(abi.Shared.HANDSHAKES, 7, 8)
    executed.note(7, 100)
    handshakes.add(7, 1, 99)
    handshakes.add(7, 2, 98, abi.Flag.ENDED)
    handshakes.add(7, 3, 100)
    handshakes.add(8, 1, 99)
    loaded.tables["excess_handshakes"].add(7, 4, 99)
    assert [handshake.began_ns for handshake in in_flight.running(lambda _: True, executed)] == [100, 99]
    assert in_flight.cut_off == 2
    assert held(8) == 10
    assert held(7) == 8


def test_a_handshake_that_began_meanwhile_at_the_same_address_stays() -> None:
    loaded, executed = Loaded(), Executed()
    handshakes, in_flight = loaded.tables["handshakes"], InFlight(loaded)  # type: ignore[arg-type]
    executed.note(7, 100)
    handshakes.add(7, 1, 99)
    handshakes.read = list(handshakes.entries.items())
    handshakes.add(7, 1, 101)
    assert in_flight.running(lambda _: True, executed) == []
    assert in_flight.cut_off == 0
    assert len(handshakes.entries) == 1


def calls_without_a_slot(loaded: Loaded, *calls: tuple[int, int]) -> None:
    """Calls in the place behind the table, each a process and when it began."""
    for number, (pid, began_ns) in enumerate(calls):
        key = abi.StartKey(stack=number, tgid=pid)
        loaded.tables["overflow"].entries[bytes(key)] = bytes(abi.Start(tag=1, began_ns=began_ns))


def test_calls_of_the_program_before_that_found_no_slot_are_lost() -> None:
    loaded, executed = Loaded(), Executed()
    running = Running(loaded, abi.Counters())  # type: ignore[arg-type]
    shares = loaded.sections["shares"].of
    shares[slot_of(7)] = shares[slot_of(9)] = 10
    executed.note(7, 100)
    calls_without_a_slot(loaded, (7, 99), (7, 100), (8, 99), (9, 99))
    assert running.count(lambda pid: pid != 9, executed) == 2
    assert running.lost == 2
    assert (shares[slot_of(7)], shares[slot_of(9)]) == (9, 9)
    assert len(loaded.tables["overflow"].entries) == 2


def test_calls_of_the_program_before_in_slots_are_lost() -> None:
    loaded, executed = Loaded(), Executed()
    running = Running(loaded, abi.Counters())  # type: ignore[arg-type]
    executed.note(7, 100)
    slots = loaded.sections["starts"].slots
    for number, began_ns in enumerate([99, 100]):
        slots[number].tag, slots[number].began_ns = 1 << 63 | 7 << abi.Tag.TGID, began_ns
    assert [running.count(lambda _: True, executed) for _ in range(3)] == [2, 1, 1]
    assert running.lost == 1


def test_a_call_that_began_meanwhile_at_the_same_place_runs_on() -> None:
    loaded, executed = Loaded(), Executed()
    running = Running(loaded, abi.Counters())  # type: ignore[arg-type]
    executed.note(7, 100)
    calls_without_a_slot(loaded, (7, 99))
    loaded.tables["overflow"].read = list(loaded.tables["overflow"].entries.items())
    calls_without_a_slot(loaded, (7, 101))
    assert running.count(lambda _: True, executed) == 0
    assert running.lost == 0
    assert len(loaded.tables["overflow"].entries) == 1
