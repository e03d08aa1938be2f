# SPDX-License-Identifier: Apache-2.0
"""The Collector that tools/for-tests/setup-collector builds, on a port of loopback: it passes on what it gets."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.foreign import TOP, Foreign, needed
from tests.machine import leave_out
from tests.waiting import wait_for

FOLDER = TOP / "build" / "collector"
# With neither a queue nor retries of its own, it answers what it was answered.
_CONFIGURATION = """
receivers:
  otlp:
    protocols:
      http:
        endpoint: 127.0.0.1:{port}
        {tls}
exporters:
  otlp_http:
    endpoint: {endpoint}
    sending_queue: {{enabled: false}}
    retry_on_failure: {{enabled: false}}
service:
  telemetry:
    metrics: {{level: none}}
  pipelines:
    metrics: {{receivers: [otlp], exporters: [otlp_http]}}
"""
_TLS = "tls: {{cert_file: {certificate}, key_file: {key}, client_ca_file: {ca}}}"


def program(name: str) -> Foreign:
    """The program that tools/for-tests/setup-collector builds: "collector" or "prometheus"."""
    if (FOLDER / f"{name}.made").exists():
        return Foreign(FOLDER / name / "usr" / "bin" / name)
    missing = FOLDER / f"{name}.missing"
    if missing.exists():
        return Foreign(None, f"{name} could not be built: {missing.read_text().strip()}")
    return Foreign(None, f"{name} is not here: run tools/for-tests/setup-collector")


def needed_collector() -> Path:
    """Its path. A machine without Go leaves the test out, as no package of Debian 12 has one that builds it."""
    found = program("collector")
    if found.path is None and not shutil.which("go"):
        leave_out("this machine has no Go, by which the OpenTelemetry Collector is built")
    return needed(found)


@contextmanager
def collector(folder: Path, port: int, endpoint: str, **tls: Path) -> Iterator[None]:
    """A Collector that listens on `port` and passes on to `endpoint`; with `certificate`, `key` and `ca` by mutual TLS."""
    program, log = needed_collector(), folder / "collector.log"
    configuration = folder / "collector.yaml"
    configuration.write_text(_CONFIGURATION.format(port=port, endpoint=endpoint, tls=_TLS.format(**tls) if tls else ""))
    # It ends with the test, however that ends.
    command = ["setpriv", "--pdeathsig", "KILL", program, "--config", configuration]
    with log.open("wb") as output, subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output) as process:

        def is_ready() -> bool:
            assert process.poll() is None, f"the Collector has ended: {log.read_text()[-2000:]}"
            return "Everything is ready" in log.read_text()

        try:
            wait_for(is_ready)
            yield
        finally:
            process.terminate()
            process.wait(30)
