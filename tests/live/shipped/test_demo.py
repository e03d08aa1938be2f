# SPDX-License-Identifier: Apache-2.0
"""The demo, whole and interrupted: it shows the private keys at work and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[3] / "tools" / "demo"


def left_behind(folder: Path) -> list[str]:
    """What the demo's temporary folder holds, and the processes that name it."""
    running = subprocess.run(
        ["pgrep", "-a", "-f", str(folder)], capture_output=True, text=True, check=False
    ).stdout.splitlines()
    return [*(str(path) for path in folder.iterdir()), *running]


def first_sentence(report: str) -> str:
    return " ".join(report.partition("\n==> ")[2].partition("\n==> ")[0].split())


def assert_saturated(report: str) -> None:
    first = first_sentence(report)
    assert "is this server's own queue" in first
    assert "busy with other handshakes" in first


def run_demo(folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"TMPDIR": str(folder)}
    return subprocess.run([DEMO], env=environment, capture_output=True, text=True, check=True, timeout=120)


@pytest.mark.usefixtures("tracing")
def test_the_demo_shows_the_private_keys(tmp_path: Path) -> None:
    done = run_demo(tmp_path)
    if "had no processor" in first_sentence(done.stdout):  # something else ran on this machine, and the demo said so
        done = run_demo(tmp_path)
    assert re.search(r"==> .*ssllatency handshakes -p \d+ -d \d+", done.stderr)
    assert "RECORDED" not in done.stdout
    requests = [int(number) for number in re.findall(r"(\d+) requests", done.stderr)]
    keys = re.search(r"^  private key +RSA-2048 signing \d+ % .*, ECDSA P-256 signing \d+ % ", done.stdout, re.MULTILINE)
    assert keys or re.search(r"^  private key +ECDSA P-256 signing \d+ % .*, RSA-2048 signing", done.stdout, re.MULTILINE)
    successful = re.search(r"^\d+ handshakes in .*: (\d+) successful", done.stdout, re.MULTILINE)
    assert successful
    assert len(requests) == 2
    assert int(successful[1]) >= sum(requests)
    # It ends with the sentences, of which the first says that the server is saturated, and with what to try next.
    assert_saturated(done.stdout)
    assert done.stdout.rstrip().splitlines()[-1].startswith(("==> ", "    "))
    assert done.stderr.rstrip().splitlines()[-1].startswith("==> Next")
    assert left_behind(tmp_path) == []


@pytest.mark.usefixtures("tracing")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_demo_leaves_nothing(tmp_path: Path, number: signal.Signals, status: int) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    # A shell that starts the tests in its background has SIGINT ignored, and the demo would inherit that.
    command = ["env", "--default-signal=INT", DEMO]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stderr
        for line in demo.stderr:
            if "wrk" in line:
                break
        demo.send_signal(number)
        demo.stderr.read()
        assert demo.wait(20) == status
    assert left_behind(tmp_path) == []


def test_a_machine_that_may_not_trace_is_shown_a_recorded_measurement() -> None:
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", DEMO]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("RECORDED MEASUREMENT, not of this machine")
    assert "RSA-2048 signing" in done.stdout
    assert_saturated(done.stdout)
    assert done.stderr.rstrip().splitlines()[-1].startswith("==> Next: tools/ssllatency doctor")
    assert "CAP_BPF" in done.stderr
