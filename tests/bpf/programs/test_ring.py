# SPDX-License-Identifier: Apache-2.0
"""The ring buffer's reader on records that a program in the kernel has numbered: each once, in order, dropped ones counted."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator

import pytest

from ssllatency.engines.bpf.libbpf import BpfObject
from ssllatency.engines.bpf.ring import Ring, stride_of
from tests.bpf.compiling import compiled, run

SIZE = 4096 * 4
RECORD = 32
ROOM = SIZE // stride_of(RECORD)
NUMBERS = struct.Struct("<8xQ20xI")


class RingProbe(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("wanted", "discard_every", "next", "dropped", "wake"))


class Subject:
    """The loaded program and the ring that it writes."""

    def __init__(self, loaded: BpfObject) -> None:
        self.state = loaded.live_section(".data.probe", RingProbe)
        self.ring = Ring(loaded.map_fd("records"), SIZE, RECORD)
        self._program = loaded.program_fd("run_ring")

    def emit(self, number: int, *, wake: bool = False) -> None:
        self.state.wanted, self.state.wake = number, int(wake)
        run(self._program)

    def numbers(self) -> list[int]:
        """Those of all records that can be read now."""
        found = [pair for batch in iter(self.ring.read, b"") for pair in NUMBERS.iter_unpack(batch)]
        assert all(number & 0xFFFFFFFF == again for number, again in found)
        return [number for number, _ in found]


@pytest.fixture(scope="module")
def ring_object(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return compiled("ring_probe.bpf.c", tmp_path_factory.mktemp("bpf"))


@pytest.fixture
def subject(ring_object: bytes) -> Iterator[Subject]:
    with BpfObject(ring_object, "ring_probe") as opened:
        opened.load()
        made = Subject(opened)
        yield made
        made.ring.close()
        made.ring.close()


def test_every_record_is_read_once_and_in_order(subject: Subject) -> None:
    """Many times around the ring, with batches that end anywhere in it."""
    seen: list[int] = []
    assert subject.numbers() == []
    for number in (1, 0, ROOM, 7, ROOM - 1, *range(1, 60)):
        subject.emit(number)
        assert subject.ring.waiting() == number * stride_of(RECORD)
        seen += subject.numbers()
    assert seen == list(range(subject.state.next))
    assert len(seen) > 5 * ROOM
    assert subject.state.dropped == 0


def test_what_finds_no_room_is_dropped_and_the_rest_is_whole(subject: Subject) -> None:
    subject.emit(3)
    assert subject.numbers() == [0, 1, 2]
    subject.emit(3 * ROOM)
    read = subject.numbers()
    assert len(read) + subject.state.dropped == 3 * ROOM
    assert read == list(range(3, 3 + len(read)))
    assert ROOM - 1 <= len(read) <= ROOM
    subject.emit(2)
    assert subject.numbers() == [3 + 3 * ROOM, 4 + 3 * ROOM]


def test_discarded_records_are_left_out(subject: Subject) -> None:
    subject.state.discard_every = 3
    for number in (10, 3, 1, ROOM):
        before = subject.state.next
        subject.emit(number)
        assert subject.numbers() == [each for each in range(before, before + number) if each % 3]


def test_a_wake_up_ends_the_wait_and_nothing_else_does(subject: Subject) -> None:
    assert not subject.ring.wait(0)
    subject.emit(5)
    assert not subject.ring.wait(0.01)
    subject.emit(5, wake=True)
    assert subject.ring.wait(10)
    assert subject.numbers() == list(range(10))
    assert not subject.ring.wait(0)
