# SPDX-License-Identifier: Apache-2.0
"""The read and write system calls of processes, which the kernel counts anyway (proc_pid_io(5)): what a server does while none
of its functions is probed. Calls by recv, send and their like aren't among them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


class IoCalls:
    """The calls of all processes that it was asked about. One that has ended counts as far as it was last seen."""

    def __init__(self, folder: Path = Path("/proc")) -> None:
        self._folder = folder
        self._seen: dict[int, int] = {}

    def total(self, pids: Iterable[int]) -> int | None:
        """All calls so far; None where nothing is known of them."""
        self._seen |= {pid: calls for pid in pids if (calls := self.of(pid)) is not None}
        return sum(self._seen.values()) if self._seen else None

    def of(self, pid: int) -> int | None:
        """Those of one process by now; None where they aren't known."""
        with suppress(OSError, ValueError, KeyError):
            lines = (self._folder / str(pid) / "io").read_text().splitlines()
            counts = {name: int(value) for name, _, value in (line.partition(":") for line in lines)}
            return counts["syscr"] + counts["syscw"]
        return None
