# SPDX-License-Identifier: Apache-2.0
"""Exact sums and differences of snapshots: intervals of a trace, several measurements, all processes of one.

A series belongs to a process by its `pid`; None stands for the processes that were folded into "other" while tracing.
Series that by_function() added up over processes carry ALL_PROCESSES instead, so the two are never taken for each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from itertools import chain

from ssllatency.errors import SsllatencyError
from ssllatency.model import cost
from ssllatency.model.arithmetic import handshake_sums as shakes
from ssllatency.model.handshakes import Handshakes, Label
from ssllatency.model.histogram import ExponentialHistogram, added_linear
from ssllatency.model.keyed import gathered, listed, once
from ssllatency.model.snapshot import Losses, Outcome, Series, Snapshot, Target
from ssllatency.model.timed import greatest_ns, interval_extremes, least_ns
from ssllatency.model.windows import arithmetic as windows

# Process 0 is the kernel's idle task, which maps no library.
ALL_PROCESSES = 0

_SOME_WITHOUT_HANDSHAKES = "Handshakes were measured in some only: {} measurements of one kind."

_Key = tuple[str, Outcome, int | None]


def add_series(parts: Sequence[Series], pid: int | None) -> Series:
    """One series, with `pid`, that holds the calls of all `parts`, which share function and outcome; at least one.

    The extremes are kept where they are sure: one part's unknown minimum hides the known ones unless it must be larger.
    Raises SsllatencyError when the linear histograms have different buckets.
    """
    reasons: dict[str, int] = {}
    for part in parts:
        for reason, count in part.reasons.items():
            reasons[reason] = reasons.get(reason, 0) + count
    return Series(
        parts[0].function,
        parts[0].outcome,
        pid,
        sum(part.total_ns for part in parts),
        least_ns(parts),
        greatest_ns(parts),
        ExponentialHistogram.added([part.exponential for part in parts]),
        added_linear([part.linear for part in parts]),
        reasons,
    )


def add_alike_series(series: Iterable[Series]) -> tuple[Series, ...]:
    """Adds up those of the same function, outcome and process."""
    return gathered(series, _key, lambda group: add_series(group, group[0].pid))


def by_function(snapshot: Snapshot) -> Snapshot:
    """The snapshot with each function's series added up over processes, "other" included; their pid is ALL_PROCESSES."""
    return replace(snapshot, series=add_alike_series(replace(series, pid=ALL_PROCESSES) for series in snapshot.series))


def difference(later: Snapshot, earlier: Snapshot) -> Snapshot:
    """The difference of two snapshots of one trace. Series without a call in between are left out.

    Minimum and maximum are the later snapshot's where they fall into the interval's lowest and highest bucket, else None.
    What isn't a count (targets, missing, calls in flight, notes) is the later snapshot's. Raises SsllatencyError when
    `earlier` holds calls that `later` doesn't, as then they aren't of one trace.
    """
    old = {_key(series): series for series in earlier.series}
    new = {_key(series) for series in later.series}
    for key, series in old.items():
        if series.count and key not in new:
            raise _not_one_trace(series)
    changed = (_since(series, old.get(_key(series))) for series in later.series)
    return replace(
        later,
        started=_after(earlier.started, earlier.duration_s),
        duration_s=round(later.duration_s - earlier.duration_s, 6),
        series=tuple(series for series in changed if series.count),
        losses=_losses_since(later.losses, earlier.losses),
        handshakes=_handshakes_since(later.handshakes, earlier.handshakes),
        cost=cost.difference(later.cost, earlier.cost),
    )


def merge(*measured: Snapshot) -> Snapshot:
    """All measurements added up, at least one; their order makes no difference to the numbers.

    Measurements of one host keep their processes. Those of different hosts are added up by function, because a pid means
    nothing on another host; so are handshakes by process. `duration_s` is the time traced in all, `started` the earliest.
    What a client said of one run isn't that of several, and is left out. Raises SsllatencyError when the linear histograms
    have different buckets, only some have handshakes, or what was seen in windows can't be added up.
    """
    if len(measured) == 1:
        return measured[0]
    hosts = {snapshot.host for snapshot in measured}
    apart = measured if len(hosts) == 1 else [by_function(snapshot) for snapshot in measured]
    return Snapshot(
        host=listed(snapshot.host for snapshot in measured),
        kernel=listed(snapshot.kernel for snapshot in measured),
        engine=listed(snapshot.engine for snapshot in measured),
        started=min((snapshot.started for snapshot in measured), key=lambda text: (datetime.fromisoformat(text), text)),
        # Whole microseconds, so that the sum is exact.
        duration_s=round(sum(snapshot.duration_s for snapshot in measured), 6),
        targets=_merged_targets(chain.from_iterable(snapshot.targets for snapshot in measured)),
        series=add_alike_series(chain.from_iterable(snapshot.series for snapshot in apart)),
        missing=once(snapshot.missing for snapshot in measured),
        losses=add_losses(*(snapshot.losses for snapshot in measured)),
        in_flight=sum(snapshot.in_flight for snapshot in measured),
        notes=once(snapshot.notes for snapshot in measured),
        handshakes=_handshakes_sum([snapshot.handshakes for snapshot in measured], by_process=len(hosts) == 1),
        sampling=windows.merge(measured),
        cost=cost.merge([snapshot.cost for snapshot in measured], one_host=len(hosts) == 1),
    )


def without_functions(snapshot: Snapshot, names: Collection[str]) -> Snapshot:
    """The measurement without the calls of these functions, among them all that were watched in windows only."""
    return replace(snapshot, series=tuple(series for series in snapshot.series if series.function not in names), sampling=())


def add_losses(*losses: Losses) -> Losses:
    """The sum of these losses."""
    return Losses(**{name: sum(getattr(part, name) for part in losses) for name in _LOSSES})


def _key(series: Series) -> _Key:
    return series.function, series.outcome, series.pid


def _since(later: Series, earlier: Series | None) -> Series:
    if earlier is None:
        return later
    try:
        exponential = later.exponential - earlier.exponential
        linear = later.linear - earlier.linear if later.linear and earlier.linear else None
    except ValueError:
        raise _not_one_trace(later) from None
    reasons = {reason: count - earlier.reasons.get(reason, 0) for reason, count in later.reasons.items()}
    min_ns, max_ns = interval_extremes(later, exponential)
    return replace(
        later,
        total_ns=later.total_ns - earlier.total_ns,
        min_ns=min_ns,
        max_ns=max_ns,
        exponential=exponential,
        linear=linear,
        reasons={reason: count for reason, count in reasons.items() if count},
    )


def _handshakes_since(later: Handshakes | None, earlier: Handshakes | None) -> Handshakes | None:
    if later is not None and earlier is not None:
        return shakes.difference(later, earlier)
    if later is not earlier:
        raise SsllatencyError(_SOME_WITHOUT_HANDSHAKES.format("take the difference"))
    return None


def _handshakes_sum(measured: Sequence[Handshakes | None], *, by_process: bool) -> Handshakes | None:
    parts = [handshakes for handshakes in measured if handshakes is not None]
    if not parts:
        return None
    if len(parts) < len(measured):
        # The duration would be that of all, the handshakes those of some.
        raise SsllatencyError(_SOME_WITHOUT_HANDSHAKES.format("merge"))
    if not by_process:
        parts = [shakes.without(part, Label.PROCESS) for part in parts]
    return shakes.merge(*parts)


def _not_one_trace(series: Series) -> SsllatencyError:
    return SsllatencyError(
        f"The later snapshot holds fewer calls of {series.function} than the earlier one:"
        " take the difference of two snapshots of one trace, the later one first."
    )


def _after(started: str, duration_s: float) -> str:
    end = (datetime.fromisoformat(started) + timedelta(seconds=duration_s)).isoformat()
    return end.replace("+00:00", "Z") if started.endswith("Z") else end


def _merged_targets(targets: Iterable[Target]) -> tuple[Target, ...]:
    merged: dict[tuple[int, str], Target] = {}
    for target in targets:
        key = (target.pid, target.comm)
        before = merged[key].libraries if key in merged else ()
        merged[key] = replace(target, libraries=tuple(dict.fromkeys((*before, *target.libraries))))
    return tuple(merged.values())


def _losses_since(later: Losses, earlier: Losses) -> Losses:
    # A call that was taken for lost may turn out to have been long: never less than none.
    return Losses(**{name: max(0, getattr(later, name) - getattr(earlier, name)) for name in _LOSSES})


_LOSSES = tuple(field.name for field in fields(Losses))
