# SPDX-License-Identifier: Apache-2.0
"""The end of a process that waits for what never answers, as a file system whose server is gone does.

Such a process looks for no signal, and while signals are blocked none but SIGKILL wakes it. So a thread looks whether one has
asked for the end, and whether anything has moved since. A process that is ended so leaves no report; the kernel removes its
probes.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from threading import Thread, get_native_id

from ssllatency.stopping import stop_is_asked_for

_LOOK_S, _STUCK_S = 1.0, 10.0
_SENTENCE = b"ssllatency: ended without a report: a file system doesn't answer (of a network or FUSE, its server gone?).\n"
_SWITCHES = re.compile(rb"ctxt_switches:\s*(\d+)")


def end_if_stuck() -> None:
    """From now on this process ends, with status 1, where a signal that is blocked has asked for the end, and for _STUCK_S none
    of its threads has run since."""
    Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    own, moved, since = get_native_id(), -1, 0.0
    while True:
        time.sleep(_LOOK_S)
        now, switches = time.monotonic(), _switches(own) if stop_is_asked_for() else -1
        if switches < 0 or switches != moved:
            moved, since = switches, now
        elif now - since > _STUCK_S:
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
