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


@pytest.mark.usefixtures("tracing")
def test_the_demo_shows_the_private_keys(tmp_path: Path) -> None:
    done = subprocess.run(
        [DEMO], env=os.environ | {"TMPDIR": str(tmp_path)}, capture_output=True, text=True, check=True, timeout=120
    )
    for function in ("SSL_do_handshake", "rsa_ossl_private_encrypt", "ossl_ecdsa_sign"):
        assert f"@hist[{function}]:" in done.stdout
    assert re.search(r"==> .*ssllatency trace -p \d+ -d \d+", done.stderr)
    assert "RECORDED" not in done.stdout
    requests = [int(number) for number in re.findall(r"(\d+) requests", done.stderr)]
    signed = re.findall(r"@stat\[(?:rsa_ossl_private_encrypt|ossl_ecdsa_sign)\]: count (\d+)", done.stdout)
    assert len(requests) == 2
    assert sum(map(int, signed)) >= sum(requests)
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
    assert "@hist[rsa_ossl_private_encrypt]:" in done.stdout
    assert "CAP_BPF" in done.stderr
