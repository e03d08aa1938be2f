# SPDX-License-Identifier: Apache-2.0
"""The processes that are this command: its own, and those that it has started to do its work. They are targets only if they are
named, and aren't among the others who pay for probes."""

from __future__ import annotations

import os

helpers: set[int] = set()  # the PIDs of those that were started


def own_pids() -> set[int]:
    """The PIDs of all of them."""
    return {os.getpid(), *helpers}
