# SPDX-License-Identifier: Apache-2.0
"""A Prometheus of our own: loopback only, in a folder of its own, ended by its own handle. tools/setup-prometheus has it."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ssllatency.load.matrix.servers.process import free_ports
from tests.prometheus import programs

_FEATURES = "native-histograms"  # and from 3.8 on the setting of a scrape, which older ones don't know
_CONFIGURATION = """\
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: ssllatency
    {settings}
    static_configs: [{{targets: ["127.0.0.1:{target}"]}}]
"""
START_TIMEOUT_S = 30.0


def program(name: str) -> str:
    """The path of prometheus or promtool; a skip where it isn't here."""
    return str(programs.needed_program(name))


class Prometheus:
    """Scrapes a port of loopback each second. `settings`: a line of the scrape's configuration."""

    def __init__(self, folder: Path, target: int, settings: str = "scrape_protocols: [PrometheusProto]") -> None:
        (self._port,) = free_ports(1)
        (folder / "prometheus.yml").write_text(_CONFIGURATION.format(target=target, settings=settings))
        self._log = folder / "prometheus.log"
        self._command = [
            program("prometheus"),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
            f"--enable-feature={_FEATURES}",
        ]

    def __enter__(self) -> Self:
        with self._log.open("w") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.wait_for(lambda: bool(self._get("/-/ready")), START_TIMEOUT_S)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(20)

    def wait_for(self, condition: Any, timeout_s: float = 20.0) -> None:
        """Waits until that is so."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Prometheus: what was waited for didn't come: {self._log.read_text()[-2000:]}")
            time.sleep(0.05)

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """The vector that an expression gives now: labels and values, nan for a histogram."""
        answer = json.loads(self._get(f"/api/v1/query?{urllib.parse.urlencode({'query': expression})}"))
        return [(one["metric"], float(one.get("value", (0, "nan"))[1])) for one in answer["data"]["result"]]

    def value(self, expression: str) -> float | None:
        """The one value that an expression gives now, None for none."""
        found = self.query(expression)
        assert len(found) < 2
        return found[0][1] if found else None

    def _get(self, path: str) -> bytes:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=10) as answer:
                content: bytes = answer.read()
                return content
        except (OSError, urllib.error.URLError):
            return b""
