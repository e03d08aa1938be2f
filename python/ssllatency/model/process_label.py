# SPDX-License-Identifier: Apache-2.0
"""The value of the label process, "nginx(17)": here alone it is put together and taken apart. That of what ended processes of a
service have counted is "ended: nginx.service": without a PID, which none has."""

from __future__ import annotations

_ENDED = "ended: "
_MOST_DIGITS = 10  # more than any PID has: int() refuses thousands of them


def process_label(name: str, pid: int) -> str:
    """The value for a process of this name."""
    return f"{name}({pid})"


def pid_of(label: str | None) -> int:
    """Its PID; 0, which maps no library, where there is none."""
    digits = (label or "").rpartition("(")[2].removesuffix(")")
    return int(digits) if digits.isdecimal() and len(digits) <= _MOST_DIGITS else 0


def name_of(label: str) -> str:
    """Its name; the whole value where there is no PID."""
    return label.rpartition("(")[0] or label


def identity_of(label: str | None) -> int | str:
    """The identity of the process: the PID alone, as a process's name may become known, or change, later; else the whole
    value."""
    return pid_of(label) or label or ""


def ended_in(service: str) -> str:
    """The value for the ended processes of a service."""
    return _ENDED + service.replace("(", "[")


def service_of_ended(label: str) -> str:
    """Their service; "" for a process."""
    return label.removeprefix(_ENDED) if label.startswith(_ENDED) and "(" not in label else ""
