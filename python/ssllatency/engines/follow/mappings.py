# SPDX-License-Identifier: Apache-2.0
"""Mappings of files as code, as processes make them, and programs that they execute: perf's records of mappings and of new
names, in one buffer for each processor.

Any kernel with perf events has them. The buffers are polled; a record wakes no process. The kernel counts the records for which
a buffer has no room, and `lost` gives their number: of mappings and of names alike, those that threads give themselves too.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Container
from contextlib import ExitStack
from types import TracebackType

from ssllatency.data_class import dataclass
from ssllatency.engines.bpf.executed import Executed
from ssllatency.engines.bpf.ordering import keep_order
from ssllatency.engines.bpf.perf import open_event
from ssllatency.host.processors import processors

_SOFTWARE, _DUMMY = 1, 9  # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY
_SAMPLE_TIME = 1 << 2
# Bits of perf_event_attr.
_MMAP, _COMM, _SAMPLE_ID_ALL, _MMAP2, _COMM_EXEC, _CLOCK = 1 << 8, 1 << 9, 1 << 18, 1 << 23, 1 << 24, 1 << 25
_CLOCK_MONOTONIC = 1
_ATTRIBUTE_SIZE = 96  # version 3, the first with a clock
_PAGES = 16  # of records, each some 130 bytes: room for 500 mappings between two looks
_HEAD, _TAIL = 1024, 1032  # in struct perf_event_mmap_page
_LOST, _COMM_RECORD, _MMAP2_RECORD = 2, 3, 10  # PERF_RECORD_*
_BY_EXEC = 1 << 13  # of a record of a name: it is that of the program that was executed
_HEADER = struct.Struct("<IHH")
_FIXED = struct.Struct("<II QQQ II QQ II")  # of a PERF_RECORD_MMAP2, behind the header


@dataclass(frozen=True)
class MappingNotice:
    """Process `pid` has mapped the file `path` as code, at CLOCK_MONOTONIC `at_ns`. `address_range` is as map_files names it.

    `numbers`, major, minor and inode as maps has them, and `generation`, of the inode, are hints: files of two subvolumes can
    share them. A file that gets the number of one that was deleted has another generation, but for 0, which says nothing.
    """

    pid: int
    at_ns: int
    path: str
    numbers: tuple[int, int, int]
    generation: int = 0
    address_range: str = ""


def parse_record(record: bytes) -> MappingNotice | None:
    """The mapping in a record of type PERF_RECORD_MMAP2, header included; None where it maps no file."""
    pid, _, start, size, _, major, minor, inode, generation, _, _ = _FIXED.unpack_from(record, _HEADER.size)
    path = record[_HEADER.size + _FIXED.size : -8].partition(b"\0")[0]
    if not path.startswith(b"/") or not inode:
        return None
    (at_ns,) = struct.unpack_from("<Q", record, len(record) - 8)
    return MappingNotice(pid, at_ns, os.fsdecode(path), (major, minor, inode), generation, f"{start:x}-{start + size:x}")


def parse_name(record: bytes) -> tuple[int, int]:
    """The process and the time in a record of type PERF_RECORD_COMM, header included."""
    (pid,) = struct.unpack_from("<I", record, _HEADER.size)
    (at_ns,) = struct.unpack_from("<Q", record, len(record) - 8)
    return pid, at_ns


class Mappings:
    """The records of all processors. OSError where the kernel gives none. A context manager. `executed` has the processes
    that executed another program, by the last call of `read`: the times from which on nothing of the one before ran. `targets`:
    as for Executed."""

    def __init__(self, targets: Container[int] = ()) -> None:
        self.lost = 0
        self.executed = Executed(targets)
        self._stack = ExitStack()
        self._buffers: list[mmap.mmap] = []
        try:
            for cpu in processors("online"):
                self._open(cpu)
        except BaseException:
            self._stack.close()
            raise

    def _open(self, cpu: int) -> None:
        flags = _MMAP | _MMAP2 | _COMM | _COMM_EXEC | _SAMPLE_ID_ALL | _CLOCK
        head = struct.pack("<IIQQQQQ", _SOFTWARE, _ATTRIBUTE_SIZE, _DUMMY, 0, _SAMPLE_TIME, 0, flags)
        # … wake-up, breakpoint, configuration, branches, registers, stack; then the clock's number
        attributes = head.ljust(92, b"\0") + struct.pack("<i", _CLOCK_MONOTONIC)
        descriptor = open_event(attributes, pid=-1, cpu=cpu)
        self._stack.callback(os.close, descriptor)
        size = mmap.PAGESIZE * (1 + _PAGES)
        self._buffers.append(self._stack.enter_context(mmap.mmap(descriptor, size)))

    def __enter__(self) -> Mappings:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def read(self) -> list[MappingNotice]:
        """The mappings since the last call, by processor."""
        return [mapping for buffer in self._buffers for record in self._records(buffer) if (mapping := parse_record(record))]

    def _records(self, buffer: mmap.mmap) -> list[bytes]:
        """The records of mappings that wait in a buffer; their room is the kernel's again."""
        head, tail = (ctypes.c_uint64.from_buffer(buffer, place) for place in (_HEAD, _TAIL))
        end, position = head.value, tail.value
        keep_order()
        records = []
        while position < end:
            kind, why, size = _HEADER.unpack(_piece(buffer, position, _HEADER.size))
            if kind == _MMAP2_RECORD:
                records.append(_piece(buffer, position, size))
            elif kind == _COMM_RECORD and why & _BY_EXEC:
                self.executed.note(*parse_name(_piece(buffer, position, size)))
            elif kind == _LOST:
                self.lost += struct.unpack_from("<Q", _piece(buffer, position, size), 16)[0]
            position += size
        keep_order()
        tail.value = end
        del head, tail  # they keep the buffer from being closed
        return records


def _piece(buffer: mmap.mmap, position: int, size: int) -> bytes:
    """Bytes of the ring of records, which begins behind the first page."""
    room = mmap.PAGESIZE * _PAGES
    start = position % room
    first = buffer[mmap.PAGESIZE + start : mmap.PAGESIZE + min(start + size, room)]
    return first + buffer[mmap.PAGESIZE : mmap.PAGESIZE + size - len(first)]
