# SPDX-License-Identifier: Apache-2.0
"""Opting out: a process in whose environment SSLLATENCY_OFF is set gets no probe.

What counts is the environment as the kernel shows it, in /proc/PID/environ: what the process was given when it executed its
program. Who may write there can only have less done to that process. The kernel reads no mapping of a file for it, so that no
file system keeps the reader waiting.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from ssllatency.targets.processes import PROC

VARIABLE = "SSLLATENCY_OFF"
_LONGEST = (6 << 20) + (1 << 12)  # bytes: what the kernel allows for arguments and environment together
_SET = re.compile(rb"\0" + VARIABLE.encode() + rb"=(?!0?\0)")  # without a list of what may be millions of others


def has_opted_out(pid: int, proc: Path = PROC) -> bool:
    """Whether the variable is set, to anything but 0 and nothing. False where the process is gone, or may not be read: then it
    can't be traced either."""
    try:
        with (proc / str(pid) / "environ").open("rb", buffering=0) as file:
            text = b"\0" + _read(file.fileno()) + b"\0"
    except OSError:
        return False
    return _SET.search(text) is not None


def opt_out_reason(pid: int, proc: Path = PROC) -> str:
    """Return why a process that has opted out gets no probe, and who owns it, by number as this machine counts users:
    "has SSLLATENCY_OFF in its environment (user 33)"; "(user unknown)" where it is gone."""
    try:
        status = (proc / str(pid) / "status").read_text(errors="replace")
    except OSError:
        status = ""
    user = next((line.split()[1] for line in status.splitlines() if line.startswith("Uid:")), "unknown")
    return f"has {VARIABLE} in its environment (user {user})"


def _read(descriptor: int) -> bytes:
    """A page at a time is what the kernel gives."""
    parts, left = [], _LONGEST
    while left > 0 and (part := os.read(descriptor, min(left, 1 << 16))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
