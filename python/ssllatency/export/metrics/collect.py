# SPDX-License-Identifier: Apache-2.0
"""From a snapshot to counts by process, and to the points that are the host's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from itertools import chain

from ssllatency.export.metrics import families as names
from ssllatency.export.metrics.facts import facts_of
from ssllatency.export.metrics.kept import KeptResults, Stage
from ssllatency.export.metrics.ledger import Counts, Row, Value, added
from ssllatency.export.metrics.points import Distribution, Labels, labels
from ssllatency.model.cost import TracingCost
from ssllatency.model.handshakes import MEANWHILE, PHASES, WAITS, Ending, Group, Handshakes, Label, Offload, Part, Tallies
from ssllatency.model.snapshot import Outcome, Series, Snapshot

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
}


Counted = Series | Group | Tallies
_Counted = list[tuple[Row, Value]]  # what is made of one


class ByProcess:
    """The counts of each process, and of OTHER. What is made of a series or group is kept as long as the snapshots have the
    very same one, of tallies as long as they are equal, and a process's counts as long as all of its parts are: then they are
    the same objects again."""

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
        rows: list[tuple[int, Counted]] = [
            *((series.pid or OTHER, series) for series in snapshot.series),
            *((_pid(group), group) for group in (handshakes.groups if handshakes else ())),
            *self._tallies.items(),
        ]
        by_pid: dict[int, list[_Counted]] = {}
        for pid, row in rows:
            by_pid.setdefault(pid, []).append(self._kept.of(Stage.ROW, id(row), (row,), _of_rows))
        return {pid: self._kept.of(Stage.PROCESS, pid, found, _summed) for pid, found in by_pid.items()}


def _of_rows(rows: Sequence[Counted]) -> _Counted:
    (row,) = rows
    if isinstance(row, Group):
        return _of_group(row)
    return [((family, values), value) for family, values, value in _of_row(row)]


def _of_row(row: Series | Tallies) -> Iterator[Found]:
    return _of_tallies(row) if isinstance(row, Tallies) else _of_series(row)


def _summed(parts: Sequence[_Counted]) -> Counts:
    counts: dict[Row, Value] = {}
    several: dict[Row, list[Value]] = {}
    for row, value in chain.from_iterable(parts):
        if row not in counts:
            counts[row] = value
        elif row in several:
            several[row].append(value)
        else:
            several[row] = [counts[row], value]
    for row, values in several.items():
        counts[row] = added(values)
    return counts


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


def _of_group(group: Group) -> _Counted:
    found: _Counted = [*facts_of(group)]
    rows = _rows(group.ending, group.text(Label.VERSION) or "", group.text(Label.RESUMED) or "")
    for part, times in group.parts.items():
        durations = Distribution(times.total_ns, times.exponential)
        for row in rows[part]:
            found.append((row, durations))
    return found


@lru_cache(maxsize=256)
def _rows(ending: Ending, version: str, resumed: str) -> Mapping[Part, Sequence[Row]]:
    """Return where the parts of handshakes count that ended so, of this version, resumed or not."""
    tls = _tls(version, resumed)
    return {part: [row for row in (_row(part, str(ending), tls), _offload_row(part, str(ending))) if row] for part in Part}


def _row(part: Part, ending: str, tls: Mapping[str, str]) -> Row | None:
    outcome = {names.OUTCOME: ending}
    if part is Part.WALL:
        return "ssllatency.handshake.duration", labels({**outcome, **tls})
    if part is Part.CLIENT_WAIT:
        return "ssllatency.handshake.client_wait", labels(outcome)
    if part is Part.CALLS:
        return "ssllatency.handshake.calls", labels({**outcome, **tls})
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
            why = {names.OUTCOME: cause.ending, names.ERROR: cause.reason, names.STATE: cause.state}
            alert = {names.ALERT: cause.alert, names.SENT: _known(cause.sent if cause.alert else None)}
            peer = {names.PEER_LEFT: _known(cause.peer_left), names.UNDELIVERED: _known(cause.undelivered)}
            yield "ssllatency.handshake.errors", labels({**why, **alert, **peer}), cause.count
    for label, family, name in ((Label.CIPHER, "ciphers", names.CIPHER), (Label.GROUP, "curves", names.CURVE)):
        for value, count in tallies.mix.get(label, {}).items():
            yield f"ssllatency.handshake.{family}", labels({name: value}), count
    for use in tallies.keys:
        kind_of_key = labels({names.OPERATION: use.operation, names.KEY: use.key})
        yield "ssllatency.private_key.operations", kind_of_key, use.count
        yield "ssllatency.private_key.time", kind_of_key, use.total_ns / 1e9


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
        yield "ssllatency.overhead.cpu", labels({names.PAYER: payer}), duration_ns / 1e9
    if cost.cpu_ns is not None:
        yield "ssllatency.traced.cpu", (), cost.cpu_ns / 1e9


def _observed(snapshot: Snapshot) -> Iterator[Found]:
    """1 for what is watched all the time."""
    ratios = dict.fromkeys((series.function for series in snapshot.series), 1.0)
    for part in snapshot.sampling:
        ratio = part.watched_s / part.duration_s if part.duration_s else 0.0
        ratios |= dict.fromkeys(part.functions, min(1.0, ratio))
    for function, ratio in ratios.items():
        yield "ssllatency.observed", labels({names.FUNCTION: function}), ratio
