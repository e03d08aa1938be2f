# SPDX-License-Identifier: Apache-2.0
"""Commands one after the other on a server whose workers outnumber the processors and preempt each other in the programs, until
the time is up. What the programs share wrongly shows as a wrong count, or as an oops, which ends the guest."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.kernels.guest.servers import Handshakes, assert_same, certificates
from tests.live.clients.counted import h2load
from tests.live.commands.snoop import Snoop
from tests.live.commands.trace import Trace, counts, losses
from tests.live.servers.nginx import Nginx, Settings

_CONNECTIONS, _PARALLEL, _WORKERS = 250, 16, 6
_EACH = ("SSL_do_handshake", "SSL_read", "SSL_write")  # once a connection


def stressed(seconds: float) -> dict[str, Any]:
    """Each command's counts are exact, run after run."""
    commands = (_traced, _handshaken, _snooped)
    runs, began = 0, time.monotonic()
    with Nginx(certificates(), Settings(workers=_WORKERS, reuseport=True)) as nginx:
        while time.monotonic() - began < seconds:
            commands[runs % len(commands)](nginx)
            runs += 1
    return {"runs": runs, "connections": runs * _CONNECTIONS, "preemption": preemption()}


def preemption() -> str:
    """How the scheduler says that it preempts: "none voluntary (full)"; "" where it doesn't say."""
    try:
        return Path("/sys/kernel/debug/sched/preempt").read_text().strip()
    except OSError:
        return ""


def _load(nginx: Nginx) -> dict[str, int]:
    expected = dict.fromkeys(_EACH, h2load(nginx.port["ecdsa"], _CONNECTIONS, parallel=_PARALLEL))
    nginx.wait_idle()
    return expected


def _traced(nginx: Nginx) -> None:
    with Trace(nginx.master_pid) as command:
        expected = _load(nginx)
    assert losses(command.document) == {}, f"trace lost: {losses(command.document)}"
    assert_same(counts(command.document, list(expected)), expected)


def _handshaken(nginx: Nginx) -> None:
    with Handshakes(nginx.master_pid) as command:
        expected = _load(nginx)
    assert losses(command.document) == {}, f"handshakes lost: {losses(command.document)}"
    assert command.successful == expected["SSL_do_handshake"], f"handshakes counted {command.successful} of {expected}"


def _snooped(nginx: Nginx) -> None:
    with Snoop(nginx.master_pid, options=("--json", "--buffer", "8192")) as command:
        expected = _load(nginx)
    dropped = [line for line in command.lines() if "dropped" in line]
    assert not dropped, f"snoop dropped: {dropped}"
    assert_same(Counter(call["function"] for call in command.calls() if call["outcome"] == "success"), expected)
