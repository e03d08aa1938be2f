# SPDX-License-Identifier: Apache-2.0
"""What a page says of the change between two recordings: a sentence about the mean handshake, and a verdict for each row."""

from __future__ import annotations

from ssllatency.model.comparison import Change, Comparison, Contribution, Verdict
from ssllatency.model.resampling import Quantity
from ssllatency.reports.handshake_words import PARTS
from ssllatency.reports.html_tables import Verdicts
from ssllatency.reports.units import duration


def finding(comparison: Comparison) -> str:
    """The mean successful handshake before and after, whether that is more than noise, and what it comes from; "" where either
    side has none."""
    change = comparison.handshake
    if change is None or change.before is None or change.after is None:
        return ""
    means = f"took {duration(change.after)}, and {duration(change.before)} before"
    sentence = f"The mean successful handshake {means}: {', '.join(words(change))}."
    most = comparison.contributions[0] if comparison.contributions else None
    changed = change.verdict in (Verdict.SLOWER, Verdict.FASTER)
    return f"{sentence} {_largest(most)}" if most and most.change_ns and changed else sentence


def _largest(most: Contribution) -> str:
    return f"The largest contribution is {PARTS[most.part]}: {signed(float(most.change_ns))}."


def words(change: Change) -> tuple[str, str]:
    """The change in percent; the verdict on it, with the bounds that it lies between with 95 % confidence."""
    if change.ratio is None:
        return "-", str(change.verdict)
    bounds = "" if change.low is None or change.high is None else f" ({_percent(change.low)} to {_percent(change.high)})"
    return _percent(change.ratio), f"{change.verdict}{bounds}"


def verdicts(comparison: Comparison, kind: str, outcome: str | None = None) -> Verdicts:
    """The change of the mean of each part that ended in this way, by the part's words; or of each function's calls, by name and
    outcome."""
    found: dict[tuple[str, ...], tuple[str, str]] = {}
    for row in comparison.rows:
        subject, change = row.subject, row.changes.get(Quantity.MEAN)
        if subject.kind == kind and change and outcome in (None, subject.outcome):
            names = (PARTS_BY_NAME[subject.name],) if kind == "part" else (subject.name, subject.outcome)
            found[names] = words(change)
    return found


def signed(change_ns: float) -> str:
    """A change with its sign: "+35.0 us"."""
    return f"{'+' if change_ns > 0 else ''}{duration(change_ns)}"


def _percent(ratio: float) -> str:
    percent = 100 * (ratio - 1)
    return f"{percent:+.0f} %" if abs(percent) >= 9.95 else f"{percent:+.1f} %"


PARTS_BY_NAME = {str(part): name for part, name in PARTS.items()}
