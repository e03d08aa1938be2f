# SPDX-License-Identifier: Apache-2.0
"""Changes between two recordings, in words: the mean handshake, single quantities, and what else is different."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from ssllatency.model.handshakes import Label
from ssllatency.model.snapshot import Snapshot
from ssllatency.model.statistics.comparison import Change, Comparison, Verdict
from ssllatency.model.statistics.resampling import Quantity
from ssllatency.reports.words.label_words import LABELS, value_words
from ssllatency.reports.words.parts import PARTS
from ssllatency.units import duration, share

_SHIFT = 0.05  # a share that changes by less isn't reported
_OF_RATES = {Verdict.SLOWER: Verdict.MORE, Verdict.FASTER: Verdict.FEWER}


def handshake_words(comparison: Comparison) -> str:
    """Return how the mean handshake changed, in a sentence or two; "" where either side has none."""
    change, largest = comparison.client_wait or comparison.handshake, comparison.largest
    if change is None or change.before is None or change.after is None:
        return ""
    subject = (
        "The client of the mean successful handshake waits" if comparison.client_wait else "The mean successful handshake takes"
    )
    both = f"{subject} {duration(change.before)} before and {duration(change.after)} after"
    bounds = f", 95 % confidence interval {interval(change)}" if change.low is not None else ""
    sentence = f"{both} ({percent(change.ratio)}{bounds}): {_verdict(change, comparison.intervals)}."
    if largest:
        most = f"{PARTS[largest.part]}, {with_sign(largest.change_ns)} of {with_sign(change.after - change.before)}"
        sentence += f" The largest contribution: {most}."
    return sentence


def _verdict(change: Change, intervals: int) -> str:
    """The verdict in words. Bounds that leave no change out, beside "no change", would contradict it."""
    if change.leaning is change.verdict:
        return str(change.verdict)
    few = f"{intervals} interval{'' if intervals == 1 else 's'} {'is' if intervals == 1 else 'are'} too few to be sure"
    return f"probably {change.leaning}, but {few} among so many comparisons; record {2 * intervals} or more"


def leaning(quantity: Quantity, change: Change) -> Verdict | None:
    """The probable verdict on a change that isn't sure among so many: its bounds alone exclude "no change". None for all
    others."""
    if change.leaning is change.verdict:
        return None
    return _OF_RATES[change.leaning] if quantity is Quantity.RATE else change.leaning


def interval(change: Change) -> str:
    """The bounds of a change in percent, "" where it isn't known itself."""
    if change.low is None or change.high is None:
        return "" if change.ratio is None else "-"
    return f"{percent(change.low, '')}..{percent(change.high)}"


def percent(ratio: float | None, unit: str = " %") -> str:
    """A ratio as a change in percent."""
    if ratio is None:
        return "-"
    change = 100 * (ratio - 1)
    number = f"{change:+.1f}" if abs(change) < 9.95 else f"{change:+.0f}"
    return f"{'0' if number in ('+0.0', '-0.0') else number}{unit}"


def with_sign(value_ns: Fraction | float) -> str:
    """A change with its sign: "+35.0 us"."""
    return f"{'+' if value_ns > 0 else ''}{duration(float(value_ns))}"


def differences(before: Snapshot, after: Snapshot) -> list[str]:
    """Other differences of two recordings, a phrase each: what was traced, and the kinds of handshakes."""
    pairs = [("kernel", before.kernel, after.kernel), ("libraries", _libraries(before), _libraries(after))]
    traced = [f"{what}: {old or 'none'} before, {new or 'none'} after" for what, old, new in pairs if old != new]
    return [*traced, *_mix_shifts(before, after)]


def _libraries(snapshot: Snapshot) -> str:
    names = {
        f"{library.path} ({library.version or f'build-id {library.build_id[:12]}'})"
        for target in snapshot.targets
        for library in target.libraries
    }
    return ", ".join(sorted(names))


def _mix_shifts(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """The kinds of successful handshakes whose share moved."""
    for label in (label for label in Label if label is not Label.PROCESS):
        old, new = _counts(before, label), _counts(after, label)
        whole = sum(old.values()), sum(new.values())
        if not all(whole):
            continue
        for value in dict.fromkeys((*old, *new)):
            counts = old.get(value, 0), new.get(value, 0)
            if abs(counts[0] / whole[0] - counts[1] / whole[1]) >= _SHIFT:
                shares = f"{share(counts[0], whole[0])} before, {share(counts[1], whole[1])} after"
                yield f"{LABELS[label]}, {value_words(label, value)}: {shares}"


def _counts(snapshot: Snapshot, label: Label) -> Mapping[str, int]:
    return snapshot.handshakes.mix.get(label, {}) if snapshot.handshakes else {}
