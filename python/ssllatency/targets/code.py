# SPDX-License-Identifier: Apache-2.0
"""One byte of the code that a process has mapped, to tell whether a breakpoint is there."""

from __future__ import annotations

import re
from pathlib import Path

from ssllatency.targets.identity import MappedFile
from ssllatency.targets.maps import shown_path
from ssllatency.targets.processes import PROC

_EXECUTABLE = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) ..x. ([0-9a-f]+) ([0-9a-f]+):([0-9a-f]+) ([0-9]+) +(/.*)$", re.MULTILINE)


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


def _address(maps: bytes, file: MappedFile, offset: int) -> int | None:
    """Where that place of the file is mapped. Of several files with its numbers it is the one that is called the same."""
    shown = shown_path(file)
    places: dict[bool, int] = {}
    for match in _EXECUTABLE.finditer(maps):
        start, end, begin, major, minor = (int(field, 16) for field in match.groups()[:5])
        if (major, minor, int(match[6])) == file.numbers and begin <= offset < begin + end - start:
            places.setdefault(match[7] == shown, start + offset - begin)
    return places.get(True, places.get(False))
