# SPDX-License-Identifier: Apache-2.0
"""The code of a file as a process runs it: whether a breakpoint is there, and whether it is still the file's.

A process that has written to its code (a debugger, a patcher of running programs, a detour) has pages of its own in place of
the file's. The kernel sets breakpoints by offsets in the file, and at a hit executes the file's instruction: where the process
has another one there, that kills it. And where code is mapped writable or shared, the kernel sets no breakpoint at all.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from ssllatency.c_library import c_library
from ssllatency.targets.identity import MappedFile, Numbers
from ssllatency.targets.maps import as_written, shown_path
from ssllatency.targets.processes import PROC

_EXECUTABLE = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) (..x.) ([0-9a-f]+) ([0-9a-f]+):([0-9a-f]+) ([0-9]+) +(/.*)$", re.MULTILINE)
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MOST_MAPPINGS = 64  # of one file in one process, whose code is looked at
# /proc/PID/pagemap: a page is in memory, is in swap, is the file's own.
_PRESENT, _SWAPPED, _OF_FILE = 1 << 63, 1 << 62, 1 << 61

Range = tuple[int, int]  # [start, end), by offsets in the file
Read = Callable[[int, int], bytes]  # so many bytes from there


class CodeState(Enum):
    """The state of the code that a process runs of a file, compared with the file's.

    CHANGED: other instructions, so that a breakpoint could kill the process. UNPROBED: it is mapped so that the kernel sets no
    breakpoint. OFF: its owner wants none, whatever its code. Breakpoints that are there, ours or another tracer's, are no
    change.
    """

    SAME = "same"
    UNPROBED = "unprobed"
    CHANGED = "changed"
    OFF = "off"


class _Place(NamedTuple):
    """A mapping of the file as code: its addresses, and the offset in the file at which it begins."""

    start: int
    end: int
    begin: int
    flags: bytes


def code_byte(pid: int, file: MappedFile, offset: int, proc: Path = PROC) -> int | None:
    """The byte that process `pid` runs at `offset` of the file; None where it doesn't map that place, or may not be read."""
    try:
        address = _address((proc / str(pid) / "maps").read_bytes(), file, offset)
        if address is None:
            return None
        with (proc / str(pid) / "mem").open("rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(1)[0]
    except (OSError, IndexError):
        return None


def code_state(
    pid: int, maps: bytes, numbers: Numbers, path: str, ranges: Sequence[Range], content: Read, proc: Path = PROC
) -> CodeState | None:
    """The state of these ranges of a file in process `pid`, whose maps are given; None where it doesn't map the file as code.

    The file is known by its numbers in maps, and where these don't tell by its inode number and its name. `content(offset,
    size)` is what the file has. Only pages of the process's own are read, where it may be seen which those are: no read waits
    for a file system.
    """
    if b" %d " % numbers[2] not in maps:
        return None
    name = as_written(path).rpartition(b"/")[2]
    places = [_place(match) for match in _EXECUTABLE.finditer(maps) if _is_of(match, numbers, name)]
    if not places:
        return None
    if len(places) > _MOST_MAPPINGS or any(_is_changed(pid, place, ranges, content, proc) for place in places):
        return CodeState.CHANGED
    return CodeState.UNPROBED if any(b"w" in place.flags or b"s" in place.flags for place in places) else CodeState.SAME


def _place(match: re.Match[bytes]) -> _Place:
    start, end, begin = (int(match[number], 16) for number in (1, 2, 4))
    return _Place(start, end, begin, match[3])


def _is_of(match: re.Match[bytes], numbers: Numbers, name: bytes) -> bool:
    """Layers of an overlay and subvolumes have other devices."""
    if int(match[7]) != numbers[2]:
        return False
    return (int(match[5], 16), int(match[6], 16)) == numbers[:2] or match[8].rpartition(b"/")[2].startswith(name)


def _is_changed(pid: int, place: _Place, ranges: Sequence[Range], content: Read, proc: Path) -> bool:
    limit = place.begin + place.end - place.start
    inside = [(max(start, place.begin), min(end, limit)) for start, end in ranges if start < limit and end > place.begin]
    for start, end in _own_parts(pid, place, inside, proc):
        if not is_only_probed(
            _read_memory(pid, place.start + start - place.begin, end - start, proc), content(start, end - start)
        ):
            return True
    return False


def _own_parts(pid: int, place: _Place, ranges: Sequence[Range], proc: Path) -> Iterator[Range]:
    """The parts of the ranges that lie in pages of the process's own; all where that can't be seen."""
    if not ranges:
        return
    first = min(start for start, _ in ranges) // _PAGE
    last = (max(end for _, end in ranges) - 1) // _PAGE
    pages = (place.start - place.begin) // _PAGE
    try:
        with (proc / str(pid) / "pagemap").open("rb", buffering=0) as file:
            entries = os.pread(file.fileno(), 8 * (last - first + 1), 8 * (pages + first))
    except OSError:
        yield from ranges
        return
    own = {first + number for number, (entry,) in enumerate(struct.iter_unpack("=Q", entries)) if _is_own(entry)}
    for start, end in ranges if own else ():
        at = start
        while at < end:
            until = min(end, (at // _PAGE + 1) * _PAGE)
            while until < end and (until // _PAGE in own) == (at // _PAGE in own):
                until = min(end, until + _PAGE)
            if at // _PAGE in own:
                yield at, until
            at = until


def _is_own(entry: int) -> bool:
    return bool(entry & (_PRESENT | _SWAPPED)) and not entry & _OF_FILE


def _read_memory(pid: int, address: int, size: int, proc: Path) -> bytes:
    """Of a process's memory; b"" where it can't be read. Without the right to open its `mem` by a call that asks for less."""
    with suppress(OSError, OverflowError), (proc / str(pid) / "mem").open("rb", buffering=0) as memory:
        return os.pread(memory.fileno(), size, address)
    buffer = ctypes.create_string_buffer(size)
    ours = struct.pack("=QQ", ctypes.addressof(buffer), size)
    read = c_library().process_vm_readv(pid, ours, 1, struct.pack("=QQ", address, size), 1, 0)
    return buffer.raw[: max(0, read)]


def is_only_probed(own: bytes, content: bytes, machine: str = os.uname().machine) -> bool:
    """Whether what a process has of some code is what the file has, but for breakpoints."""
    if own == content:
        return True
    if len(own) != len(content):
        return False
    return _fixed(own, content) if machine == "aarch64" else _variable(own, content)


def _fixed(own: bytes, content: bytes) -> bool:
    """Instructions of four bytes: brk with any number."""
    words = zip(struct.iter_unpack("<I", own[: len(own) & ~3]), struct.iter_unpack("<I", content[: len(own) & ~3]), strict=True)
    return own[len(own) & ~3 :] == content[len(own) & ~3 :] and all(
        mine == theirs or mine & 0xFFE0001F == 0xD4200000 for (mine,), (theirs,) in words
    )


# What the kernel makes of a long nop under a probe: a call, since Linux 6.18, and later one that leaves the red zone alone.
_NOPS = (
    (bytes.fromhex("0f1f440000"), (b"\xe8", b"\xcc")),
    (bytes.fromhex("662e0f1f840000000000"), (bytes.fromhex("488d642480e8"), b"\xcc")),
)


def _variable(own: bytes, content: bytes) -> bool:
    at = 0
    while at < len(own):
        if own[at] == content[at]:
            at += 1
        elif (nop := _probed_nop(own, content, at)) or own[at] == 0xCC:
            at += nop or 1
        else:
            return False
    return True


def _probed_nop(own: bytes, content: bytes, at: int) -> int:
    """The length of the nop there that has become a call; 0 where there is none."""
    for nop, becomes in _NOPS:
        if content.startswith(nop, at) and own.startswith(becomes, at):
            return len(nop)
    return 0


def _address(maps: bytes, file: MappedFile, offset: int) -> int | None:
    """The address at which that place of the file is mapped. Of several files with its numbers it is the one that is called the
    same."""
    shown = shown_path(file)
    places: dict[bool, int] = {}
    for match in _EXECUTABLE.finditer(maps):
        place = _place(match)
        numbers = int(match[5], 16), int(match[6], 16), int(match[7])
        if numbers == file.numbers and place.begin <= offset < place.begin + place.end - place.start:
            places.setdefault(match[8] == shown, place.start + offset - place.begin)
    return places.get(True, places.get(False))
