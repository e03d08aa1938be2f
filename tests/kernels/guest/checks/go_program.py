# SPDX-License-Identifier: Apache-2.0
"""A Go program, the one of tests/go, whose goroutines change threads and whose stacks move: each count is its own. Its
goroutines are seen to wait for their peers, which some kernels tell by the register of a thread that is in a system call."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

from tests.kernels.guest.servers import Handshakes
from tests.live.commands.trace import Trace, count, losses

PROGRAM = Path(__file__).resolve().parents[4] / "build" / "go-program"
_CONNECTIONS = "80"
_HANDSHAKES = ("serverHandshake", "clientHandshake")
_EVERY = ("--role", "any")


def counted(*options: str) -> dict[str, Any]:
    """By `trace`, and by `handshakes` at the same time."""
    assert PROGRAM.is_file(), "run tools/for-tests/setup-go"
    with subprocess.Popen([PROGRAM, _CONNECTIONS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        with (
            Trace(process.pid, options=(*_EVERY, *options)) as trace,
            Handshakes(process.pid, options=(*_EVERY, "--by", "role", *options)) as handshakes,
        ):
            said, _ = process.communicate("x", timeout=300)
    own: dict[str, dict[str, int]] = json.loads(said)
    left = own["serverHandshake"].pop("left")
    assert losses(trace.document) == losses(handshakes.document) == {"left": left}
    seen = {
        name: {outcome: count(trace.document, f"tls.Conn.{name}", outcome) for outcome in outcomes}
        for name, outcomes in own.items()
    }
    assert seen == own, f"counted and expected differ: {seen} and {own}"
    ended = Counter[tuple[str, bool]]()
    for group in handshakes.document["handshakes"]["groups"]:
        ended[f"{group['labels']['role']}Handshake", group["ending"] == "success"] += group["parts"]["wall"]["count"]
    expected = {(name, outcome == "success"): number for name in _HANDSHAKES for outcome, number in own[name].items()}
    assert ended == expected, f"counted and expected differ: {ended} and {expected}"
    parts = Counter[str]()
    for group in handshakes.document["handshakes"]["groups"]:
        parts.update({part: times["count"] for part, times in group["parts"].items()})
    assert parts["wait_peer"] + parts["wait_peer_or_server"], f"no wait for a peer was seen: {parts}"
    return {"handshakes": sum(expected.values())}
