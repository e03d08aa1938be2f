# SPDX-License-Identifier: Apache-2.0
"""Relocation tables as bytes: RELR bitmaps and Android's packed entries, good and hostile ones."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssllatency.elf.hashes import gnu_hash, sysv_hash
from ssllatency.elf.relocations import packed_entries, rela_entries, relr_addresses
from ssllatency.elf.source import ElfError

ENTRIES = [(0x1000, 8, 0x500), (0x1008, 8, 0x40), (0x1010, 8, 0x7000), (0x2000, 5 << 32 | 1, 0), (0x2040, 7 << 32 | 6, 0)]


def sleb(value: int) -> bytes:
    data = b""
    while True:
        low, value = value & 0x7F, value >> 7
        if value == (-1 if low & 0x40 else 0):
            return data + bytes([low])
        data += bytes([low | 0x80])


def packed(numbers: list[int]) -> bytes:
    return b"APS2" + b"".join(map(sleb, numbers))


def relr(addresses: set[int]) -> bytes:
    """The obvious encoding, written down independently: one bitmap for each 63 words after an address."""
    words: list[int] = []
    left = sorted(addresses)
    while left:
        base = left.pop(0)
        words.append(base)
        base += 8
        while left and left[0] < base + 63 * 8:
            bits = [each for each in left if each < base + 63 * 8]
            left = left[len(bits) :]
            words.append(1 | sum(1 << (each - base) // 8 + 1 for each in bits))
            base += 63 * 8
    return struct.pack(f"<{len(words)}Q", *words)


@given(st.sets(st.integers(0, 4000).map(lambda word: 0x10000 + 8 * word)))
def test_relr_addresses_are_those_encoded(addresses: set[int]) -> None:
    assert relr_addresses(relr(addresses)) == sorted(addresses)


def test_relr_bomb_is_refused() -> None:
    with pytest.raises(ElfError, match="relocations"):
        relr_addresses(b"\xff" * 8 * 100_000)


def test_rela_leaves_out_a_cut_entry() -> None:
    table = b"".join(struct.pack("<QQQ", *each) for each in ENTRIES)
    assert list(rela_entries(table + b"\1" * 23)) == ENTRIES


def test_packed_entries_one_by_one() -> None:
    numbers, offset, addend = [len(ENTRIES), 0x800, len(ENTRIES), 8], 0x800, 0
    for entry in ENTRIES:
        numbers += [entry[0] - offset, entry[1], entry[2] - addend]
        offset, addend = entry[0], entry[2]
    assert list(packed_entries(packed(numbers))) == ENTRIES


def test_packed_groups_share_distance_info_and_addend() -> None:
    numbers = [5, 0x1000, 3, 1 | 2 | 4 | 8, 16, 8, 0x300, 2, 1, 5 << 32 | 1, 0x100, 0x200]
    relative = [(0x1000 + 16 * step, 8, 0x300) for step in (1, 2, 3)]
    symbolic = [(0x1130, 5 << 32 | 1, 0), (0x1330, 5 << 32 | 1, 0)]
    assert list(packed_entries(packed(numbers))) == relative + symbolic


@pytest.mark.parametrize(
    "table",
    [
        packed([3_000_000, 0, 3_000_000, 1 | 2, 8, 8]),
        packed([5, 0, 6, 1 | 2, 8, 8]),
        packed([5, 0, 0, 1 | 2, 8, 8]),
        packed([5, 0, -1, 1 | 2, 8, 8]),
        packed([5, 0, 5, 0, 8]),
        b"APS2",
        b"APS2" + b"\xff" * 64,
    ],
)
def test_damaged_packed_entries_are_refused(table: bytes) -> None:
    with pytest.raises(ElfError):
        list(packed_entries(table))


def test_other_tables_are_no_packed_entries() -> None:
    assert list(packed_entries(b"APS1\1\1\1")) == []


@pytest.mark.parametrize(
    ("name", "gnu", "sysv"),
    [
        (b"", 0x1505, 0),
        (b"printf", 0x156B2BB8, 0x077905A6),
        (b"exit", 0x7C967E3F, 0x0006CF04),
        (b"syscall", 0xBAC212A0, 0x0B09985C),
    ],
)
def test_hash_functions_give_published_values(name: bytes, gnu: int, sysv: int) -> None:
    assert gnu_hash(name) == gnu
    assert sysv_hash(name) == sysv
