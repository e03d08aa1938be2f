# SPDX-License-Identifier: Apache-2.0
"""`gnutls-serv`, GnuTLS' own server. It says of each handshake that fails why, and serves one client after the other."""

from __future__ import annotations

import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import programs
from tests.live.servers.nginx import Certificate, free_ports
from tests.waiting import wait_for

_FAILED = "Error in handshake: "


@dataclass(frozen=True)
class GnuTlsServ:
    """A running one: the process to trace, its port, and what it has written."""

    pid: int
    port: int
    output: Path

    def failed(self) -> Counter[str]:
        """The handshakes that have failed, by GnuTLS' sentence."""
        lines = self.output.read_text(errors="replace").splitlines()
        return Counter(line.removeprefix(_FAILED) for line in lines if line.startswith(_FAILED))


@contextmanager
def gnutls_serv(pair: Certificate, *options: str, page: str = "--http") -> Iterator[GnuTlsServ]:
    """Serves a page until the end of the block; with `page` "--echo", what clients send."""
    program, (port,) = programs.path("gnutls-serv"), free_ports(1)
    with tempfile.TemporaryDirectory(prefix="ssllatency-gnutls-") as folder:
        output = Path(folder, "output")
        command = [program, "--x509certfile", pair.certificate, "--x509keyfile", pair.key, "-p", str(port), page, *options]
        with (
            output.open("wb") as file,
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file) as process,
        ):
            try:
                wait_for(lambda: "done" in output.read_text(errors="replace"))
                yield GnuTlsServ(process.pid, port, output)
            finally:
                process.kill()
