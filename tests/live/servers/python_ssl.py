# SPDX-License-Identifier: Apache-2.0
"""A server of Python's ssl module in a process of its own, for what nginx never lets happen. It counts its handshakes."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.live.servers.nginx import make_certificate

PROGRAM = Path(__file__).with_name("python") / "python_program.py"


@dataclass(frozen=True)
class TlsSettings:
    """How the server is set up. `version` is a name of ssl.TLSVersion, "" for any; `curve` the only group; `client_ca` demands
    a certificate of clients. `sleep_s` is slept in the callback for the server's name, where `slow_while` names a file only
    while that is there, and where there is a `slow_name` only for that name; for `ask_s` that callback waits for an answer on a
    socket; `message_s` is slept when the library tells of the ClientHello. So many `contexts`, each with its own ticket keys,
    serve in turn. `lazy` shakes hands within the first SSL_read. A call that waits longer than `timeout_s` gives up; 0: the
    socket blocks, so that a handshake is one call. It sleeps for `accept_s` before it accepts a connection, of which `backlog`
    may wait. `send_buffer`: bytes of each connection's send buffer as the system is asked for it, 0 for the system's own."""

    kind: str = "rsa"
    version: str = ""
    curve: str = ""
    client_ca: str = ""
    sleep_s: float = 0.0
    slow_while: str = ""
    slow_name: str = ""
    message_s: float = 0.0
    contexts: int = 1
    ask_s: float = 0.0
    lazy: bool = False
    timeout_s: float = 20.0
    backlog: int = 4096
    accept_s: float = 0.0
    send_buffer: int = 0


@dataclass
class TlsServer:
    """The running server, from `with` to the end of the block."""

    certificates: Path
    settings: TlsSettings = field(default_factory=TlsSettings)

    def __enter__(self) -> Self:
        pair = make_certificate(self.settings.kind, self.certificates)
        settings = {**asdict(self.settings), "certificate": str(pair.certificate), "key": str(pair.key)}
        self._process = subprocess.Popen(
            [sys.executable, PROGRAM, json.dumps(settings)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.port = int(self._line().split()[1])
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        """The process to trace."""
        return self._process.pid

    def ends(self) -> dict[str, int]:
        """How many handshakes ended how, once no connection is left: "" is well, else Python's name of the reason."""
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: dict[str, int] = json.loads(self._line())
        return found

    def _line(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline()
