# SPDX-License-Identifier: Apache-2.0
"""The programs of fixtures/wolfssl: a server that blocks, and a client, each of which tells how its handshakes ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fixtures import wolfssl
from tests.live.servers.nginx import Certificate
from tests.live.stacks.telling import TellingProgram, running
from tests.waiting import wait_for


@dataclass(frozen=True)
class WolfProgram(TellingProgram):
    """One of the two."""

    @property
    def port(self) -> int:
        """That of a server."""
        return int(self.output.read_text().split()[1])

    def connect(self, times: int) -> list[list[str]]:
        """Has a client make so many connections; what it tells of them."""
        before = len(self._lines())
        self.ask(times)
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
    output = folder / "server-output"
    with running([program, pair.certificate, pair.key, *options], output) as process:
        yield WolfProgram(process, output)


@contextmanager
def wolfssl_client(
    pair: Certificate, trusted: Path, port: int, folder: Path, *options: str, built_in: bool = False
) -> Iterator[WolfProgram]:
    """One that has made no connection yet, with this certificate of its own and some of the options that client.c names."""
    program = wolfssl.build("client", folder, built_in=built_in)
    output = folder / "-".join(("client-output", str(port), *options))
    with running([program, pair.certificate, pair.key, str(port), trusted, *options], output) as process:
        yield WolfProgram(process, output)
