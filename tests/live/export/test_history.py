# SPDX-License-Identifier: Apache-2.0
"""`report` and `diff --prometheus`: what a real Prometheus has scraped of an exporter's expositions comes back exactly."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ssllatency.cli.main import run
from ssllatency.export.metrics.collect import ByProcess
from ssllatency.export.metrics.points import Point, Reading, labels
from ssllatency.model.recording import Recording, Run
from ssllatency.reports.documents import document
from tests.measured.recordings import recording_of
from tests.prometheus.exporters import exporters
from tests.prometheus.server import Server, prometheus, scraping

SERVICE = {"service": "nginx.service", "comm": "nginx"}


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
            for counts in ByProcess().read(self.counted()).values():
                points += [Point(family, labels({**SERVICE, **dict(of)}), value, 1.0) for (family, of), value in counts.items()]
        return Reading("web1", time.time(), tuple(points))


@pytest.fixture
def exporter() -> Exporter:
    return Exporter(recording_of(1, intervals=8, each=200))


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
