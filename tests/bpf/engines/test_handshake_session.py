# SPDX-License-Identifier: Apache-2.0
"""The object handshakes, loaded before anything is there to attach it to."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest

from ssllatency import abi
from ssllatency.engines.attach.sites import MOST_LIBRARIES
from ssllatency.engines.base import AttachError, Request, TracedImage
from ssllatency.engines.bpf.running import CallTable
from ssllatency.engines.rules import Rules
from ssllatency.engines.sessions import handshakes
from ssllatency.engines.sessions.handshake_request import HandshakeRequest
from ssllatency.engines.sessions.handshakes import HandshakeSession
from ssllatency.model.handshakes import Handshakes, Label
from ssllatency.probes.plan import FilePlan
from ssllatency.stacks.names import Names
from tests.fixtures.rows import fill_bucket

EMPTY = TracedImage(FilePlan("/lib/libssl.so", "", "", "libssl", (), ()), "/dev/null", ())


@contextmanager
def session_by(*by: Label) -> Iterator[HandshakeSession]:
    base = Request((), (), follow=Rules())
    made = HandshakeSession(HandshakeRequest(base, by, slowest=1, in_flight=1024))
    try:
        with patch.object(handshakes, "names_in", lambda _images: lambda _number: Names()):  # rows are of no file
            made.attach()
        yield made
    finally:
        made.close()


@pytest.fixture
def session() -> Iterator[HandshakeSession]:
    with session_by() as made:
        yield made


def test_nothing_is_there_yet(session: HandshakeSession) -> None:
    assert session.poll() == []
    handshakes = session.read().handshakes
    assert handshakes is not None
    assert (handshakes.groups, handshakes.in_flight, handshakes.offload) == ((), 0, None)


@pytest.mark.parametrize(
    ("slept", "ended", "watches"),
    [(1, 1, False), (2, 2, False), (3, 3, True), (3, 29, True), (3, 30, False), (30, 299, True)],
)
def test_reads_and_writes_are_watched_once_more_than_a_few_handshakes_slept(
    session: HandshakeSession, slept: int, ended: int, *, watches: bool
) -> None:
    """One that sleeps by chance, as for a lock, mustn't make every read dearer."""
    counters = session.attachment.object.live_section(".data.handshake_counters", abi.HandshakeCounters)
    counters.slept, counters.ended = slept, ended
    session.poll()
    assert bool(counters.watches_transport) is watches


def test_slots_of_calls_of_processes_that_have_ended_are_freed(session: HandshakeSession) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    slots = session.attachment.object.live_section("call_slots", CallTable).slots
    for number, pid in ((0, ended.pid), (9, os.getpid()), (abi.Table.STARTS - 1, ended.pid)):
        slots[number].tag = 1 << 63 | pid << abi.Tag.TGID
    session.read()
    assert [number for number, slot in enumerate(slots) if slot.tag] == [9]


def test_files_past_the_bound_are_refused_in_words(session: HandshakeSession) -> None:
    session.extend([EMPTY] * MOST_LIBRARIES)
    with pytest.raises(AttachError, match=f"there are {MOST_LIBRARIES} traced files already"):
        session.extend([EMPTY])
    assert len(session.attachment.images) == MOST_LIBRARIES


def versions(handshakes: Handshakes | None) -> dict[int, int]:
    assert handshakes is not None
    return {pid: sum(tallies.mix[Label.VERSION].values()) for pid, tallies in handshakes.by_process.items()}


def test_tallies_of_processes_that_have_ended_make_room() -> None:
    with session_by(Label.PROCESS) as session:
        mix = session.attachment.object.map("mix", ctypes.sizeof(abi.MixKey), 8)
        for number in range(64 * 16):  # those of so many rows have room beside those of all
            mix.update(abi.MixKey(tgid=7 + number % 2, label=abi.Label.VERSION, value=number), ctypes.c_uint64(1))
        for number in range(abi.TableSize.MIX):
            mix.update(abi.MixKey(tgid=0, label=abi.Label.VERSION, value=number), ctypes.c_uint64(1))
        handshakes = session.read().handshakes
        assert versions(handshakes) == {7: 512, 8: 512, 0: 1024}
        assert handshakes is not None
        assert sum(handshakes.mix[Label.VERSION].values()) == 2048
        session.forget({7})
        assert versions(session.read().handshakes) == {8: 512, 0: 1024}


class FirstRow(ctypes.Structure):
    """The first of the rows that the programs share with us."""

    _fields_ = (("row", abi.HandshakeRow),)


def test_a_value_is_looked_up_by_its_key(session: HandshakeSession) -> None:
    mix = session.attachment.object.map("mix", ctypes.sizeof(abi.MixKey), 8)
    keys = [abi.MixKey(label=abi.Label.VERSION, value=number) for number in range(300)]
    for number, key in enumerate(keys[:-1]):
        mix.update(key, ctypes.c_uint64(number))
    found = {key: int.from_bytes(value, "little") for key, value in mix.items()}
    assert found == {bytes(key): number for number, key in enumerate(keys[:-1])}
    assert {key: int.from_bytes(value, "little") for key, value in mix.views()} == found
    assert [mix.lookup(bytes(key)) for key in keys[-2:]] == [(298).to_bytes(8, "little"), None]


def test_a_row_of_a_process_that_has_ended_is_emptied_for_others() -> None:
    with session_by(Label.PROCESS) as session:
        loaded = session.attachment.object
        rows, first = loaded.map("rows", ctypes.sizeof(abi.Labels), 4), loaded.live_section("row_counts", FirstRow)
        for pid, number in ((7, 5), (8, 3)):
            key = abi.Labels(known=1 << abi.Label.PROCESS)
            key.values[abi.Label.PROCESS] = pid
            rows.update(key, ctypes.c_uint32(0))
            for part in (abi.Part.WALL, abi.Part.CALLS, abi.Part.REST):
                fill_bucket(first.row.parts[part], 100, number)
                first.row.parts[part].total_ns = number * 10
            first.row.changes = 1
            for _ in range(2):
                handshakes = session.read().handshakes
                assert handshakes is not None
                assert [(group.count, group.adds_up) for group in handshakes.groups] == [(number, True)]
            session.forget({pid})
            assert bytes(first) == bytes(ctypes.sizeof(first))
            handshakes = session.read().handshakes
            assert handshakes is not None
            assert handshakes.groups == ()


def test_without_processes_tallies_are_of_all(session: HandshakeSession) -> None:
    mix = session.attachment.object.map("mix", ctypes.sizeof(abi.MixKey), 8)
    mix.update(abi.MixKey(label=abi.Label.VERSION, value=0x304), ctypes.c_uint64(3))
    handshakes = session.read().handshakes
    assert handshakes is not None
    assert (handshakes.by_process, handshakes.mix) == ({}, {Label.VERSION: {"TLSv1.3": 3}})
