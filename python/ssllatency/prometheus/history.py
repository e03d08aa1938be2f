# SPDX-License-Identifier: Apache-2.0
"""A recording of one service, made of what Prometheus keeps: a run for each instance, an interval for each step.

Counts are differences of the exporter's own counters at the ends of an interval, so they are exact, and reports, comparisons
and pages take them as they take a recording. What the metrics don't have is absent: extremes, linear histograms, single
handshakes, and how long those took that failed for one reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from itertools import pairwise

from ssllatency.data_class import dataclass
from ssllatency.errors import SsllatencyError
from ssllatency.export.metrics import families as names
from ssllatency.export.metrics.collect import PEER_PARTS, PROCESSOR_PARTS, QUEUE_PARTS, version_of
from ssllatency.export.metrics.facts import PLACES, bounded, outcome_of
from ssllatency.export.metrics.families import BY_NAME
from ssllatency.export.metrics.ledger import Value, added
from ssllatency.export.metrics.points import Distribution
from ssllatency.model.handshakes import (
    NO,
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
    Part,
    Times,
)
from ssllatency.model.histogram import ExponentialHistogram
from ssllatency.model.recording import Recording, Run
from ssllatency.model.snapshot import Losses, Outcome, Series, Snapshot
from ssllatency.prometheus.client import Prometheus, Range
from ssllatency.prometheus.samples import Samples, series_of
from ssllatency.reports.documents.recording import to_lines
from ssllatency.reports.documents.recording_reading import from_text
from ssllatency.units import printable

_INSTANCE = "instance"
_ROUNDING_NS = 1000  # what sums of seconds in floating point may differ by
_EMPTY = Distribution(0, ExponentialHistogram((), 0))
_WAITS = {part.removeprefix("wait_"): part for part in WAITS}
_RESUMED = {"true": YES, "false": NO}
_QUEUE = {name: part for part, name in QUEUE_PARTS.items()}
_PEER = {name: part for part, name in PEER_PARTS.items()}
_PROCESSOR = {name: part for part, name in PROCESSOR_PARTS.items()}
_OFFLOAD = {"completion": Part.COMPLETION}


@dataclass(frozen=True)
class Wanted:
    """The owner of the history: the service, and more conditions on series as PromQL has them ('instance=~"web.*"'), "" for
    none."""

    service: str
    matching: str = ""


def read(server: Prometheus, wanted: Wanted, over: Range) -> Recording:
    """The recording. SsllatencyError where there is none of the service in that time, or it isn't as the exporter writes it."""
    history = _History(server, wanted, over)
    try:
        runs = [run for instance in history.instances() for run in history.run(instance)]
    except (ValueError, ArithmeticError, OSError):
        raise _made_by_others(server) from None
    if not runs:
        raise SsllatencyError(_why_none(server, wanted, over))
    try:  # as if it had been kept: intervals whose numbers don't go together are left out, and a note says so
        runs = list(from_text("".join(to_lines(Recording(tuple(runs)), by_process=True)), server.name).runs)
    except SsllatencyError:
        raise _made_by_others(server) from None
    return Recording(tuple(runs), f"{printable(wanted.service)} from {_clock(over.start_s)} to {_clock(over.end_s)}")


def _made_by_others(server: Prometheus) -> SsllatencyError:
    return SsllatencyError(f"{server.name} has metrics of that service that aren't as `ssllatency export` writes them.")


def _why_none(server: Prometheus, wanted: Wanted, over: Range) -> str:
    """The sentence for no data: which services there are."""
    known = {
        series.labels.get(names.SERVICE, "")
        for series in series_of(server.query_range(f"group by (service) ({_metric('ssllatency.targets')})", over))
    }
    if not known:
        return f"{server.name} has no metrics of `ssllatency export` from {_clock(over.start_s)} to {_clock(over.end_s)}."
    if wanted.service not in known:
        services = ", ".join(printable(service) for service in sorted(known))
        return f"{server.name} knows no service {printable(wanted.service)} in that time, but {services}."
    return (
        f"{server.name} has no two samples of native histograms of {printable(wanted.service)} from {_clock(over.start_s)} to"
        f" {_clock(over.end_s)}: its scrape needs `scrape_native_histograms: true`, before Prometheus 3.8"
        " --enable-feature=native-histograms."
    )


def _metric(name: str) -> str:
    return BY_NAME[name].prometheus_name


def _clock(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


class _History:
    """All series that a recording takes, by metric."""

    def __init__(self, server: Prometheus, wanted: Wanted, over: Range) -> None:
        self._server, self._wanted, self._over = server, wanted, over
        service = '"' + wanted.service.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        self._of_service = ",".join(filter(None, (f"service={service}", wanted.matching)))
        self._of_host = wanted.matching
        self._read: dict[str, list[Samples]] = {}
        build = f"timestamp({_metric('ssllatency.build.info')}{{{self._of_host}}})"
        self._scraped = series_of(server.query_range(build, over))

    def instances(self) -> list[str]:
        """The exporters that counted the service."""
        counting = {samples.labels.get(_INSTANCE, "") for samples in self._series("ssllatency.targets")}
        return sorted(counting & {samples.labels.get(_INSTANCE, "") for samples in self._scraped})

    def run(self, instance: str) -> Iterator[Run]:
        """Return what an instance counted, where it did."""
        scraped = [samples for samples in self._scraped if samples.labels.get(_INSTANCE, "") == instance]
        times = {at_s: value for samples in scraped for at_s, value in samples.values.items() if isinstance(value, float)}
        steps = [self._over.start_s + number * self._over.step_s for number in range(self._steps())]
        ends = {round(at_s, 3): value for at_s, value in times.items()}
        intervals = [
            self._interval(instance, earlier, later, ends, scraped[-1].labels)
            for earlier, later in pairwise(steps)
            if ends.get(round(earlier, 3), 0) < ends.get(round(later, 3), 0) and round(earlier, 3) in ends
        ]
        if any(interval.series or (interval.handshakes and interval.handshakes.groups) for interval in intervals):
            yield Run(tuple(intervals), scraped[-1].labels.get("version", ""), "", self._over.step_s, (self._told(),))

    def _steps(self) -> int:
        return int((self._over.end_s - self._over.start_s) / self._over.step_s + 1e-6) + 1

    def _told(self) -> str:
        return (
            f"Read from {self._server.name}: the counters of service {printable(self._wanted.service)} every"
            f" {self._over.step_s:g} s. Extremes, single handshakes and how long those took that failed for one reason aren't"
            " among the metrics; losses are those of the host."
        )

    def _interval(
        self, instance: str, earlier: float, later: float, ends: Mapping[float, float], build: Mapping[str, str]
    ) -> Snapshot:
        span = _Span(instance, round(earlier, 3), round(later, 3))
        start_s, end_s = ends[span.earlier_s], ends[span.later_s]
        return Snapshot(
            host=instance,
            kernel=build.get("kernel", ""),
            engine=build.get("engine", ""),
            started=datetime.fromtimestamp(start_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            duration_s=round(end_s - start_s, 3),
            targets=(),
            series=tuple(self._functions(span)),
            losses=self._losses(span),
            notes=tuple(self._windows(span)),
            handshakes=self._handshakes(span),
        )

    def _functions(self, span: _Span) -> Iterator[Series]:
        reasons = {
            Outcome.RETRY: self._reasons("ssllatency.call.retries", span),
            Outcome.FAILURE: self._reasons("ssllatency.call.failures", span),
        }
        for (function, outcome), value in span.counted(self._series("ssllatency.call.duration"), names.FUNCTION, names.OUTCOME):
            if isinstance(value, Distribution) and value.buckets.count:
                of_these = reasons.get(Outcome(outcome), {}).get(function, {})
                yield Series(function, Outcome(outcome), None, value.total_ns, None, None, value.buckets, None, of_these)

    def _reasons(self, family: str, span: _Span) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for (function, reason), value in span.counted(self._series(family), names.FUNCTION, names.REASON):
            if not isinstance(value, Distribution) and value:
                found.setdefault(function, {})[reason] = round(value)
        return found

    def _handshakes(self, span: _Span) -> Handshakes:
        resumed = self._successful(span, names.RESUMED)
        versions = self._successful(span, names.PROTOCOL, names.VERSION)
        mix = {
            Label.VERSION: {version_of(protocol, version): count for (protocol, version), count in versions.items() if version},
            Label.CIPHER: self._counts(span, "ssllatency.handshake.ciphers", names.CIPHER),
            Label.RESUMED: {_RESUMED[told]: count for (told,), count in resumed.items() if told in _RESUMED},
            Label.GROUP: self._counts(span, "ssllatency.handshake.curves", names.CURVE),
        }
        return Handshakes(
            tuple(self._groups(span, mix[Label.RESUMED])),
            causes=tuple(self._causes(span)),
            keys=tuple(self._keys(span)),
            mix={label: counts for label, counts in mix.items() if counts},
            arrivals=bool(self._series("ssllatency.handshake.queue")),
            off_cpu=(known := bool(self._series("ssllatency.handshake.processor"))),
            quotas=known,  # whoever exports the one knows the other
        )

    def _successful(self, span: _Span, *by: str) -> dict[tuple[str, ...], int]:
        """Return how many handshakes succeeded, by these labels."""
        ended = span.counted(self._series("ssllatency.handshake.duration"), names.OUTCOME, *by)
        return {
            key[1:]: value.buckets.count
            for key, value in ended
            if key[0] == Ending.SUCCESS and isinstance(value, Distribution) and value.buckets.count
        }

    def _counts(self, span: _Span, family: str, by: str) -> dict[str, int]:
        """Return what a counter counted, by the values of a label."""
        return {
            value: round(count)
            for (value,), count in span.counted(self._series(family), by)
            if value and not isinstance(count, Distribution) and count
        }

    def _causes(self, span: _Span) -> Iterator[Cause]:
        by = names.OUTCOME, names.ERROR, names.ALERT, names.SENT, names.STATE, names.PEER_LEFT, names.UNDELIVERED
        for (outcome, reason, alert, sent, state, *freed), count in span.counted(
            self._series("ssllatency.handshake.errors"), *by
        ):
            if not isinstance(count, Distribution) and count:
                why = Ending(outcome), reason, 0, "", alert, sent == "true", state
                yield Cause(*why, round(count), None, *(known == "true" if known else None for known in freed))

    def _keys(self, span: _Span) -> Iterator[KeyUse]:
        by = names.OPERATION, names.KEY
        times = dict(span.counted(self._series("ssllatency.private_key.time"), *by))
        for (operation, key), count in span.counted(self._series("ssllatency.private_key.operations"), *by):
            time_s = times.get((operation, key))
            if not isinstance(count, Distribution) and not isinstance(time_s, Distribution) and count and time_s is not None:
                yield KeyUse(operation, key, round(count), round(time_s * 1e9))

    def _groups(self, span: _Span, resumed: Mapping[str, int]) -> Iterator[Group]:
        parts: dict[str, dict[Part, Distribution]] = {}
        for part, outcome, value in self._parts(span):
            if isinstance(value, Distribution):
                parts.setdefault(outcome, {})[part] = value
        facts = self._facts(span)
        for outcome, found in parts.items():
            if count := found.get(Part.WALL, _EMPTY).buckets.count:
                known = resumed if outcome == Ending.SUCCESS else {}
                resumption = known.get(YES, 0), sum(known.values())
                yield Group({}, Ending(outcome), _times(found), False, *resumption, bounded(facts.get(outcome, {}), count))

    def _facts(self, span: _Span) -> dict[str, dict[Fact, int]]:
        """Return what is counted beside the times, by outcome. Exporters of older versions have less of it."""
        facts: dict[str, dict[Fact, int]] = {}
        for fact, place in PLACES.items():
            for (outcome, value), count in span.counted(self._series(place.family), names.OUTCOME, place.label):
                if value == place.value and not isinstance(count, Distribution):
                    facts.setdefault(outcome_of(place, outcome), {})[fact] = round(count)
        return facts

    def _parts(self, span: _Span) -> Iterator[tuple[Part, str, Value]]:
        for part, family in (
            (Part.WALL, "ssllatency.handshake.duration"),
            (Part.CALLS, "ssllatency.handshake.calls"),
            (Part.CLIENT_WAIT, "ssllatency.handshake.client_wait"),
        ):
            for (outcome,), value in span.counted(self._series(family), names.OUTCOME):
                yield part, outcome, value
        phases = {str(part): part for part in PHASES}
        for family, label, known in (
            ("ssllatency.handshake.phase", names.PHASE, phases),
            ("ssllatency.handshake.wait", names.WAIT, _WAITS),
            ("ssllatency.handshake.queue", names.PART, _QUEUE),
            ("ssllatency.handshake.peer", names.PART, _PEER),
            ("ssllatency.handshake.processor", names.PART, _PROCESSOR),
            ("ssllatency.offload.wait", names.PART, _OFFLOAD),
        ):
            for (name, outcome), value in span.counted(self._series(family), label, names.OUTCOME):
                if name in known:
                    yield known[name], outcome, value

    def _losses(self, span: _Span) -> Losses:
        known = {loss.name for loss in fields(Losses)}
        lost = span.counted(self._series("ssllatency.losses", self._of_host), names.KIND)
        return Losses(
            **{kind: round(count) for (kind,), count in lost if kind in known and not isinstance(count, Distribution)}
        )

    def _windows(self, span: _Span) -> Iterator[str]:
        """Return what was watched for a part of the time only, so that its counts are of that part."""
        for samples in self._series("ssllatency.observed", self._of_host):
            ratio = samples.values.get(span.later_s, 1.0)
            if span.holds(samples) and isinstance(ratio, float) and ratio < 1:
                function = printable(samples.labels.get(names.FUNCTION, ""))
                yield f"{function} was watched for a part of the time only (--budget): its counts are those of that part."

    def _series(self, family: str, matching: str | None = None) -> list[Samples]:
        if family not in self._read:
            of = self._of_service if matching is None else matching
            self._read[family] = series_of(self._server.query_range(f"{_metric(family)}{{{of}}}", self._over))
        return self._read[family]


@dataclass(frozen=True)
class _Span:
    """An interval of one instance."""

    instance: str
    earlier_s: float
    later_s: float

    def holds(self, samples: Samples) -> bool:
        """Whether the series is the instance's."""
        return samples.labels.get(_INSTANCE, "") == self.instance

    def counted(self, series: Iterable[Samples], *by: str) -> list[tuple[tuple[str, ...], Value]]:
        """Return what the instance's series counted, added up by these labels."""
        labels = [name.replace(".", "_") for name in by]
        found: dict[tuple[str, ...], list[Value]] = {}
        for samples in filter(self.holds, series):
            value = samples.counted(self.earlier_s, self.later_s)
            if value is not None:
                found.setdefault(tuple(samples.labels.get(name, "") for name in labels), []).append(value)
        return [(key, added(values)) for key, values in found.items()]


def _times(found: Mapping[Part, Distribution]) -> dict[Part, Times]:
    """The parts of a group. The metrics' sums are floating point, so that parts can miss their whole by a rounding, which goes
    to the whole; where more is missing, they aren't of the same handshakes and stay as they are."""
    total_ns = {part: value.total_ns for part, value in found.items()}
    for whole, pieces in ((Part.CALLS, PHASES), (Part.WALL, (Part.CALLS, *WAITS))):
        sum_ns = sum(total_ns.get(piece, 0) for piece in pieces)
        if abs(total_ns.get(whole, 0) - sum_ns) <= _ROUNDING_NS:
            total_ns[whole] = sum_ns
    return {part: Times(total_ns[part], None, None, value.buckets) for part, value in found.items() if value.buckets.count}
