# SPDX-License-Identifier: Apache-2.0
"""Processes that wait for a look, and how much of that is done at a time."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ssllatency.engines.follow.mappings import MappingNotice
from ssllatency.tracing.late.files import Told
from ssllatency.tracing.late.notes import LOOK_S

_SOON_S = 0.1  # how often it is looked who is there at most, when processes start
_MOST_LOOK_S = 0.25  # a process may map new files for ever: one look takes so long
_MOST_WAITING = 4096
_MOST_TOLD = 256  # mappings of one process that wait to be looked at


class LookTimes:
    """The times at which to look who is there, and how long one look may take."""

    def __init__(self) -> None:
        self._looked_at, self._joined, self._ends = 0.0, 0, 0.0

    def begin(self) -> None:
        """A look begins."""
        self._ends = time.monotonic() + _MOST_LOOK_S

    @property
    def is_late(self) -> bool:
        """Whether this look has taken its time: what is left waits for the next one."""
        return time.monotonic() >= self._ends

    def is_time(self, joined: int) -> bool:
        """Whether it is time to look who is there, which then counts as done; `joined`: how many processes have become targets
        by now."""
        now = time.monotonic()
        if now < self._looked_at + (_SOON_S if joined != self._joined else LOOK_S):
            return False
        self._looked_at, self._joined = now, joined
        return True


class WaitingProcesses:
    """The processes that wait to be looked at, each with what the kernel has told that it mapped; and those that were `looked`
    at."""

    def __init__(self) -> None:
        self.looked: set[int] = set()  # nobody: what was mapped while the probes were attached isn't told of
        self.unasked: dict[tuple[int, int], str] = {}
        """Paths by process and number of the file, of processes that couldn't be asked yet whether they have opted out."""
        self._told: dict[int, Told] = {}

    def __contains__(self, pid: int) -> bool:
        return pid in self._told

    def first(self, most: int) -> list[int]:
        """So many of them at most, those first that have waited longest."""
        return list(self._told)[:most]

    def add(self, pid: int) -> None:
        """Puts a process on the list, whatever it maps."""
        self._told.setdefault(pid, {})

    def add_again(self, pid: int, mapped: Told) -> None:
        """Puts a process on the list that was looked at, with these of what it has mapped and what it has mapped since."""
        self._told[pid] = mapped | self._told.get(pid, {})

    def add_new(self, pids: Iterable[int]) -> None:
        """Puts those on the list that aren't there yet, in this order, as many as there is room for."""
        for pid in [pid for pid in pids if pid not in self._told][: _MOST_WAITING - len(self._told)]:
            self._told[pid] = {}

    def hear(self, mapping: MappingNotice) -> None:
        """Takes what a process has mapped, as long as there is room."""
        if mapping.pid in self._told or len(self._told) < _MOST_WAITING:
            told = self._told.setdefault(mapping.pid, {})
            if len(told) < _MOST_TOLD:
                told.setdefault((mapping.numbers, mapping.path), mapping)

    def take(self, pid: int) -> Told:
        """Take a process off the list: the mappings that it is told to have made."""
        return self._told.pop(pid, {})

    def put_off(self, pid: int, mapped: Told) -> None:
        """Has a process wait again: the newest of what it has mapped, which isn't all looked at, and of what it maps since."""
        self._told[pid] = dict(list((mapped | self.take(pid)).items())[-_MOST_TOLD:])
