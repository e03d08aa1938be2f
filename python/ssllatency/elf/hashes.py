# SPDX-License-Identifier: Apache-2.0
"""The two hash tables of dynamic symbols, GNU's (DT_GNU_HASH) and System V's (DT_HASH), read one look-up at a time.

A look-up yields the indices of symbols whose hash fits; the caller compares the names. Chains have a cap, because a damaged
table can be a loop.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ssllatency.elf.memory import Memory

MAX_CHAIN = 4096


def gnu_hash(name: bytes) -> int:
    """The hash function of DT_GNU_HASH."""
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


def sysv_hash(name: bytes) -> int:
    """The hash function of DT_HASH, from the System V ABI."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        value = (value ^ (value >> 24 & 0xF0)) & 0x0FFFFFFF
    return value


def gnu_candidates(memory: Memory, table: int, name: bytes) -> Iterator[int]:
    """Indices of dynamic symbols that may be `name`, by the DT_GNU_HASH table at the address `table`."""
    buckets, first, bloom_size, shift = struct.unpack("<4I", memory.read(table, 16))
    if not buckets or not bloom_size:
        return
    value = gnu_hash(name)
    bloom = memory.word(table + 16 + value // 64 % bloom_size * 8)
    if not bloom >> value % 64 & bloom >> (value >> shift % 32) % 64 & 1:
        return
    bucket_table = table + 16 + bloom_size * 8
    index = memory.half(bucket_table + value % buckets * 4)
    if index < first:
        return
    chain = bucket_table + buckets * 4 + (index - first) * 4
    for step in range(MAX_CHAIN):
        entry = memory.half(chain + step * 4)
        if entry | 1 == value | 1:
            yield index + step
        if entry & 1:
            return


def sysv_candidates(memory: Memory, table: int, name: bytes) -> Iterator[int]:
    """Indices of dynamic symbols that may be `name`, by the DT_HASH table at the address `table`."""
    buckets, symbols = struct.unpack("<2I", memory.read(table, 8))
    if not buckets:
        return
    index = memory.half(table + 8 + sysv_hash(name) % buckets * 4)
    for _ in range(MAX_CHAIN):
        if not 0 < index < symbols:
            return
        yield index
        index = memory.half(table + 8 + (buckets + index) * 4)
