# SPDX-License-Identifier: Apache-2.0
"""Numbers and names as people read them, in printable ASCII, however they are laid out."""

from __future__ import annotations

import re
from collections.abc import Iterable

# printable() leaves no such character in a text, and textwrap takes it for a letter.
NO_BREAK = "\u00a0"
_UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60 * 10**9,
    "h": 3_600 * 10**9,
    "d": 86_400 * 10**9,
}
_PART = re.compile(r"(\d{1,12}(?:\.\d{1,9})?|\.\d{1,9})(ns|us|ms|s|m|h|d)", re.ASCII)
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|ns|us|\u00b5s|ms|s|kB|MB|GB)(?![^\W_]))")


def duration_of(text: str) -> int | None:
    """The nanoseconds of a time with its units, as people write it (200us, 1.5ms, 10s, 1m30s); None where it is none."""
    parts = _PART.findall(text)
    if "".join(number + unit for number, unit in parts) != text or len({unit for _, unit in parts}) != len(parts):
        return None
    return round(sum(float(number) * _UNITS_NS[unit] for number, unit in parts)) if parts else None


def duration(value_ns: float | None) -> str:
    """Nanoseconds with three significant digits in the unit that suits them ("706 us", "1.24 ms"); "-" for None."""
    if value_ns is None:
        return "-"
    if value_ns < 0:
        return "-" + duration(-value_ns)
    if _three_digits(value_ns) < 1000:
        # Nanoseconds are counted: "2 ns", not "2.00 ns".
        return f"{round(value_ns, 2):.3g} ns"
    for unit, size in (("us", 1e3), ("ms", 1e6)):
        if _three_digits(value_ns / size) < 1000:
            return f"{_decimal(value_ns / size)} {unit}"
    return f"{_decimal(value_ns / 1e9)} s"


def size(number: float) -> str:
    """Bytes with three significant digits in the unit that suits them ("536 bytes", "14.2 kB", "1.05 MB")."""
    for unit, bytes_of_unit in (("kB", 1e3), ("MB", 1e6)):
        if number >= 999.5 and _three_digits(number / bytes_of_unit) < 1000:
            return f"{_decimal(number / bytes_of_unit)} {unit}"
    return f"{number:.0f} bytes" if number < 999.5 else f"{_decimal(number / 1e9)} GB"


def seconds(duration_s: float) -> str:
    """Seconds like duration()."""
    return duration(duration_s * 1e9)


def counted(number: int, noun: str) -> str:
    """The number with its noun: "1 retry", "2 retries", "3 calls", "4 processes", "5 days"."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{number} {noun[:-1]}ies"
    return f"{number} {noun}{'es' if noun.endswith('s') else 's'}"


def rate(number: float) -> str:
    """So many a second, in two or three digits."""
    return f"{number:.0f}" if number >= 100 else f"{number:.2g}" if number < 10 else f"{number:.1f}"


def share(part: float, whole: float) -> str:
    """The part in percent of the whole ("97 %", "2.9 %"); "-" of nothing. Never 0 or 100 where it isn't quite."""
    if not whole:
        return "-"
    percent = 100 * part / whole
    if 0 < percent < 0.05:
        return "<0.1 %"
    if 99.5 <= percent < 100:
        return ">99 %"
    return f"{percent:.0f} %" if percent in (0, 100) or percent >= 9.95 else f"{percent:.1f} %"


def ranges(numbers: Iterable[int], limit: int = 12) -> str:
    """Numbers in order, neighbours drawn together: "88, 1240-1247". Past `limit` ranges it says how many numbers follow."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    shown = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs[:limit]]
    more = sum(len(run) for run in runs[limit:])
    return ", ".join(shown) + (f" and {more} more" if more else "")


def printable(text: str) -> str:
    """The text in ASCII without control characters: a traced process chooses its own name, not what the terminal does."""
    escaped = text.encode("ascii", "backslashreplace").decode("ascii")
    return "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in escaped)


def together(text: str) -> str:
    """The text with a no-break space between each number and its unit, for a layout that breaks lines at spaces."""
    return _BEFORE_UNIT.sub(NO_BREAK, text)


def sentence(phrase: str) -> str:
    """The phrase with a capital letter and a full stop."""
    return f"{capitalized(phrase)}."


def capitalized(text: str) -> str:
    """The text with a capital letter; the other letters stay as they are."""
    return text[:1].upper() + text[1:]


def _three_digits(value: float) -> float:
    return float(f"{value:.3g}")


def _decimal(value: float) -> str:
    rounded = _three_digits(value) if value < 1000 else value
    decimals = 2 if rounded < 10 else 1 if rounded < 100 else 0
    return f"{rounded:.{decimals}f}"
