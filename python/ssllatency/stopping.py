# SPDX-License-Identifier: Apache-2.0
"""The signals that ask for a run's end. They are blocked while one starts and ends, so that none leaves a probe half attached:
who may stop asks whether one has come."""

from __future__ import annotations

import signal

STOP = frozenset({signal.SIGINT, signal.SIGTERM})


def stop_is_asked_for() -> bool:
    """Whether one of the signals has come while they are blocked."""
    return bool(signal.sigpending() & STOP)


def end_if_asked() -> None:
    """KeyboardInterrupt where one has: to be called where nothing is half done."""
    if stop_is_asked_for():
        raise KeyboardInterrupt
