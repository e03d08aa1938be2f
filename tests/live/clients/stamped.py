# SPDX-License-Identifier: Apache-2.0
"""Clients in a process of their own. Its kernel notes, by the clock that the tool has as well, when each flight left or
came."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

PROGRAM = Path(__file__).with_name("stamped_program.py")


@dataclass(frozen=True)
class Stamping:
    """So many clients at a time, each with so many connections, one after the other. Each waits for `think_s` before its second
    flight, and for `between_s` after each connection."""

    clients: int = 1
    times: int = 1
    version: str = "TLSv1_2"
    think_s: float = 0.0
    between_s: float = 0.0


@dataclass(frozen=True)
class Stamps:
    """A handshake as its client's kernel saw it: the name it asked for, its port, the connection's least round trip, and when,
    in ns of CLOCK_MONOTONIC, it sent each flight, and received each piece of the server's, the last of which ends the
    handshake. When it asked for the connection and had it is by the client's own clock."""

    name: str
    port: int
    connecting_ns: int
    connected_ns: int
    round_trip_ns: int
    sent_ns: list[int]
    received_ns: list[int]

    @property
    def end_ns(self) -> int:
        return self.received_ns[-1]


def stamped(port: int, stamping: Stamping, processors: Iterable[int]) -> list[Stamps]:
    """Its handshakes, in the order in which they ended, once all are over. The clients run on these processors, before other
    processes there."""
    settings = {**asdict(stamping), "port": port, "processors": sorted(processors)}
    done = subprocess.run(
        [sys.executable, PROGRAM, json.dumps(settings)], capture_output=True, text=True, timeout=120, check=True
    )
    stamps = [Stamps(**each) for each in json.loads(done.stdout)]
    assert len(stamps) == stamping.clients * stamping.times, done.stderr
    return sorted(stamps, key=lambda each: each.end_ns)
