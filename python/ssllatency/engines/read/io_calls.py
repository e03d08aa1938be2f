# SPDX-License-Identifier: Apache-2.0
"""The read and write system calls of processes, which the kernel counts anyway (proc_pid_io(5)): what a server does while none
of its functions is probed. Calls by recv, send and their like aren't among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path


class IoCalls:
    """The calls of all processes that it was asked about. One that has ended counts as far as it was last seen, one that has
    just been given a processor perhaps as it was before that processor's last tick.

    `clock` tells how long a process has run: of one that hasn't run nothing is read again. None: it doesn't tell in time.
    """

    def __init__(self, folder: Path = Path("/proc"), clock: Callable[[int], int | None] | None = None) -> None:
        self._folder, self._clock = folder, clock
        self._seen: dict[int, int] = {}
        self._had_run: dict[int, int | None] = {}

    def total(self, pids: Iterable[int]) -> int | None:
        """All calls so far; None where nothing is known of them."""
        if self._clock:
            had_run, self._had_run = self._had_run, {pid: self._clock(pid) for pid in pids}
            pids = [pid for pid, ns in self._had_run.items() if ns is not None and had_run.get(pid) != ns]
        self._seen |= {pid: calls for pid in pids if (calls := self.of(pid)) is not None}
        return sum(self._seen.values()) if self._seen else None

    def of(self, pid: int) -> int | None:
        """Those of one process by now; None where they aren't known. Without pathlib: there may be hundreds of them."""
        with suppress(OSError, ValueError, KeyError), open(f"{self._folder}/{pid}/io", "rb", buffering=0) as file:  # noqa: PTH123
            words = file.read().split()
            counts = dict(zip(words[::2], words[1::2], strict=False))
            return int(counts[b"syscr:"]) + int(counts[b"syscw:"])
        return None
