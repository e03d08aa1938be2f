# SPDX-License-Identifier: Apache-2.0
"""Handshakes by themselves, and the measurement that any number of them must make: what tests compare sums with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ssllatency.model.handshakes import (
    PHASES,
    WAITS,
    YES,
    Cause,
    Ending,
    Fact,
    Group,
    Handshakes,
    KeyUse,
    Label,
    LabelValue,
    Part,
    Times,
)
from ssllatency.model.histogram import ExponentialHistogram
from ssllatency.model.process_label import ProcessLabel

EVERY = (Part.WALL, Part.CALLS, Part.REST)


@dataclass(frozen=True)
class Shake:
    """One handshake: the parts that it had, in nanoseconds, without WALL, CALLS, CLIENT_WAIT and QUEUE; its labels, its key,
    its reason; and what it adds to each fact."""

    times: Mapping[Part, int]
    labels: Mapping[Label, str | None] = field(default_factory=dict)
    ending: Ending = Ending.SUCCESS
    key: tuple[str, str] | None = None
    reason: str = ""
    code: int = 0
    alert: str = ""
    sent: bool = False
    state: str = ""
    facts: Mapping[Fact, int] = field(default_factory=dict)
    peer_left: bool | None = None
    undelivered: bool | None = None

    @cached_property
    def parts(self) -> dict[Part, int]:
        """All its parts, the sums as well."""
        calls = sum(self.times.get(phase, 0) for phase in PHASES)
        wall = calls + sum(self.times.get(wait, 0) for wait in WAITS)
        queue = sum(self.times.get(part, 0) for part in (Part.QUEUE_START, Part.QUEUE_SERVER))
        waited = wall + self.times.get(Part.QUEUE_START, 0)
        sums = {Part.CALLS: calls, Part.WALL: wall, Part.CLIENT_WAIT: waited, **({Part.QUEUE: queue} if queue else {})}
        return {Part.REST: 0, **self.times, **sums}


def times_of(values_ns: Sequence[int]) -> Times:
    """What these durations make."""
    least, greatest = min(values_ns, default=None), max(values_ns, default=None)
    return Times(sum(values_ns), least, greatest, ExponentialHistogram.from_values(values_ns))


def handshakes_of(shakes: Iterable[Shake], by: tuple[Label, ...] = ()) -> Handshakes:
    """The measurement of these handshakes, grouped by these labels."""
    shakes = list(shakes)
    groups: dict[tuple[object, ...], list[Shake]] = {}
    for one in shakes:
        groups.setdefault((one.ending, *(one.labels.get(label) for label in by)), []).append(one)
    good = [one for one in shakes if one.ending is Ending.SUCCESS]
    return Handshakes(
        groups=tuple(_group(members, by) for members in groups.values()),
        causes=_causes(one for one in shakes if one.ending is not Ending.SUCCESS),
        keys=_keys(good),
        mix=_mix(good),
        by=by,
        arrivals=True,
        quotas=True,
    )


def _group(shakes: Sequence[Shake], by: tuple[Label, ...]) -> Group:
    values = {part: [one.parts[part] for one in shakes if part in one.parts] for part in Part}
    parts = {part: times_of(durations) for part, durations in values.items() if durations}
    labels, ending = {label: _value(label, shakes[0].labels.get(label)) for label in by}, shakes[0].ending
    resumption = [one.labels.get(Label.RESUMED) for one in shakes if ending is Ending.SUCCESS]
    facts = {fact: count for fact in Fact if (count := sum(one.facts.get(fact, 0) for one in shakes))}
    return Group(labels, ending, parts, False, resumption.count(YES), len(resumption) - resumption.count(None), facts)


def _value(label: Label, text: str | None) -> LabelValue:
    return ProcessLabel.from_text(text) if text and label is Label.PROCESS else text


def _causes(shakes: Iterable[Shake]) -> tuple[Cause, ...]:
    rows: dict[Cause, list[int]] = {}
    for one in shakes:
        why = (one.ending, one.reason, one.code, "SSL routines" if one.code else "", one.alert, one.sent, one.state)
        rows.setdefault(Cause(*why, 0, 0, one.peer_left, one.undelivered), []).append(one.parts[Part.WALL])
    return tuple(replace(cause, count=len(walls), total_ns=sum(walls)) for cause, walls in rows.items())


def _keys(shakes: Iterable[Shake]) -> tuple[KeyUse, ...]:
    rows: dict[tuple[str, str], list[int]] = {}
    for one in shakes:
        if one.key:
            rows.setdefault(one.key, []).append(one.times.get(Part.PRIVATE_KEY, 0))
    return tuple(KeyUse(*key, len(times), sum(times)) for key, times in rows.items())


def _mix(shakes: Iterable[Shake]) -> dict[Label, dict[str, int]]:
    counts = {label: Counter(value for one in shakes if (value := one.labels.get(label))) for label in Label}
    return {label: dict(values) for label, values in counts.items() if values}
