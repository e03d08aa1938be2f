# SPDX-License-Identifier: Apache-2.0
"""Alerts as labels' values: those that nobody has assigned are one, whatever number a peer sends."""

from __future__ import annotations

from functools import lru_cache

# IANA's registry "TLS Alerts"; RFC 8446, section 6, and earlier versions of TLS.
_ASSIGNED = {0, 10, 20, 21, 22, 30, *range(40, 53), 60, 70, 71, 80, 86, 90, 100, *range(109, 118), 120, 121}
_NUMBERED = "alert "


@lru_cache(maxsize=1024)
def of_assigned(words: str) -> str:
    """Return the words for an alert or a reason, as they are but for an alert that is told by a number that isn't assigned."""
    number = words.removeprefix(_NUMBERED)
    if number == words or not (number.isascii() and number.isdecimal()) or int(number[:9]) in _ASSIGNED:
        return words
    return "unassigned alert"
