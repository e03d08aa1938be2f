# SPDX-License-Identifier: Apache-2.0
"""Work that is done in several processes at once, for what it leaves on disk."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from contextlib import suppress

_MOST_TASKS, _MOST_PROCESSES = 256, 8


def side_by_side(tasks: Sequence[Callable[[], object]], meanwhile: Callable[[], object] = lambda: None) -> None:
    """Runs the tasks, begun in their order, in this process and in one more for each further processor; returns once all ended.

    What they return is lost, and so is an error: they are asked again for what they failed to leave on disk. 256 at most.
    `meanwhile` is run in this process once no task waits any more; the first task, which should be the longest, is another's.
    Python's collector rests: looking through what the processes share, it would have each of them copy it.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        _run(tasks, meanwhile)
    finally:
        if collects:
            gc.enable()


def _run(tasks: Sequence[Callable[[], object]], meanwhile: Callable[[], object]) -> None:
    waiting, filled = os.pipe()
    os.write(filled, bytes(range(min(len(tasks), _MOST_TASKS))))
    os.close(filled)
    first, children = os.read(waiting, 1), []
    try:
        for _ in range(min(len(tasks), len(os.sched_getaffinity(0)), _MOST_PROCESSES) - 1):
            with suppress(OSError):  # no more processes are allowed: fewer do it
                children.append(_child(first, waiting, tasks))
                first = b""
        _take(first, waiting, tasks)
        meanwhile()
    finally:
        os.close(waiting)
        for pid in children:
            os.waitpid(pid, 0)


def _child(first: bytes, waiting: int, tasks: Sequence[Callable[[], object]]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            _take(first, waiting, tasks)
        finally:
            os._exit(0)
    return pid


def _take(first: bytes, waiting: int, tasks: Sequence[Callable[[], object]]) -> None:
    """Runs the first one, if any, then others until none is waiting: their numbers, a byte each, lie in a pipe from which each
    can be taken once."""
    number = first or os.read(waiting, 1)
    while number:
        with suppress(Exception):
            tasks[number[0]]()
        number = os.read(waiting, 1)
