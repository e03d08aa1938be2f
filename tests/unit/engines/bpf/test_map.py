# SPDX-License-Identifier: Apache-2.0
"""A map that is copied in batches, against a made-up kernel: every pair comes once and as it is, however large they are."""

from __future__ import annotations

import ctypes
import errno
from typing import Any

import pytest

from ssllatency.engines.bpf.libbpf import Map


class Kernel(Map):
    """A hash map whose buckets hold so many entries each, which are handed over bucket by bucket."""

    def __init__(self, number: int, value_size: int, bucket: int) -> None:
        super().__init__(-1, 4, value_size)
        self.pairs = [(number.to_bytes(4, "little"), bytes([number % 251 + 1]) * value_size) for number in range(1, number + 1)]
        self._bucket = bucket

    def _lookup_batch(self, *arguments: Any) -> int:
        start, position, keys, values, count = arguments
        begin = int.from_bytes(start.raw[:4], "little") if start else 0
        room = count._obj.value // self._bucket * self._bucket
        if not room:
            return -errno.ENOSPC
        found = self.pairs[begin : begin + room]
        ctypes.memmove(keys, b"".join(key for key, _ in found), 4 * len(found))
        ctypes.memmove(values, b"".join(value for _, value in found), self._value_size * len(found))
        count._obj.value = len(found)
        position[:4] = (begin + room).to_bytes(4, "little")
        return -errno.ENOENT if begin + room >= len(self.pairs) else 0


@pytest.mark.parametrize("value_size", [1, 16, 5000, 70_000])
@pytest.mark.parametrize("bucket", [1, 3, 100])
@pytest.mark.parametrize("number", [0, 1, 4, 130])
def test_all_pairs_come_once(number: int, bucket: int, value_size: int) -> None:
    kernel = Kernel(number, value_size, bucket)
    assert list(kernel.items()) == kernel.pairs
    assert [(key, bytes(value)) for key, value in kernel.views()] == kernel.pairs
