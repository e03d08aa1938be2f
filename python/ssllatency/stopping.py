# SPDX-License-Identifier: Apache-2.0
"""The signals that ask for a run's end. They are blocked while one starts and ends, so that none leaves a probe half attached:
who may stop asks whether one has come."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Collection
from functools import cache

STOP = frozenset({signal.SIGINT, signal.SIGTERM})


def stop_is_asked_for() -> bool:
    """Whether one of the signals has come while they are blocked."""
    return bool(signal.sigpending() & STOP)


def end_if_asked() -> None:
    """KeyboardInterrupt where one has: to be called where nothing is half done."""
    if stop_is_asked_for():
        raise KeyboardInterrupt


def wait_for(descriptors: Collection[int], timeout_s: float) -> set[int]:
    """Waits until some of them can be read, until one of the signals has come while they are blocked, or so long; which can."""
    signals = _signals()
    return readable([*descriptors, *([] if signals is None else [signals])], timeout_s) & set(descriptors)


def readable(descriptors: Collection[int], timeout_s: float) -> set[int]:
    """Waits until some of them can be read, or so long; which can."""
    poll = select.poll()  # select() knows no descriptors from 1024 on
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(timeout_s * 1000)}


@cache
def _signals() -> int | None:
    """A descriptor that can be read as long as one of the signals waits, and would take it; None where there can be none."""
    import ctypes  # not before the fork server has been started

    wanted = sum(1 << (number - 1) for number in STOP).to_bytes(128, "little")  # a sigset_t
    descriptor: int = ctypes.CDLL(None).signalfd(-1, wanted, os.O_CLOEXEC | os.O_NONBLOCK)
    return descriptor if descriptor >= 0 else None
