# SPDX-License-Identifier: Apache-2.0
"""Runs tests/live/servers/python/late_program.py: a server that comes to TLS late."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass
class Late:
    """tests/live/servers/python/late_program.py, running."""

    process: subprocess.Popen[str]
    port: int = 0

    def go(self) -> None:
        """Has the command's beginning go on, where it waits for a line."""
        self.say("go")
        self._hear_port()

    def _hear_port(self) -> None:
        assert self.process.stdout
        self.port = int(self.process.stdout.readline())

    def say(self, words: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()

    def hear(self) -> None:
        assert self.process.stdout
        assert self.process.stdout.readline() == "done\n"

    def do(self, words: str, connections: int = 0) -> None:
        """Has it do something, and makes so many connections meanwhile."""
        self.say(words)
        for _ in range(connections):
            connect(self.port)
        self.hear()


def connect(port: int) -> None:
    """One connection with one request, closed in good order."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), timeout=20) as plain, context.wrap_socket(plain) as tls:
        tls.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert tls.recv(4096)
        with suppress(OSError):
            tls.unwrap()


@contextmanager
def late(certificates: Path, *prefix: str, program: str = sys.executable, held: bool = False) -> Iterator[Late]:
    """A server that hasn't loaded libssl yet; `held`: nor started, but waits in `prefix` for go()."""
    pair = [str(certificates / f"ecdsa.{end}") for end in ("crt", "key")]
    script = shutil.copy(HERE / "python" / "late_program.py", certificates)  # the checkout may be where only root gets to
    command = [*prefix, program, str(script), *pair]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            server = Late(process)
            if not held:
                server._hear_port()
            yield server
        finally:
            assert process.stdin
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()  # a test that waits for it for ever would leave it to load the machine of all others
                raise
