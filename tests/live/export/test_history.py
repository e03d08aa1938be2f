# SPDX-License-Identifier: Apache-2.0
"""`report` and `diff --prometheus`: what a real Prometheus has scraped of an exporter's expositions comes back exactly."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ssllatency.cli.command_line import run
from ssllatency.export.metrics.collect import PEER_PARTS, PROCESSOR_PARTS, QUEUE_PARTS, ByProcess
from ssllatency.export.metrics.kept import KeptResults
from ssllatency.export.metrics.points import Point, Reading, labels
from ssllatency.model.handshakes import SUMS, WITHIN, Cause, Ending, Fact, KeyUse, Label, Part
from ssllatency.model.recording import Recording, Run
from ssllatency.model.snapshot import Snapshot
from ssllatency.reports.diagnosis.diagnosis import diagnose
from ssllatency.reports.documents import document
from ssllatency.reports.rows.handshakes.facts import facts_sentence
from tests.measured.recordings import recording_of
from tests.prometheus.exporters import exporters
from tests.prometheus.server import Server, prometheus, scraping

SERVICE = {"service": "nginx.service", "comm": "nginx"}
MORE_PARTS = (*QUEUE_PARTS, *PEER_PARTS, *PROCESSOR_PARTS)
# What others are known of comes first.
ALL_FACTS = tuple(sorted(Fact, key=lambda fact: fact in WITHIN))


def with_causes(recording: Recording) -> Recording:
    """The same with handshakes that failed, for two reasons, were resumed and queued, with keys, versions, ciphers, groups, and
    connections that had everything that is counted."""
    failed = Ending.FAILURE, "no shared cipher", 0x0A0000C1, "SSL routines", "handshake failure", True, "SSLv3 read"
    cause = Cause(*failed, 3, 900)
    unknown = replace(cause, reason="", alert="", sent=False, state="", ending=Ending.ABANDONED, count=2)
    causes = (cause, unknown, replace(unknown, reason="freed", peer_left=True, undelivered=False, count=4))
    keys = (KeyUse("sign", "ECDSA P-256", 150, 150 * 70_000), KeyUse("decrypt", "", 1, 1_000_000))
    mix = {Label.CIPHER: {"TLS_AES_256_GCM_SHA384": 190, "unknown": 10}, Label.GROUP: {"X25519": 200}}
    labels_of_all = {Label.VERSION: "TLSv1.3", Label.RESUMED: "yes"}

    def with_more(interval: Snapshot) -> Snapshot:
        assert interval.handshakes
        groups = tuple(
            replace(
                group,
                labels=labels_of_all,
                resumed=group.count,
                resumption_known=group.count,
                parts={**group.parts, **dict.fromkeys(MORE_PARTS, group.parts[Part.REST])},
                facts=facts_of(group.count),
            )
            for group in interval.handshakes.groups
        )
        more = replace(interval.handshakes, groups=groups, causes=causes, keys=keys, mix=mix, by=tuple(labels_of_all))
        return replace(interval, handshakes=more)

    [only] = recording.runs
    return Recording((replace(only, intervals=tuple(map(with_more, only.intervals))),))


def facts_of(count: int) -> dict[Fact, int]:
    """Facts of so many handshakes, each another number."""
    facts = {fact: count * number if fact in SUMS else count - 3 * number for number, fact in enumerate(ALL_FACTS, 1)}
    return {**facts, Fact.UNPHASED: 2}


class Exporter:
    """What a service has counted by now, cumulative: the first `taken` intervals of a recording."""

    def __init__(self, recording: Recording) -> None:
        self._recording, self.taken = recording, 0

    def restart(self, recording: Recording) -> None:
        """Begins anew."""
        self.taken, self._recording = 0, recording

    def counted(self) -> Any:
        return Recording((Run(self._recording.intervals[: self.taken]),)).total()

    def reading(self) -> Reading:
        points = [
            Point("ssllatency.build.info", labels({"version": "1", "engine": "libbpf", "kernel": "6.1"}), 1, 1.0),
            Point("ssllatency.targets", labels(SERVICE), 1, 1.0),
        ]
        if self.taken:
            for counts in ByProcess(KeptResults()).read(self.counted()).values():
                points += [Point(family, labels({**SERVICE, **dict(of)}), value, 1.0) for (family, of), value in counts.items()]
        return Reading("web1", time.time(), tuple(points))


@pytest.fixture
def exporter() -> Exporter:
    return Exporter(with_causes(recording_of(1, intervals=8, each=200)))


@pytest.fixture
def server(exporter: Exporter, tmp_path: Path) -> Iterator[Server]:
    """A Prometheus that scrapes the exporter each 200 ms."""
    with (
        exporters({"/metrics": exporter.reading}) as address,
        prometheus(tmp_path, scraping(address, {"web1": "/metrics"}, "200ms")) as started,
    ):
        yield started


def scraped(server: Server, exporter: Exporter) -> float:
    """Waits until Prometheus has what the exporter counts now; the time."""
    count = sum(series.count for series in exporter.counted().series) if exporter.taken else 1
    expression = "sum(histogram_count(ssllatency_call_duration_seconds))" if exporter.taken else "ssllatency_build_info"
    server.wait_for(lambda: server.value(expression) == count)
    return time.time()


def options(url: str, start_s: float, end_s: float, service: str = "nginx.service") -> list[str]:
    times = [datetime.fromtimestamp(at_s, UTC).isoformat() for at_s in (start_s, end_s)]
    return ["--prometheus", url, "--service", service, "--from", times[0], "--to", times[1], "--step", "500ms"]


def why(causes: Iterable[Cause]) -> Counter[tuple[str, str, str, bool, str]]:
    """How many handshakes for each cause, as far as metrics tell causes apart."""
    found: Counter[tuple[str, str, str, bool, str]] = Counter()
    for cause in causes:
        found[cause.ending, cause.reason, cause.alert, cause.sent and bool(cause.alert), cause.state] += cause.count
    return found


def test_what_was_scraped_comes_back_exactly(
    exporter: Exporter, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start_s = scraped(server, exporter)
    for taken in range(1, 9):
        time.sleep(0.7)
        exporter.taken = taken
    end_s = scraped(server, exporter) + 1
    time.sleep(1.2)

    assert run(["report", *options(server.url, start_s, end_s), "--json"]) == 0
    read, true = document.from_json(capsys.readouterr().out), exporter.counted()
    assert {(one.function, one.outcome): (one.count, one.total_ns, one.exponential) for one in read.series} == {
        (one.function, one.outcome): (one.count, pytest.approx(one.total_ns, abs=2), one.exponential) for one in true.series
    }
    [group], [whole] = read.handshakes.groups, true.handshakes.groups
    assert {part: (times.count, times.exponential) for part, times in group.parts.items()} == {
        part: (times.count, times.exponential) for part, times in whole.parts.items()
    }
    assert set(MORE_PARTS) < set(group.parts)
    assert group.facts == whole.facts
    assert group.facts.keys() == set(Fact)
    assert facts_sentence(read.handshakes) == facts_sentence(true.handshakes) != ""
    assert diagnose(read.handshakes) == diagnose(true.handshakes)
    assert "Resumption fails" in diagnose(read.handshakes)[0]
    assert read.handshakes.arrivals
    assert read.handshakes.off_cpu
    assert (group.resumed, group.resumption_known) == (whole.resumed, whole.resumption_known)
    assert why(read.handshakes.causes) == why(true.handshakes.causes)
    assert why(read.handshakes.causes)
    assert all(cause.total_ns is None for cause in read.handshakes.causes)
    keys = {(use.operation, use.key): (use.count, pytest.approx(use.total_ns, abs=1000)) for use in true.handshakes.keys}
    assert {(use.operation, use.key): (use.count, use.total_ns) for use in read.handshakes.keys} == keys
    assert keys
    of_all = {Label.VERSION: {"TLSv1.3": whole.count}, Label.RESUMED: {"yes": whole.count}}
    assert read.handshakes.mix == {**true.handshakes.mix, **of_all}
    assert group.adds_up
    assert group.parts["wall"].total_ns == pytest.approx(whole.parts["wall"].total_ns, abs=1000)
    assert read.duration_s == pytest.approx(end_s - start_s, abs=1.5)

    page = tmp_path / "page.html"
    assert run(["report", *options(server.url, start_s, end_s), "--html", str(page)]) == 0
    assert "ssllatency" in page.read_text()
    capsys.readouterr()

    assert run(["report", *options(server.url, start_s, end_s, "apache2.service")]) == 1
    assert "knows no service apache2.service in that time, but nginx.service." in capsys.readouterr().err
    assert run(["report", *options(server.url, start_s - 1000, end_s - 1000)]) == 1
    assert "has no metrics of `ssllatency export`" in capsys.readouterr().err


def test_an_hour_against_an_earlier_one(exporter: Exporter, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """Seconds for hours: the same service with a key operation four times as long; the exporter has started anew in between."""
    first_s = scraped(server, exporter)
    for taken in range(1, 9):
        time.sleep(0.5)
        exporter.taken = taken
    scraped(server, exporter)
    exporter.restart(recording_of(2, intervals=8, each=200, key_ns=2_800_000))
    time.sleep(1)
    second_s = time.time()
    for taken in range(1, 9):
        time.sleep(0.5)
        exporter.taken = taken
    end_s = scraped(server, exporter)
    apart = ["--against", f"{second_s - first_s:.3f}s"]
    assert run(["diff", *options(server.url, second_s, end_s), *apart]) == 0
    printed = capsys.readouterr().out
    assert "private key" in printed
    assert "slower" in printed
