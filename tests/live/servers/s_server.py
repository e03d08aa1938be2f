# SPDX-License-Identifier: Apache-2.0
"""`openssl s_server`, ours or another root's. Its sockets block; with `-www` its handshakes are made by a BIO."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.live.servers.nginx import Certificate, free_ports
from tests.waiting import wait_for


@dataclass(frozen=True)
class SServer:
    """A running one: the process to trace, its port, and what it has written."""

    pid: int
    port: int
    output: Path

    def errors(self) -> Counter[tuple[str, str]]:
        """The errors that it has met, by library and reason."""
        lines = [line.split(":") for line in self.output.read_text(errors="replace").splitlines() if ":error:" in line]
        return Counter((line[3], line[5]) for line in lines)


@contextmanager
def s_server(
    pair: Certificate, *options: str, root: Path | None = None, program: tuple[str, ...] = ("openssl",)
) -> Iterator[SServer]:
    """Serves until the end of the block, by that `program` of the root."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="ssllatency-s-server-", dir=root / "tmp" if root else None) as made:
        folder, inside = Path(made), Path(f"/{Path(made).relative_to(root)}" if root else made)
        shutil.copy(pair.certificate, folder / "crt")
        shutil.copy(pair.key, folder / "key")
        command = [*(["chroot", str(root)] if root else []), *program, "s_server", "-accept", f"127.0.0.1:{port}"]
        command += ["-cert", f"{inside}/crt", "-key", f"{inside}/key", *options]
        with (folder / "output").open("wb") as output:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output)
        try:
            wait_for(lambda: "ACCEPT" in (folder / "output").read_text())
            yield SServer(process.pid, port, folder / "output")
        finally:
            process.kill()
            process.communicate()
