# SPDX-License-Identifier: Apache-2.0
"""Waiting for what happens in another process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def wait_for(condition: Callable[[], Any], timeout_s: float = 30.0) -> Any:
    """What the condition says once it says something."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "it didn't happen in time"
        time.sleep(0.01)
    return found
