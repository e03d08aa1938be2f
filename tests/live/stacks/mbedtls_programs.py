# SPDX-License-Identifier: Apache-2.0
"""The program of fixtures/mbedtls/mbedtls.c as a server or as a client, which says how each of its handshakes ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fixtures.mbedtls import Build
from tests.live.servers.nginx import Certificate
from tests.live.stacks.telling import TellingProgram, running
from tests.waiting import wait_for


@dataclass(frozen=True)
class MbedProgram(TellingProgram):
    """One that makes handshakes in its `mode`; the first line of its `output` is a server's port."""

    mode: str

    @property
    def port(self) -> int:
        """That of a server."""
        return int(self.output.read_text().split()[0])

    def told(self, number: int) -> list[int]:
        """The codes, without their signs, of its handshakes, of which there are so many; waits until they have ended."""

        def codes() -> list[int]:
            lines = self.output.read_text().split()[1:]
            return [int(line, 16) for line in lines] if len(lines) >= number else []

        found: list[int] = wait_for(codes)
        assert len(found) == number
        return found


@contextmanager
def mbed_program(build: Build, pair: Certificate, mode: str, folder: Path, port: int | None = None) -> Iterator[MbedProgram]:
    """One that is ready, until the end of the block: a server, or a client of the server at `port`."""
    output = folder / f"{build.program.name}-{mode}"
    environment = {"LD_LIBRARY_PATH": str(build.libraries)} if build.libraries else {}
    command = [build.program, pair.certificate, pair.key, mode, *([str(port)] if port else [])]
    with running(command, output, environment) as process:
        yield MbedProgram(process, output, mode)
