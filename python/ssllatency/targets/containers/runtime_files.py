# SPDX-License-Identifier: Apache-2.0
"""The JSON files in which container runtimes keep what they know of containers, readable by root alone.

They are found by a container's ID, which a process can choose that may make cgroups. So an ID is one, and below the runtime's
folder no link is followed. What is in a file is as hostile as whoever named an image.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from ssllatency import safe_open

_LARGEST = 16 << 20
_ID = re.compile(r"[0-9a-f]{64}")


def is_id(text: str) -> bool:
    """Whether it is a container's ID as files are named after."""
    return _ID.fullmatch(text) is not None


def read_json(folder: Path, path: str) -> Any:
    """The contents of the file at a path in the folder; None where there is none that can be read."""
    try:
        handle = safe_open.handle_below(folder, path, links=False)
        with os.fdopen(safe_open.open_handle(handle, _LARGEST), "rb") as file:
            return json.loads(file.read(_LARGEST))
    except (OSError, ValueError, RecursionError):
        return None


def text_in(value: Any, *names: str) -> str:
    """The text in objects within objects by their members' names; "" where there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""
