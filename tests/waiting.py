# SPDX-License-Identifier: Apache-2.0
"""Waiting for what happens in another process, and doing something meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def wait_for(condition: Callable[[], Any], timeout_s: float = 30.0) -> Any:
    """What the condition says once it says something."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "it didn't happen in time"
        time.sleep(0.01)
    return found


@contextmanager
def meanwhile(act: Callable[[], object], pause_s: float) -> Iterator[None]:
    """Within the block something is done in another thread, again and again with a pause in between, each time to its end."""
    over = threading.Event()

    def go_on() -> None:
        while not over.is_set():
            act()
            over.wait(pause_s)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
