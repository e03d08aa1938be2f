# SPDX-License-Identifier: Apache-2.0
"""Reads JSON that somebody else may have written, unless what Python makes of it would take too much memory: of 24 MiB of empty
lists and objects that is two gigabytes."""

from __future__ import annotations

import json
from typing import Any

from ssllatency.errors import SsllatencyError

MOST_BYTES = 1 << 30  # of what is parsed at once
# What a character of the text stands for at most, in bytes, in CPython on a 64-bit machine: an empty list or object and where
# that is kept, a value of a list, a member of an object, half a string.
_BYTES = {"[": 96, "{": 72, ",": 42, ":": 130, '"': 30}


def parsed(text: str) -> Any:
    """The value. ValueError or RecursionError where the text is no JSON, SsllatencyError where it would take more
    than MOST_BYTES of memory."""
    if most_bytes(text) > MOST_BYTES:
        raise SsllatencyError(f"This would take more than {MOST_BYTES >> 30} GiB of memory to read: it isn't read.")
    return json.loads(text)


def most_bytes(text: str) -> int:
    """Return how much memory that takes at most."""
    characters = len(text) * (1 if text.isascii() else 4)
    return characters + sum(text.count(character) * size for character, size in _BYTES.items())
