#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is lost when an nginx at full speed is reloaded: by one link for all, and by links of each process's own.

    sudo make bench-reloads

Clients count their handshakes, each over a connection of its own; what `handshakes` counts less is lost. A new worker maps the
library from its master, so it can shake hands before it has links of its own. docs/reference/trace.md has what follows.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from tests.live.clients.counted import TLS_1_3, Client, ClientError
from tests.live.commands.handshakes import Shakes
from tests.live.servers.nginx import Nginx, Settings

from bench.measuring import command
from bench.page import machine

CLIENTS, PAUSE_S = 4, 0.7
HEAD = """\
| `--links` | workers | handshakes | lost | lost a reload | traced after its start, ms: median (longest) |
| --- | ---: | ---: | ---: | ---: | ---: |
"""


class Clients:
    """Threads that shake hands as fast as they can, until the end of the block, and count it."""

    def __init__(self, port: int) -> None:
        self._port, self._ended, self._counts = port, threading.Event(), [0] * CLIENTS
        self._threads = [threading.Thread(target=self._shake, args=(number,)) for number in range(CLIENTS)]

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _shake(self, number: int) -> None:
        client = Client(self._port, TLS_1_3)
        while not self._ended.is_set():
            try:
                client.connect()
            except (ClientError, OSError):  # a worker that ends closes what it has accepted and not yet read
                continue
            self._counts[number] += 1

    @property
    def handshakes(self) -> int:
        """How many succeeded."""
        return sum(self._counts)


def row(links: str, workers: int, reloads: int) -> str:
    """One nginx."""
    with (
        tempfile.TemporaryDirectory(prefix="ssllatency-bench-") as directory,
        Nginx(Path(directory), Settings(workers=workers, kinds=("ecdsa",))) as nginx,
        Shakes(nginx.master_pid, options=("--links", links)) as shakes,
    ):
        with Clients(nginx.port["ecdsa"]) as clients:
            for _ in range(reloads):
                time.sleep(PAUSE_S)
                os.kill(nginx.master_pid, signal.SIGHUP)
            time.sleep(PAUSE_S)
        time.sleep(PAUSE_S)  # the last of them have ended
    groups = shakes.document["handshakes"]["groups"]
    lost = max(0, clients.handshakes - sum(group["count"] for group in groups if group["ending"] == "success"))
    found = (re.search(r"was traced ([\d.]+) ms after it had started", note) for note in shakes.document["notes"])
    late_ms = [float(match[1]) for match in found if match]
    late = f"{statistics.median(late_ms):.0f} ({max(late_ms):.0f})" if late_ms else "-"
    return f"| {links} | {workers} | {clients.handshakes:,} | {lost} | {lost / reloads:.1f} | {late} |\n"


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reloads", type=int, default=10, metavar="N", help="of each nginx (10)")
    reloads: int = parser.parse_args().reloads

    def make_page() -> str:
        rows = (row(links, workers, reloads) for links in ("shared", "process") for workers in (1, 2))
        return f"{machine()}\n\n{HEAD}{''.join(rows)}"

    return command.run(make_page, None, "bench-reloads")


if __name__ == "__main__":
    sys.exit(main())
