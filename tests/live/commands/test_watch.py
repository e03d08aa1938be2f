# SPDX-License-Identifier: Apache-2.0
"""`ssllatency watch` of a server that is made slow for a while: one recording is left of it, which names the cause. The
condition of `--fail-if` decides about the exit status."""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from ssllatency.model.arithmetic.handshake_sums import total
from ssllatency.model.handshakes import Ending, Part
from ssllatency.model.snapshot import Snapshot
from tests.live.clients.counted import TLS_1_3, Client
from tests.live.commands.trace import PROGRAM
from tests.live.commands.watch import Watch
from tests.live.servers.nginx import Nginx
from tests.live.servers.python_ssl import TlsServer, TlsSettings
from tests.waiting import meanwhile, wait_for

pytestmark = pytest.mark.usefixtures("tracing")

NAP_S, SLOW_S = 0.2, 3.0
WHEN = f"handshake p90 > {NAP_S * 500:.0f}ms for 2s"
# What the command gets: its variables, and its descriptors beyond the usual three.
COMMAND = """
import json, os, sys
descriptors = [int(name) for name in os.listdir("/proc/self/fd")]
links = [os.readlink(f"/proc/self/fd/{number}") for number in descriptors if os.path.exists(f"/proc/self/fd/{number}")]
facts = {name: value for name, value in os.environ.items() if name.startswith("SSLLATENCY_")}
print("to standard output")
with open(sys.argv[1], "w") as file:
    json.dump({"links": links, "facts": facts}, file)
"""


def busy(port: int) -> AbstractContextManager[None]:
    """Clients that come one after the other."""
    return meanwhile(Client(port, TLS_1_3).connect, 0.02)


def mean_ns(interval: Snapshot, part: Part) -> float:
    group = total(interval.handshakes, Ending.SUCCESS) if interval.handshakes else None
    return group.parts[part].total_ns / group.count if group and part in group.parts else 0


def test_a_server_that_is_slow_for_a_while_leaves_one_recording(certificates: Path, tmp_path: Path) -> None:
    slow, told, folder = tmp_path / "slow", tmp_path / "told", tmp_path / "$(touch owned) recordings"
    (tmp_path / "command.py").write_text(COMMAND)
    options = ("--before", "20s", "--after", "4s", "--quiet", "1m", "--run", f"python3 {tmp_path}/command.py {told}")
    with (
        TlsServer(certificates, TlsSettings(sleep_s=NAP_S, slow_while=str(slow))) as server,
        busy(server.port),
        Watch(folder, WHEN, server.pid, options=options) as watch,
    ):
        time.sleep(2)
        slow.touch()
        time.sleep(SLOW_S)
        slow.unlink()
        wait_for(lambda: watch.recordings and told.exists() and told.stat().st_size)
    [incident], [recording] = watch.incidents, watch.recordings
    assert (incident["condition"], incident["cut_short"]) == (WHEN, False)
    assert incident["recording"] == str(next(folder.iterdir()))
    assert incident["intervals"] == len(recording.intervals)
    assert not any(interval.series for interval in recording.intervals), "reads and writes had probes"
    [reading] = incident["readings"]
    assert reading["value"] > reading["limit"] == NAP_S * 500_000_000
    callbacks = [mean_ns(interval, Part.CALLBACKS) for interval in recording.intervals]
    assert min(callbacks[0], callbacks[-1]) < NAP_S * 500_000_000 < max(callbacks), "before, during and after"
    report = subprocess.run(
        [PROGRAM, "report", incident["recording"]], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert "the application's own callbacks" in " ".join(report.split("==>")[1].split())
    assert f"Recorded as '{WHEN}' began to hold" in " ".join(report.split())
    what = json.loads(told.read_text())
    assert what["facts"]["SSLLATENCY_RECORDING"] == incident["recording"]
    assert what["facts"]["SSLLATENCY_CONDITION"] == WHEN
    assert not [link for link in what["links"] if "bpf" in link or "perf" in link]


@pytest.mark.parametrize(
    ("command", "condition", "status", "words"),
    [
        ("handshakes", "handshake count >= 20 and failure < 5%", 3, "--fail-if holds: handshake count was 20 (>= 20)"),
        ("handshakes", "private key max > 1h", 0, ""),
        ("handshakes", "wait offload p99 > 1us", 0, "--fail-if doesn't hold, but wait offload p99 isn't known (> 1.00 us)"),
        ("trace", "SSL_do_handshake count = 1", 2, "expected one of >=, <=, >, <"),
        ("trace", "SSL_do_handshake count >= 20", 3, "--fail-if holds: SSL_do_handshake count was 20 (>= 20)"),
    ],
)
def test_a_condition_decides_about_the_exit_status(
    certificates: Path, command: str, condition: str, status: int, words: str
) -> None:
    with Nginx(certificates) as server:
        ssllatency = subprocess.Popen(
            [PROGRAM, command, "-p", str(server.master_pid), "-d", "600", "-i", "1", "--fail-if", condition],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert ssllatency.stderr
        first = ssllatency.stderr.readline()
        if status != 2:
            assert first.startswith("Tracing")
            Client(server.port["ecdsa"], TLS_1_3).connect_times(20)
            server.wait_idle()
            ssllatency.terminate()
        said = first + ssllatency.stderr.read()
        assert ssllatency.wait(30) == status
    assert words in said
