# SPDX-License-Identifier: Apache-2.0
"""A rule about one of several: the name, port, version or process whose clients wait much longer than the others'."""

from __future__ import annotations

from collections.abc import Iterator

from ssllatency.data_class import dataclass
from ssllatency.model.arithmetic.handshake_sums import add_groups
from ssllatency.model.handshakes import CLIENT_WAIT_PARTS, PHASES, WAITS, Ending, Group, Label, Part
from ssllatency.reports.diagnosis.case import Case
from ssllatency.reports.diagnosis.numbers import FEWEST, NOTABLE, OWN_FLOOR_NS, ratio
from ssllatency.reports.diagnosis.rule import Evidence
from ssllatency.reports.words.label_words import LABELS
from ssllatency.reports.words.parts import PARTS
from ssllatency.units import duration, printable

_LABELS = (Label.SNI, Label.PORT, Label.PROCESS, Label.VERSION, Label.ALPN, Label.PEER)
_PARTS = (*PHASES, *WAITS, Part.QUEUE_START)
# One is slow whose clients wait at least so many times as long as the others', on average …
SLOWER = 2.0
# … and so many times in the middle of them: a few that took very long don't make a name slow.
SLOWER_MEDIAN = 1.5


@dataclass(frozen=True)
class _Slow:
    """The handshakes of one value of a label, and all the others whose value is known."""

    label: Label
    value: str
    these: Group
    others: Group

    @property
    def excess_ns(self) -> float:
        """The time that its clients waited longer in all than if they were the others'."""
        return (_mean_ns(self.these) - _mean_ns(self.others)) * self.these.count


def slow_group(case: Case) -> Evidence | None:
    """One value's clients wait much longer than those of all others, of a label by which the handshakes are grouped."""
    slow = max(_slow(case), key=lambda one: one.excess_ns, default=None)
    if slow is None or slow.excess_ns < NOTABLE * case.wait_ns:
        return None
    more = {part: _mean_ns(slow.these, part) - _mean_ns(slow.others, part) for part in _PARTS}
    part = max(_PARTS, key=more.__getitem__)
    if slow.label is Label.PROCESS and part in (Part.QUEUE_START, Part.QUEUE_SERVER):
        return None  # the sentence about the queue names the process
    name = f"{LABELS[slow.label]} {printable(slow.value)}"
    theirs, others = _mean_ns(slow.these), _mean_ns(slow.others)
    times = f"{duration(theirs)}, {theirs / others:.1f} times as long as all others ({duration(others)})"
    why = f"the largest difference is {PARTS[part]}, {duration(more[part])} more"
    subject = f"The clients of {name} wait" if case.is_server else f"The handshakes of {name} take"
    step = "" if case.is_server else "Look at what sets it apart: its certificates, its session settings, its distance."
    return Evidence(f"{subject} {times}: {why}", 1 + ratio(slow.excess_ns, case.wait_ns), step)


def _slow(case: Case) -> Iterator[_Slow]:
    """Those that are surely slow."""
    good = [group for group in case.handshakes.groups if group.ending is Ending.SUCCESS and group.count and not group.other]
    for label in (label for label in _LABELS if label in case.handshakes.by):
        values: dict[str, list[Group]] = {}
        for group in good:
            if (value := group.text(label)) is not None:
                values.setdefault(value, []).append(group)
        for value, groups in values.items():
            others = [group for other, rest in values.items() if other != value for group in rest]
            if others and _slower(one := _Slow(label, value, add_groups(groups), add_groups(others))):
                yield one


def _slower(slow: _Slow) -> bool:
    these, others = slow.these, slow.others
    if min(these.count, others.count) < FEWEST or _mean_ns(these) - _mean_ns(others) < OWN_FLOOR_NS:
        return False
    return _mean_ns(these) >= SLOWER * _mean_ns(others) > 0 and _median_ns(these) >= SLOWER_MEDIAN * _median_ns(others)


def _mean_ns(group: Group, *parts: Part) -> float:
    return group.estimated.total_ns(*(parts or CLIENT_WAIT_PARTS)) / group.count


def _median_ns(group: Group) -> float:
    """Of the wall time, and of the queue before it: their sum is near the median of what clients wait."""
    return sum(group.parts[part].exponential.quantile(0.5) or 0.0 for part in CLIENT_WAIT_PARTS if part in group.parts)
