# SPDX-License-Identifier: Apache-2.0
"""Records out of the bytes of a ring buffer."""

from __future__ import annotations

import struct

import pytest

from ssllatency.engines.bpf.ring import BUSY, DISCARDED, stride_of, whole_records
from ssllatency.errors import SsllatencyError

RECORD = 12


def record(number: int, flags: int = 0, size: int = RECORD) -> bytes:
    """A record as the kernel lays it out: length and flags, the page's number, the record, padding."""
    return struct.pack("<IIQI4x", size | flags, 7, number, number)


def numbers(records: bytes) -> list[int]:
    return [number for number, _ in struct.iter_unpack("<8xQI4x", records)]


@pytest.mark.parametrize(("size", "stride"), [(1, 16), (8, 16), (9, 24), (12, 24), (64, 72)])
def test_a_record_takes_its_header_and_whole_words(size: int, stride: int) -> None:
    assert stride_of(size) == stride


def test_all_of_them() -> None:
    region = b"".join(map(record, range(100)))
    assert whole_records(memoryview(region), RECORD) == (len(region), region)
    assert whole_records(memoryview(b""), RECORD) == (0, b"")


def test_a_piece_of_a_record_is_left_for_the_next_time() -> None:
    region = record(1) + record(2) + record(3)[:-4]
    assert whole_records(memoryview(region), RECORD) == (2 * stride_of(RECORD), record(1) + record(2))


def test_they_end_before_one_that_is_being_written() -> None:
    region = record(0) + record(1) + record(2, BUSY) + record(3)
    used, records = whole_records(memoryview(region), RECORD)
    assert used == 2 * stride_of(RECORD)
    assert numbers(records) == [0, 1]


def test_a_discarded_one_is_used_up_and_not_returned() -> None:
    region = record(0, DISCARDED) + record(1) + record(2, DISCARDED) + record(3, BUSY | DISCARDED)
    used, records = whole_records(memoryview(region), RECORD)
    assert used == 3 * stride_of(RECORD)
    assert numbers(records) == [1]


def test_records_of_another_size_are_refused() -> None:
    with pytest.raises(SsllatencyError, match="another size"):
        whole_records(memoryview(record(0) + record(1, size=RECORD + 8)), RECORD)
