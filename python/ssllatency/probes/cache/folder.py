# SPDX-License-Identifier: Apache-2.0
"""The folder of the cache. This brings in nothing else, as it is looked into before the command line is read."""

from __future__ import annotations

import os
from contextlib import suppress

ENTRY_SUFFIX = ".json"
PLANS_SUFFIX = f".plans{ENTRY_SUFFIX}"  # of an entry about a file that was planned


def directory_path() -> str:
    """$XDG_CACHE_HOME/ssllatency, or ~/.cache/ssllatency."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    return f"{home if home.startswith('/') else os.path.expanduser('~/.cache')}/ssllatency"  # noqa: PTH111


def has_plans(directory: str | os.PathLike[str]) -> bool:
    """Whether there are findings about any file."""
    with suppress(OSError):
        return any(name.endswith(PLANS_SUFFIX) for name in os.listdir(directory))  # noqa: PTH208
    return False
