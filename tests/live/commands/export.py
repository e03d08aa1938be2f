# SPDX-License-Identifier: Apache-2.0
"""`ssllatency export` as a service would run it, and its two processes."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

from ssllatency.load.matrix.servers.process import free_ports
from tests.live.commands.trace import Trace
from tests.waiting import wait_for


class Export(Trace):
    """The export of some processes, on a free port of loopback, from `with` to the end of the block; with the budget that holds
    unless another is asked for."""

    SUBCOMMAND = "export"

    def __init__(self, *pids: int, options: tuple[str, ...] = (), port: int = 0) -> None:
        super().__init__(*pids, options=options, exact=False)
        self.port = port or free_ports(1)[0]
        place = self._command.index("-d")  # not "600", which may be a PID as well
        del self._command[place : place + 3]  # and --json
        self._command += ["--listen", f"127.0.0.1:{self.port}"]

    def __enter__(self) -> Self:
        super().__enter__()
        wait_for(self._is_ready, 20)
        return self

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=20):
                return True
        except urllib.error.HTTPError:
            return False

    def _keep(self, text: str) -> None:
        assert text == ""

    @property
    def tracer(self) -> int:
        """The PID of the process that traces."""
        return self._process.pid

    @property
    def speaker(self) -> int:
        """The PID of the process that speaks to the network."""
        children = Path(f"/proc/{self.tracer}/task/{self.tracer}/children").read_text().split()
        (found,) = [int(pid) for pid in children if f"socket:[{self._listening()}]" in descriptors(int(pid))]
        return found

    def _listening(self) -> str:
        """The inode of the socket that listens on the port."""
        wanted = f"0100007F:{self.port:04X}"
        lines = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
        (found,) = [fields[9] for fields in lines if fields[1] == wanted and fields[3] == "0A"]
        return found

    def end(self) -> int:
        """Waits until it has ended by itself, and says how."""
        return self._process.wait(30)

    def metrics(self) -> str:
        """What a person sees."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=20) as answer:
            text: str = answer.read().decode()
            return text


def descriptors(pid: int) -> list[str]:
    """What a process has open."""
    return [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()]


def status(pid: int) -> dict[str, str]:
    """The fields of /proc/PID/status."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
