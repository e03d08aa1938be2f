# SPDX-License-Identifier: Apache-2.0
"""The order in which this process reads and writes memory that the kernel writes at the same time."""

from __future__ import annotations

import threading

_lock = threading.Lock()


def keep_order() -> None:
    """Keep reads before the call before reads and writes after it. x86-64 keeps that order by itself, aarch64
    doesn't.

    Python has no fence, but its locks are ones: what precedes the release of a lock is done before it is taken again, and what
    follows that isn't begun.
    """
    with _lock:
        pass
    with _lock:
        pass
