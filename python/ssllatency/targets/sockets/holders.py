# SPDX-License-Identifier: Apache-2.0
"""Asks processes which sockets they hold: each when it comes, and again only now and then, as others may open sockets all the
time."""

from __future__ import annotations

import math
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from ssllatency.targets.sockets.listening import inodes_of

_MOST_DESCRIPTORS = 1024  # of a process: servers open the sockets on which they listen first
_AGAIN_S = 10.0


class Holders:
    """The processes of a network namespace that are asked. `hidden`: those whose descriptors may not be read."""

    def __init__(self) -> None:
        self.hidden: set[int] = set()
        self._asked: set[int] = set()
        self._again_s = -math.inf

    def ask(self, pids: Collection[int], proc: Path, *, again: bool) -> tuple[set[str], bool]:
        """The inode numbers of the sockets that those of `pids` hold who are asked now, and whether these are all of `pids`.
        `again`: there are sockets of which it isn't known who holds them."""
        now = time.monotonic()
        if again and self._asked and now >= self._again_s:
            self._asked.clear()
            self._again_s = now + _AGAIN_S
        inodes, all_asked = set[str](), not self._asked
        for pid in set(pids) - self._asked:
            with suppress(OSError):
                try:
                    inodes |= inodes_of(pid, _MOST_DESCRIPTORS, proc)
                    self.hidden.discard(pid)
                except PermissionError:
                    self.hidden.add(pid)
        self._asked = set(pids)
        self.hidden &= self._asked
        return inodes, all_asked
