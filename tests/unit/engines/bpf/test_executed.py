# SPDX-License-Identifier: Apache-2.0
"""When processes last executed another program, and the handshakes of the program before."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from typing import Any

from ssllatency import abi
from ssllatency.engines.bpf.executed import Executed
from ssllatency.engines.bpf.process_slots import slot_of
from ssllatency.engines.bpf.running import InFlight

SECOND = 1_000_000_000
NOBODY = 4_194_304  # no PID is that large


def test_the_last_time_counts() -> None:
    executed = Executed()
    executed.note(7, 20)
    executed.note(7, 10)  # by another processor's buffer
    assert (executed.at_ns(7), executed.at_ns(8)) == (20, 0)


def test_it_is_told_of_those_that_are_asked_for_once_and_a_second_later() -> None:
    executed = Executed()
    executed.note(7, 5 * SECOND)
    assert executed.by_any([6, 7], 4 * SECOND, 6 * SECOND)
    assert not executed.by_any([6], 4 * SECOND, 6 * SECOND)
    assert not executed.by_any([6, 7], 6 * SECOND, 9 * SECOND)
    assert not executed.by_any([6, 7], 5 * SECOND - 1, 5 * SECOND + 1)


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
    """An object with the tables of handshakes."""

    def __init__(self) -> None:
        self.tables = {"handshakes": Table(), "excess_handshakes": Table()}
        self.sections: dict[str, Any] = {}

    def map(self, name: str, *_sizes: int) -> Table:
        return self.tables[name]

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
