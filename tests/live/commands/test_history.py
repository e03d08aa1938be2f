# SPDX-License-Identifier: Apache-2.0
"""`report` and `diff --prometheus`: what a real Prometheus has scraped of an exporter's expositions comes back exactly."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from ssllatency.cli.main import run
from ssllatency.export.formats import protobuf
from ssllatency.export.metrics.collect import by_process
from ssllatency.export.metrics.points import Point, Reading, labels
from ssllatency.model.recording import Recording, Run
from ssllatency.reports.documents import document
from tests.foreign import needed
from tests.prometheus.programs import program
from tests.recordings import recording_of
from tests.waiting import wait_for

SERVICE = {"service": "nginx.service", "comm": "nginx"}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


class Exporter:
    """Serves what a service has counted by now, cumulative; each of its intervals is added by advance()."""

    def __init__(self, recording: Recording) -> None:
        self._recording, self.taken = recording, 0
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                content = protobuf.render(exporter.reading())
                self.send_response(200)
                kind = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def restart(self, recording: Recording) -> None:
        """Begins anew."""
        self.taken, self._recording = 0, recording

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.server_address[1]}"

    def counted(self) -> Any:
        return Recording((Run(self._recording.intervals[: self.taken]),)).total()

    def reading(self) -> Reading:
        points = [
            Point("ssllatency.build.info", labels({"version": "1", "engine": "libbpf", "kernel": "6.1"}), 1, 1.0),
            Point("ssllatency.targets", labels(SERVICE), 1, 1.0),
        ]
        if self.taken:
            for counts in by_process(self.counted()).values():
                points += [Point(family, labels({**SERVICE, **dict(of)}), value, 1.0) for (family, of), value in counts.items()]
        return Reading("web1", time.time(), tuple(points))


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    made = Exporter(recording_of(1, intervals=8, each=200))
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def prometheus(exporter: Exporter, tmp_path: Path) -> Iterator[str]:
    """The URL of a Prometheus that scrapes the exporter each 200 ms."""
    binary, port = needed(program("prometheus")), free_port()
    config = {
        "global": {"scrape_interval": "200ms", "scrape_timeout": "200ms"},
        "scrape_configs": [{"job_name": "s", "static_configs": [{"targets": [exporter.address]}]}],
    }
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))
    options = [
        f"--config.file={tmp_path}/prometheus.yml",
        f"--storage.tsdb.path={tmp_path}/data",
        "--enable-feature=native-histograms",
    ]
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen([str(binary), *options, f"--web.listen-address=127.0.0.1:{port}"], stderr=log)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(20)


def asked(url: str, expression: str) -> list[Any]:
    """The expression's series now; none while the server starts."""
    try:
        with urlopen(f"{url}/api/v1/query?{urlencode({'query': expression})}", timeout=10) as response:
            result: list[Any] = json.load(response)["data"]["result"]
            return result
    except OSError:
        return []


def scraped(url: str, exporter: Exporter) -> float:
    """Waits until Prometheus has what the exporter counts now; the time."""
    count = sum(series.count for series in exporter.counted().series) if exporter.taken else 0
    expression = "sum(histogram_count(ssllatency_call_duration_seconds))" if count else "ssllatency_build_info"
    wait_for(lambda: any(float(series["value"][1]) == (count or 1) for series in asked(url, expression)))
    return time.time()


def options(url: str, start_s: float, end_s: float, service: str = "nginx.service") -> list[str]:
    times = [datetime.fromtimestamp(at_s, UTC).isoformat() for at_s in (start_s, end_s)]
    return ["--prometheus", url, "--service", service, "--from", times[0], "--to", times[1], "--step", "500ms"]


def test_what_was_scraped_comes_back_exactly(
    exporter: Exporter, prometheus: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start_s = scraped(prometheus, exporter)
    for taken in range(1, 9):
        time.sleep(0.7)
        exporter.taken = taken
    end_s = scraped(prometheus, exporter) + 1
    time.sleep(1.2)

    assert run(["report", *options(prometheus, start_s, end_s), "--json"]) == 0
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
    assert run(["report", *options(prometheus, start_s, end_s), "--html", str(page)]) == 0
    assert "ssllatency" in page.read_text()
    capsys.readouterr()

    assert run(["report", *options(prometheus, start_s, end_s, "apache2.service")]) == 1
    assert "knows no service apache2.service in that time, but nginx.service." in capsys.readouterr().err
    assert run(["report", *options(prometheus, start_s - 1000, end_s - 1000)]) == 1
    assert "has no metrics of `ssllatency export`" in capsys.readouterr().err


def test_an_hour_against_an_earlier_one(exporter: Exporter, prometheus: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Seconds for hours: the same service with a key operation four times as long; the exporter has started anew in between."""
    first_s = scraped(prometheus, exporter)
    for taken in range(1, 9):
        time.sleep(0.5)
        exporter.taken = taken
    scraped(prometheus, exporter)
    exporter.restart(recording_of(2, intervals=8, each=200, key_ns=2_800_000))
    time.sleep(1)
    second_s = time.time()
    for taken in range(1, 9):
        time.sleep(0.5)
        exporter.taken = taken
    end_s = scraped(prometheus, exporter)
    apart = ["--against", f"{second_s - first_s:.3f}s"]
    assert run(["diff", *options(prometheus, second_s, end_s), *apart]) == 0
    printed = capsys.readouterr().out
    assert "private key" in printed
    assert "slower" in printed
