# SPDX-License-Identifier: Apache-2.0
"""Reads the numbers that load generators print, with their units. What isn't a number (nan, inf), or is none that a tool could
have counted to, is None."""

from __future__ import annotations

import re

from ssllatency.load.figures import Figure, LoadError

_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_THOUSANDS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_NUMBER = r"[-+]?(?:[0-9][0-9.]*|nan|inf)"
_LARGEST = 1e18

WHOLE = r"[0-9]{1,15}(?![0-9])"  # the pattern of a whole number, of any that a tool could have counted to


def seconds(text: str) -> float | None:
    """A time with its unit ("104us", "1.36ms", "2.00m")."""
    return _scaled(text, _SECONDS)


def milliseconds(text: str) -> float | None:
    """A number of milliseconds without its unit, in seconds."""
    return _scaled(f"{text.strip()}ms", _SECONDS)


def number(text: str) -> float | None:
    """A number, perhaps with an SI prefix ("7.65k")."""
    return _scaled(text, _THOUSANDS)


def size(text: str) -> float | None:
    """A number of bytes, with a binary prefix or none ("6.03MB", "41000")."""
    return _scaled(re.sub(r"(?i)(?:bytes|B)$", "", text.strip()), _BINARY)


def percent(text: str) -> float | None:
    """A percentage without its sign ("99.9")."""
    match = re.fullmatch(r"[0-9]{1,3}(?:\.[0-9]{1,9})?", text)
    return float(text) if match and float(text) <= 100 else None


def _scaled(text: str, units: dict[str, float] | dict[str, int]) -> float | None:
    match = re.fullmatch(rf"({_NUMBER})\s*([A-Za-z]*)", text.strip(), re.IGNORECASE)
    if not match or match[2] not in units:
        return None
    try:
        # To 15 digits: 32.87 ms is 0.03287 s.
        value = float(f"{float(match[1]) * units[match[2]]:.15g}")
    except ValueError:
        return None
    return value if 0 <= value <= _LARGEST else None


def find(pattern: str, text: str) -> re.Match[str] | None:
    """The first place where the pattern stands at the beginning of a line."""
    return re.search(pattern, text, re.MULTILINE)


def figure(name: str, value: float | None, unit: str, includes: str) -> tuple[Figure, ...]:
    """The figure, or none where there is no number."""
    return () if value is None else (Figure(name, value, unit, includes),)


def not_its_output(tool: str, wanted: str, text: str) -> LoadError:
    """The error for output that isn't the tool's; it quotes how the output begins."""
    beginning = " ".join(text.split())[:80]
    return LoadError(f"This isn't the output of {tool}: {wanted} is missing; it begins with: {beginning or '(nothing)'}")
