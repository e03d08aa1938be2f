# SPDX-License-Identifier: Apache-2.0
"""The processors of this machine."""

from __future__ import annotations

from pathlib import Path

from ssllatency.host.kernel_text import kernel_text

_FOLDER = Path("/sys/devices/system/cpu")


def processors(which: str) -> list[int]:
    """Their numbers, ascending: of those that are "online", or "possible". The kernel's text is like "0-3,8"."""
    numbers: list[int] = []
    for part in kernel_text(_FOLDER / which).strip().split(","):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def tickless() -> bool:
    """Whether some of them do without a tick while a single process runs there (nohz_full): what the kernel says of that one's
    time may be a second old."""
    try:
        return any(character.isdigit() for character in kernel_text(_FOLDER / "nohz_full"))
    except OSError:
        return False
