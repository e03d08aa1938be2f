# SPDX-License-Identifier: Apache-2.0
"""The end of a process that waits for what never answers, as a file system whose server is gone does.

Such a process looks for no signal, and while signals are blocked none but SIGKILL wakes it. So a thread looks whether one has
asked for the end, and whether anything has moved since. It counts its looks, not the time: a process that was stopped, or whose
whole machine was, has slept for long and waits for nobody. A process that is ended so leaves no report; the kernel removes its
probes.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from contextlib import suppress
from threading import Thread, get_native_id

from ssllatency.stopping import stop_is_asked_for

_LOOK_S, _STUCK_LOOKS = 1.0, 30  # removing a probe, too, may take the kernel seconds where much else is removed
_SENTENCE = (
    b"ssllatency: ended without a report: a file system (of a network or FUSE, its server gone?) or the kernel hasn't answered "
    b"for 30 s.\n"
)
_SWITCHES = re.compile(rb"ctxt_switches:\s*(\d+)")


def end_if_stuck() -> None:
    """From now on this process ends, with status 1, where a signal that is blocked has asked for the end, and none of its
    threads has run in _STUCK_LOOKS looks since."""
    Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    own, before, looks = get_native_id(), -1, itertools.count()
    while next(looks) < _STUCK_LOOKS:
        time.sleep(_LOOK_S)
        switches = _switches(own) if stop_is_asked_for() else -1
        if switches < 0 or switches != before:
            before, looks = switches, itertools.count()
    os.write(2, _SENTENCE)
    os._exit(1)


def _switches(own: int) -> int:
    """Return how often the other threads have been given a processor."""
    number = 0
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208
        if int(thread) != own:
            with suppress(OSError), open(f"/proc/self/task/{thread}/status", "rb") as status:  # noqa: PTH123
                number += sum(map(int, _SWITCHES.findall(status.read())))
    return number
