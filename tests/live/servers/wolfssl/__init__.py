# SPDX-License-Identifier: Apache-2.0
"""A server by wolfSSL that blocks, which tells of each connection how its handshake ended. Compiled where libwolfssl-dev is."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import programs
from tests.live.servers.nginx import Certificate
from tests.waiting import wait_for

_HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class WolfServer:
    """A running one: the process to trace, its port, and what it has written."""

    pid: int
    port: int
    output: Path

    def told(self, number: int) -> list[list[str]]:
        """The ends of so many handshakes, once it has written them: "success", version, cipher, 1 where it was resumed, and the
        number of requests; or "failure" and wolfSSL's code."""
        wait_for(lambda: len(self._lines()) == number)
        return self._lines()

    def _lines(self) -> list[list[str]]:
        lines = self.output.read_text().splitlines()
        return [line.split() for line in lines if line.startswith(("success", "failure"))]


@contextmanager
def wolfssl_server(pair: Certificate, folder: Path, *options: str) -> Iterator[WolfServer]:
    """Serves until the end of the block; with "lazy" among the options, reads make its handshakes, and with "reuse"
    one connection of the library's is cleared for each client."""
    if not Path("/usr/include/wolfssl/ssl.h").exists():
        pytest.skip("libwolfssl-dev isn't installed: run tools/setup")
    program, output = folder / "wolfssl-server", folder / "output"
    if not program.exists():
        flags = ("-O2", "-Wall", "-Wextra", "-Werror")
        subprocess.run([programs.path("cc"), *flags, "-o", program, _HERE / "server.c", "-lwolfssl"], check=True)
    command = [program, pair.certificate, pair.key, *options]
    with output.open("wb") as file, subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file) as process:
        try:
            wait_for(lambda: "port" in output.read_text())
            yield WolfServer(process.pid, int(output.read_text().split()[1]), output)
        finally:
            process.kill()
