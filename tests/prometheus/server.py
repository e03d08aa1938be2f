# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus on loopback, on a port that the kernel chooses, with its data in a folder of the test's."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.prometheus.programs import needed_program, version

_STARTS_WITHIN_S = 60.0
_LISTENING = re.compile(r'"?Listening on"?.*address=(?P<address>127\.0\.0\.1:\d+)')


class Server:
    """Its HTTP interface, and its process."""

    def __init__(self, process: subprocess.Popen[bytes], address: str) -> None:
        self.process, self.url = process, f"http://{address}"

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that an expression has now. AssertionError for one that Prometheus refuses."""
        answer = self.get("/api/v1/query", {"query": expression})
        assert answer["status"] == "success", f"{expression}: {answer}"
        data = answer["data"]
        if data["resultType"] == "scalar":
            return [{"metric": {}, "value": data["result"]}]
        return list(data["result"])

    def query_range(self, expression: str, start_s: float, end_s: float, step_s: float) -> list[dict[str, Any]]:
        """The series that an expression has at some of these times."""
        times = {"start": f"{start_s:.3f}", "end": f"{end_s:.3f}", "step": f"{step_s:.3f}"}
        answer = self.get("/api/v1/query_range", {"query": expression, **times})
        assert answer["status"] == "success", f"{expression}: {answer}"
        return list(answer["data"]["result"])

    def value(self, expression: str) -> float | None:
        """The one number that an expression has now; None where it has none."""
        found = self.query(expression)
        assert len(found) < 2
        return float(found[0]["value"][1]) if found else None

    def get(self, path: str, parameters: dict[str, str] | None = None, *, method: str = "GET") -> Any:
        """The JSON of an answer, of a refusal as well."""
        url = f"{self.url}{path}" + (f"?{urllib.parse.urlencode(parameters)}" if parameters else "")
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refusal:
            return json.load(refusal)

    def is_ready(self) -> bool:
        """Whether it answers queries."""
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=30) as answer:
                return bool(answer.status == 200)
        except urllib.error.HTTPError:
            return False

    def wait_for(self, condition: Callable[[], bool], within_s: float = 60.0) -> None:
        """Until it holds; AssertionError where it doesn't in time, or the server has ended."""
        deadline = time.monotonic() + within_s
        while not condition():
            assert self.process.poll() is None, "Prometheus has ended"
            assert time.monotonic() < deadline, f"not within {within_s:g} s; targets: {self.get('/api/v1/targets')}"
            time.sleep(0.1)


@contextmanager
def prometheus(folder: Path, configuration: str, suite: str = "sid", options: Sequence[str] = ()) -> Iterator[Server]:
    """One that runs by this configuration. Skips the test where there is none of the suite."""
    program = needed_program("prometheus", suite)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prometheus.yml").write_text(configuration)
    # It ends with the test, however that ends.
    command = ["setpriv", "--pdeathsig", "KILL", program]
    command += [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    command += ["--web.listen-address=127.0.0.1:0", "--enable-feature=native-histograms", *options]
    log = folder / "prometheus.log"
    with log.open("wb") as output, subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output) as process:
        try:
            server = Server(process, _address(process, log))
            server.wait_for(server.is_ready)
            yield server
        finally:
            process.kill()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + _STARTS_WITHIN_S
    while time.monotonic() < deadline and process.poll() is None:
        if found := _LISTENING.search(log.read_text()):
            return found["address"]
        time.sleep(0.05)
    raise AssertionError(f"Prometheus doesn't listen: {log.read_text()[-2000:]}")


def scraping(address: str, hosts: dict[str, str], interval: str, suite: str = "sid", more: str = "") -> str:
    """A configuration that scrapes `address` for each host, which has a name and a path there. `more`: other lines."""
    lines = [more, "global:", f"  scrape_interval: {interval}", f"  evaluation_interval: {interval}"]
    lines += ["scrape_configs:", "- job_name: ssllatency"]
    if version(suite) >= (3, 8):  # before it is all a matter of --enable-feature, which does nothing since 3.9
        lines += ["  scrape_native_histograms: true"]
    lines += ["  static_configs:"]
    for name, path in hosts.items():
        lines += [f'  - targets: ["{address}"]', f'    labels: {{instance: "{name}", __metrics_path__: "{path}"}}']
    return "\n".join(lines) + "\n"
