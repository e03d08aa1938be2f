# SPDX-License-Identifier: Apache-2.0
"""The programs of fixtures/wolfssl: a server that blocks, and a client, each of which tells how its handshakes ended."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fixtures import wolfssl
from tests.live.servers.nginx import Certificate
from tests.waiting import wait_for


@dataclass(frozen=True)
class WolfProgram:
    """A running one: its process, and what it has written."""

    process: subprocess.Popen[bytes]
    output: Path

    @property
    def pid(self) -> int:
        """The process to trace."""
        return self.process.pid

    @property
    def port(self) -> int:
        """That of a server."""
        return int(self.output.read_text().split()[1])

    def connect(self, times: int) -> list[list[str]]:
        """Has a client make so many connections; what it tells of them."""
        assert self.process.stdin
        before = len(self._lines())
        self.process.stdin.write(b"\n" * times)
        self.process.stdin.flush()
        return self.told(before + times)[before:]

    def told(self, number: int) -> list[list[str]]:
        """The ends of so many handshakes, once it has written them: "success", version, cipher, 1 where it was resumed, and a
        server's number of requests, or how often a client had to make the call again; or "failure" and wolfSSL's code."""
        wait_for(lambda: len(self._lines()) == number)
        return self._lines()

    def _lines(self) -> list[list[str]]:
        lines = self.output.read_text().splitlines()
        return [line.split() for line in lines if line.startswith(("success", "failure"))]


@contextmanager
def wolfssl_server(pair: Certificate, folder: Path, *options: str, built_in: bool = False) -> Iterator[WolfProgram]:
    """Serves until the end of the block, with some of the options that server.c names."""
    program = wolfssl.build("server", folder, built_in=built_in)
    with _running([program, pair.certificate, pair.key, *options], folder / "server-output") as server:
        yield server


@contextmanager
def wolfssl_client(
    pair: Certificate, trusted: Path, port: int, folder: Path, *options: str, built_in: bool = False
) -> Iterator[WolfProgram]:
    """One that has made no connection yet, with this certificate of its own and some of the options that client.c names."""
    program = wolfssl.build("client", folder, built_in=built_in)
    output = folder / "-".join(("client-output", str(port), *options))
    with _running([program, pair.certificate, pair.key, str(port), trusted, *options], output) as client:
        yield client


@contextmanager
def _running(command: Sequence[str | Path], output: Path) -> Iterator[WolfProgram]:
    with (
        output.open("wb") as file,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=file, stderr=file) as process,
    ):
        try:
            wait_for(lambda: output.read_text().endswith("\n"))
            yield WolfProgram(process, output)
        finally:
            process.kill()
