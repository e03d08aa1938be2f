# SPDX-License-Identifier: Apache-2.0
"""From a snapshot to counts by process, and to the points that are the host's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache, lru_cache
from typing import Any

from ssllatency.export.metrics import families as names
from ssllatency.export.metrics.alerts import of_assigned
from ssllatency.export.metrics.facts import facts_of
from ssllatency.export.metrics.kept import KeptResults, Stage
from ssllatency.export.metrics.ledger import Counts, Row, Value, added
from ssllatency.export.metrics.points import Distribution, Labels, labels
from ssllatency.model.cost import TracingCost
from ssllatency.model.handshakes import (
    MEANWHILE,
    PHASES,
    WAITS,
    Ending,
    Group,
    Handshakes,
    Label,
    Part,
    Tallies,
    Times,
)
from ssllatency.model.histogram import ExponentialHistogram
from ssllatency.model.offload import Offload
from ssllatency.model.snapshot import Outcome, Series, Snapshot
from ssllatency.model.times_on_demand import PartsOnDemand, RawTimes, sum_of

OTHER = 0  # instead of a PID: processes that the engine doesn't tell apart
Found = tuple[str, Labels, Value]

_REASONS = {Outcome.RETRY: "ssllatency.call.retries", Outcome.FAILURE: "ssllatency.call.failures"}
_WAIT_PREFIX = "wait_"
# The parts of ssllatency.handshake.queue by the value of its label.
QUEUE_PARTS = {Part.QUEUE: "all"} | {
    part: part.removeprefix("queue_") for part in (Part.QUEUE_START, Part.QUEUE_OFFLOAD, *MEANWHILE)
}
OFFLOAD_PARTS = {Part.COMPLETION: "completion", Part.QUEUE_OFFLOAD: "resumption"}
# Those of ssllatency.handshake.peer.
PEER_PARTS = {Part.WAIT_HELLO: "hello", Part.ROUND_TRIPS: "round_trips", Part.LOSSES: "losses", Part.GONE: "left"}
# Those of ssllatency.handshake.processor.
PROCESSOR_PARTS = {
    Part.ON_CPU: "on",
    Part.OFF_CPU: "off",
    Part.OFF_CPU_RUNNABLE: "runnable",
    Part.OFF_CPU_THROTTLED: "throttled",
    Part.REST_ASLEEP: "rest_asleep",
    Part.ASSISTS: "assists",
}

# Those that are shown by version and resumption.
_BY_TLS = {Part.WALL: "ssllatency.handshake.duration", Part.CALLS: "ssllatency.handshake.calls"}

Counted = Series | Group | Tallies


class ByProcess:
    """The counts of each process, and of OTHER: the same object again as long as the snapshots have the very same series and
    groups of a process, and equal tallies."""

    def __init__(self, kept: KeptResults) -> None:
        self._kept = kept
        self._tallies: Mapping[int, Tallies] = {}

    def read(self, snapshot: Snapshot) -> dict[int, Counts]:
        """Those of a snapshot."""
        handshakes = snapshot.handshakes
        before = self._tallies
        self._tallies = {
            pid: before[pid] if before.get(pid) == tallies else tallies for pid, tallies in _tallies(handshakes).items()
        }
        by_pid: dict[int, list[Counted]] = {}
        for series in snapshot.series:
            by_pid.setdefault(series.pid or OTHER, []).append(series)
        for group in handshakes.groups if handshakes else ():
            by_pid.setdefault(_pid(group), []).append(group)
        for pid, tallies in self._tallies.items():
            by_pid.setdefault(pid, []).append(tallies)
        return {pid: self._kept.of(Stage.PROCESS, pid, counted, _counts) for pid, counted in by_pid.items()}


def _counts(parts: Sequence[Counted]) -> Counts:
    counts = _of_groups([part for part in parts if isinstance(part, Group)])
    for part in parts:
        if not isinstance(part, Group):
            for family, values, value in _of_row(part):
                row = family, values
                counts[row] = added([counts[row], value]) if row in counts else value
    return counts


def _of_row(row: Series | Tallies) -> Iterator[Found]:
    return _of_tallies(row) if isinstance(row, Tallies) else _of_series(row)


def _pid(group: Group) -> int:
    return group.process.pid if group.process else OTHER


def _tallies(handshakes: Handshakes | None) -> Mapping[int, Tallies]:
    if handshakes is None:
        return {}
    if not handshakes.by_process:
        return {OTHER: Tallies(handshakes.causes, handshakes.keys, handshakes.mix)}
    return {pid or OTHER: tallies for pid, tallies in handshakes.by_process.items()}


def _of_series(series: Series) -> Iterator[Found]:
    of = {names.FUNCTION: series.function}
    durations = Distribution(series.total_ns, series.exponential)
    yield "ssllatency.call.duration", labels({**of, names.OUTCOME: series.outcome}), durations
    if family := _REASONS.get(series.outcome):
        for reason, count in series.reasons.items():
            yield family, labels({**of, names.REASON: reason}), count


def _of_groups(groups: Sequence[Group]) -> dict[Row, Value]:
    """The sums of a process's groups, whatever their order in the same one: where the series are the same at the next reading,
    what comes after this has less to do. Each part of an ending is added up once, and only those that are shown by version and
    resumption by these as well."""
    counts: dict[Row, Value] = {}
    by_ending: dict[Ending, list[Group]] = {}
    for group in groups:
        by_ending.setdefault(group.ending, []).append(group)
    for ending, alike in sorted(by_ending.items()):
        for row, number in facts_of(ending, alike):
            counts[row] = counts.get(row, 0) + number  # type: ignore[operator]
        raw = [group.parts.raw for group in alike if isinstance(group.parts, PartsOnDemand)]
        if len(raw) == len(alike):  # as of a session
            _add_parts(counts, ending, alike, raw, _sum_of_raw)
        else:
            _add_parts(counts, ending, alike, [group.parts for group in alike], _sum)
    return counts


def _add_parts(
    counts: dict[Row, Value],
    ending: Ending,
    groups: Sequence[Group],
    parts_of: Sequence[Mapping[Part, Any]],
    add: Callable[[Sequence[Any]], Distribution],
) -> None:
    """Adds the sums of the parts of groups that ended so. `parts_of`: the parts of each, as `add` takes several of a kind."""
    for part, rows in _rows(ending):
        if several := [parts[part] for parts in parts_of if part in parts]:
            value = add(several)
            for row in rows:
                counts[row] = value
    by_tls: dict[Row, list[Any]] = {}
    for group, parts in zip(groups, parts_of, strict=True):
        for part, row in _rows_by_tls(ending, group.text(Label.VERSION) or "", group.text(Label.RESUMED) or ""):
            if part in parts:
                by_tls.setdefault(row, []).append(parts[part])
    for row in sorted(by_tls):
        counts[row] = add(by_tls[row])


def _sum(several: Sequence[Times]) -> Distribution:
    """The durations of all, at least one."""
    if len(several) == 1:
        return Distribution(several[0].total_ns, several[0].exponential)
    total_ns = sum([times.total_ns for times in several])
    return Distribution(total_ns, ExponentialHistogram.added([times.exponential for times in several]))


def _sum_of_raw(several: Sequence[RawTimes]) -> Distribution:
    """The durations of all, of times that aren't made yet."""
    return Distribution(*sum_of(several))


@cache
def _rows(ending: Ending) -> Sequence[tuple[Part, Sequence[Row]]]:
    """Return where the parts of handshakes count that ended so, but those that are shown by version and resumption."""
    rows = ((part, (_row(part, str(ending)), _offload_row(part, str(ending)))) for part in Part if part not in _BY_TLS)
    found = [(part, [row for row in places if row]) for part, places in rows]
    return [(part, places) for part, places in found if places]


@lru_cache(maxsize=256)
def _rows_by_tls(ending: Ending, version: str, resumed: str) -> Sequence[tuple[Part, Row]]:
    """Return where the others count that are of this version, resumed or not."""
    values = labels({names.OUTCOME: str(ending), **_tls(version, resumed)})
    return [(part, (family, values)) for part, family in _BY_TLS.items()]


def _row(part: Part, ending: str) -> Row | None:
    outcome = {names.OUTCOME: ending}
    if part is Part.CLIENT_WAIT:
        return "ssllatency.handshake.client_wait", labels(outcome)
    if part in PHASES:
        return "ssllatency.handshake.phase", labels({names.PHASE: part, **outcome})
    if part in WAITS:
        return "ssllatency.handshake.wait", labels({names.WAIT: part.removeprefix(_WAIT_PREFIX), **outcome})
    if part in QUEUE_PARTS:
        return "ssllatency.handshake.queue", labels({names.PART: QUEUE_PARTS[part], **outcome})
    if part in PEER_PARTS:
        return "ssllatency.handshake.peer", labels({names.PART: PEER_PARTS[part], **outcome})
    if part in PROCESSOR_PARTS:
        return "ssllatency.handshake.processor", labels({names.PART: PROCESSOR_PARTS[part], **outcome})
    return None


def _offload_row(part: Part, ending: str) -> Row | None:
    if part not in OFFLOAD_PARTS:
        return None
    return "ssllatency.offload.wait", labels({names.PART: OFFLOAD_PARTS[part], names.OUTCOME: ending})


def _tls(version: str, resumed: str) -> dict[str, str]:
    """OpenTelemetry's attributes: a protocol's name is "tls" unless it is said."""
    found = {names.RESUMED: {"yes": "true", "no": "false"}.get(resumed, "")}
    for protocol in ("TLSv", "DTLSv", "SSLv"):
        if version.startswith(protocol):
            number = version.removeprefix(protocol)
            found[names.VERSION] = f"{number}.0" if number.isdecimal() and protocol != "SSLv" else number
            found[names.PROTOCOL] = protocol.removesuffix("v").lower() if protocol != "TLSv" else ""
            return found
    return {**found, names.VERSION: version}


def version_of(protocol: str, number: str) -> str:
    """Return what OpenSSL calls a version that has these attributes; `protocol` is "" for TLS."""
    if not number[:1].isdecimal():
        return number
    name = f"{protocol.upper() or 'TLS'}v{number}"
    return name.removesuffix(".0")


def of_host(snapshot: Snapshot) -> Iterator[Found]:
    """Return what is counted of all processes together."""
    yield "ssllatency.call.in_flight", (), snapshot.in_flight
    for loss in fields(snapshot.losses):
        yield "ssllatency.losses", labels({names.KIND: loss.name}), getattr(snapshot.losses, loss.name)
    if snapshot.cost:
        yield from _of_cost(snapshot.cost)
    if snapshot.handshakes:
        yield from _of_handshakes(snapshot.handshakes)
        if snapshot.handshakes.offload:
            yield from _of_offload(snapshot.handshakes.offload)
    yield from _observed(snapshot)


def _of_handshakes(handshakes: Handshakes) -> Iterator[Found]:
    if handshakes.accept_queues is not None:
        yield "ssllatency.accept_queue.overflows", (), handshakes.overflows
        yield "ssllatency.accept_queue.untold", (), handshakes.overflows_untold
    yield "ssllatency.handshake.in_flight", (), handshakes.in_flight
    for kind in ("dropped", "unattributed", "unsplit", "slept", "partial"):
        yield "ssllatency.losses", labels({names.KIND: f"handshakes_{kind}"}), getattr(handshakes, kind)
    yield "ssllatency.losses", labels({names.KIND: "certificates_untold"}), _without_facts(handshakes)


def _without_facts(handshakes: Handshakes) -> int:
    """The full handshakes of which it isn't known when their certificate expires."""
    unread = sum(one.count for one in handshakes.certificates or () if one.certificate is None)
    return handshakes.certificates_untold + unread


def _of_tallies(tallies: Tallies) -> Iterator[Found]:
    for cause in tallies.causes:
        if cause.ending != "success":
            why = {names.OUTCOME: cause.ending, names.ERROR: of_assigned(cause.reason), names.STATE: cause.state}
            alert = {names.ALERT: of_assigned(cause.alert), names.SENT: _known(cause.sent if cause.alert else None)}
            peer = {names.PEER_LEFT: _known(cause.peer_left), names.UNDELIVERED: _known(cause.undelivered)}
            yield "ssllatency.handshake.errors", labels({**why, **alert, **peer}), cause.count
    for label, family, name in ((Label.CIPHER, "ciphers", names.CIPHER), (Label.GROUP, "curves", names.CURVE)):
        for value, count in tallies.mix.get(label, {}).items():
            yield f"ssllatency.handshake.{family}", labels({name: value}), count
    for use in tallies.keys:
        kind_of_key = labels({names.OPERATION: use.operation, names.KEY: use.key})
        yield "ssllatency.private_key.operations", kind_of_key, use.count
        yield "ssllatency.private_key.time", kind_of_key, use.total_ns


def _known(fact: bool | None) -> str:
    """A label's value; "" is no label."""
    return "" if fact is None else "true" if fact else "false"


def _of_offload(offload: Offload) -> Iterator[Found]:
    yield "ssllatency.offload.waiting", (), offload.waiting
    for name in ("pauses", "handshakes", "software", "unseen"):
        yield f"ssllatency.offload.{name}", (), getattr(offload, name)
    for batches in offload.batches:
        function = {names.FUNCTION: batches.function}
        yield "ssllatency.offload.batches", labels(function), batches.count
        yield "ssllatency.offload.lanes", labels({**function, names.LANES: "used"}), batches.used
        empty = batches.lanes * batches.count - batches.used
        yield "ssllatency.offload.lanes", labels({**function, names.LANES: "empty"}), empty


def _of_cost(cost: TracingCost) -> Iterator[Found]:
    paid = {"traced": cost.total_ns, "others": cost.other_ns, "elsewhere": cost.elsewhere_ns}
    for payer, duration_ns in paid.items():
        yield "ssllatency.overhead.cpu", labels({names.PAYER: payer}), duration_ns
    if cost.cpu_ns is not None:
        yield "ssllatency.traced.cpu", (), cost.cpu_ns


def _observed(snapshot: Snapshot) -> Iterator[Found]:
    """1 for what is watched all the time."""
    ratios = dict.fromkeys((series.function for series in snapshot.series), 1.0)
    for part in snapshot.sampling:
        ratio = part.watched_s / part.duration_s if part.duration_s else 0.0
        ratios |= dict.fromkeys(part.functions, min(1.0, ratio))
    for function, ratio in ratios.items():
        yield "ssllatency.observed", labels({names.FUNCTION: function}), ratio
