# SPDX-License-Identifier: Apache-2.0
"""The times at which processes last executed another program. That ends all calls and handshakes that they had; their PIDs
stay."""

from __future__ import annotations

from collections.abc import Collection

from ssllatency.engines.clock import process_clock_ns

_FEW = 1024  # processes that are kept before it is looked which of them are there still
_APART_NS = 1_000_000_000


class Executed:
    """The times by CLOCK_MONOTONIC, as far as they are known: filled by whoever is told of them."""

    def __init__(self) -> None:
        self._at_ns: dict[int, int] = {}
        self._latest_ns = 0
        self._most = _FEW

    def note(self, pid: int, at_ns: int) -> None:
        """The process has executed another program."""
        self._at_ns[pid] = max(at_ns, self.at_ns(pid))
        self._latest_ns = max(at_ns, self._latest_ns)
        if len(self._at_ns) > self._most:
            self._at_ns = {pid: at_ns for pid, at_ns in self._at_ns.items() if process_clock_ns(pid) is not None}
            self._most = 2 * len(self._at_ns) + _FEW

    def at_ns(self, pid: int) -> int:
        """The last time that the process did; 0 where it isn't known to have done so."""
        return self._at_ns.get(pid, 0)

    def by_any(self, pids: Collection[int], since_ns: int, now_ns: int) -> bool:
        """Whether one of these processes did so since then, which is to be asked again only a second later."""
        if self._latest_ns <= since_ns or now_ns < since_ns + _APART_NS:
            return False
        return any(self.at_ns(pid) > since_ns for pid in pids)


NOT_KNOWN = Executed()
