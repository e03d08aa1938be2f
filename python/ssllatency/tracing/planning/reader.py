# SPDX-License-Identifier: Apache-2.0
"""The process that reads one file and plans it: bounded in time and memory, and able to do nothing but answer once it parses
what strangers wrote (confinement.py).

It says each part of what it has to find out as soon as it has it, in lines of JSON. First what it read of the file, before any
of it is parsed; then the file's origin; then each part's values, or the sentence that says why there are none.
"""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Collection
from dataclasses import asdict
from importlib import import_module
from typing import Any, NoReturn

from ssllatency.errors import SsllatencyError
from ssllatency.probes.cache.kept import FileWork
from ssllatency.probes.cache.parts import PARTS, FilePart
from ssllatency.probes.cache.store import planning_modules
from ssllatency.stacks.registry import STACKS
from ssllatency.tracing.planning.confinement import confine, limit, tie

# Of processor time a file gets: so many seconds for each part, and one more for so many bytes of the file.
_SECONDS, _BYTES_A_SECOND = 20, 5 << 20
_LEAST_PARTS = 2  # of so many it gets the time: the file is parsed first, whatever the part
_SECONDS_UNINTERRUPTIBLE = 10  # the same where no signal ends it


def processor_seconds(work: FileWork, stored: int, *, interruptible: bool) -> int:
    """The processor time that reading a file gets which has so many bytes beside its holes."""
    if not interruptible:
        return _SECONDS_UNINTERRUPTIBLE
    return _SECONDS * max(_LEAST_PARTS, len(work.parts)) + stored // _BYTES_A_SECOND


def prepare(parts: Collection[FilePart[Any]] = PARTS) -> None:
    """Brings in what makes these parts: later a process that reads may open no file."""
    unasked = [part for part in PARTS if part not in parts]
    rooms = {part.room for part in unasked} | {stack.rooms.get(part.name, "") for part in unasked for stack in STACKS}
    others = tuple(f"{room}." for room in rooms if room)
    for name in planning_modules():
        if not name.startswith(others):
            import_module(name.removesuffix(".__init__"))


def be_reader(work: FileWork, sending: int, parent: int, *, interruptible: bool) -> NoReturn:
    """Does the work in this process, which was forked for it, and ends it. `sending` takes the lines.

    Python's collector rests: looking through what the processes share, it would have each of them copy it.
    """
    status = 1
    try:
        gc.disable()
        tie(parent)
        _work(work, sending, interruptible=interruptible)
        status = 0
    finally:
        os._exit(status)


def _work(work: FileWork, sending: int, *, interruptible: bool) -> None:
    label = work.subject.label
    try:
        content = work.copy()
        _say(sending, asdict(content))
        limit(processor_seconds(work, content.stored, interruptible=interruptible))
        prepare(work.parts)
        origin = work.open()
        confine(sending)
    except Exception as error:
        _say(sending, {"error": _sentence(error, label)})
        return
    _say(sending, asdict(origin))
    for part in work.parts:
        if _make(work, part, sending):
            return


def _make(work: FileWork, part: FilePart[Any], sending: int) -> bool:
    """Says one part; whether it shows that the others aren't needed."""
    try:
        made = work.make(part)
        _say(sending, {"part": part.name, "values": part.to_values(made)})
    except Exception as error:
        _say(sending, {"part": part.name, "error": _sentence(error, work.subject.label)})
        return False
    return part.suffices(made)


def _sentence(error: Exception, label: str) -> str:
    if isinstance(error, SsllatencyError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"{label} was left out: reading it took more memory than a file gets."
    return f"{label} was left out: reading it failed ({type(error).__name__}), which is a defect: please report it."


def _say(sending: int, line: dict[str, object]) -> None:
    data = memoryview(json.dumps(line).encode() + b"\n")
    while data:
        data = data[os.write(sending, data) :]
