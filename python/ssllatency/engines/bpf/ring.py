# SPDX-License-Identifier: Apache-2.0
"""A BPF ring buffer read in batches: no call for each record, as libbpf's ring_buffer__consume makes.

All records of one ring have the same size, so that a batch is an array: `struct.Struct("<8x…").iter_unpack(batch)` reads it,
where the 8 bytes are the kernel's header of each record. The kernel maps the data twice in a row, so a batch is in one piece
wherever it begins. Records, their headers and the ring's positions are read and written in the order that their writer expects.

    ring = Ring(loaded.map_fd("events"), size, ctypes.sizeof(abi.Event))
    while ring.wait(0.05) …: for batch in iter(ring.read, b""): …
"""

from __future__ import annotations

import ctypes
import mmap
import select
from collections.abc import Iterator
from typing import TypeVar

from ssllatency.engines.bpf.ordering import keep_order
from ssllatency.errors import SsllatencyError

HEADER = 8
BUSY, DISCARDED = 1 << 31, 1 << 30
_MOST = 1 << 20  # bytes taken at once: the kernel has their room again after so many
_POSITION = 1 << 64

Record = TypeVar("Record", bound=ctypes.Structure)


def ring_size(wanted: int) -> int:
    """The smallest size that the kernel takes and that isn't below `wanted` bytes: a power of two, of whole pages."""
    return max(mmap.PAGESIZE, 1 << (wanted - 1).bit_length())


def stride_of(record: int) -> int:
    """The room that a record of so many bytes takes in the ring, header and padding included."""
    return HEADER + (record + 7) // 8 * 8


def whole_records(region: memoryview, record: int) -> tuple[int, bytes]:
    """Return how many bytes of `region` can be given back to the kernel, and the records in them, headers included.

    The records end before the first that a program is still writing; those that a program discarded are left out.
    """
    stride = stride_of(record)
    words = region[: len(region) // stride * stride].cast("I")[:: stride // 4].tolist()
    keep_order()  # a record is whole once its header says so
    if words.count(record) == len(words):
        return len(words) * stride, bytes(region[: len(words) * stride])
    busy = next((number for number, word in enumerate(words) if word & BUSY), len(words))
    if any(word & ~DISCARDED != record for word in words[:busy]):
        raise SsllatencyError("the kernel's ring buffer holds records of another size: build it again (make clean all).")
    kept = (number * stride for number, word in enumerate(words[:busy]) if not word & DISCARDED)
    return busy * stride, b"".join(bytes(region[start : start + stride]) for start in kept)


class Ring:
    """The reader's side of a ring buffer map of `size` bytes (a power of two, whole pages) with records of `record` bytes.

    One reader a ring. A context manager.
    """

    def __init__(self, map_fd: int, size: int, record: int) -> None:
        self._size, self._record = size, record
        self._own = mmap.mmap(map_fd, mmap.PAGESIZE)
        self._shared = mmap.mmap(map_fd, mmap.PAGESIZE + 2 * size, prot=mmap.PROT_READ, offset=mmap.PAGESIZE)
        self._consumed = memoryview(self._own).cast("Q")
        self._produced = memoryview(self._shared)[: mmap.PAGESIZE].cast("Q")
        self._data = memoryview(self._shared)[mmap.PAGESIZE :]
        self._poll = select.epoll()
        self._poll.register(map_fd, select.EPOLLIN | select.EPOLLET)

    def __enter__(self) -> Ring:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def waiting(self) -> int:
        """Return how many bytes the programs have put in that weren't read yet."""
        return int(self._produced[0] - self._consumed[0]) % _POSITION

    def wait(self, timeout_s: float) -> bool:
        """Waits for a wake-up that a program sends, at most so long; whether one came. Records need no wake-up to be read."""
        return bool(self._poll.poll(timeout_s))

    def fileno(self) -> int:
        """The descriptor that can be read when there is a wake-up for `wait`, for select()."""
        return self._poll.fileno()

    def read(self, most: int = _MOST) -> bytes:
        """The next records, each with its header; b"" where there is none. At most about so many bytes, a megabyte."""
        position, waiting = self._consumed[0], self.waiting()
        keep_order()
        start = position % self._size
        used, records = whole_records(self._data[start : start + min(waiting, most)], self._record)
        keep_order()  # the writer may take the room from now on
        self._consumed[0] = (position + used) % _POSITION
        return records

    def records(self, kind: type[Record]) -> Iterator[Record]:
        """All that wait in the ring now, as structures of its records' size: convenient where they are few. Those that come
        while these are taken wait for the next time, however fast they come."""
        stride, left = stride_of(self._record), self.waiting()
        while left > 0 and (batch := self.read()):
            left -= len(batch)
            for start in range(0, len(batch), stride):
                yield kind.from_buffer_copy(batch, start + HEADER)

    def close(self) -> None:
        """Unmaps the ring; may be called twice."""
        if not self._own.closed:
            self._poll.close()
            for view in (self._consumed, self._produced, self._data):
                view.release()
            self._own.close()
            self._shared.close()
