# SPDX-License-Identifier: Apache-2.0
"""Links of each process of its own: who has them to which files, a new child from its start on, and nobody any more once it has
ended.

A link can't be had before its process is there. So the kernel tells of each new child of a target, and links are attached to it
before anything is read of it. That takes some 7 ms, as the kernel waits for a grace period of RCU (rcu_sync_enter() in
register_for_each_vma()) before the first of several links; each further one takes a tenth of a millisecond. Links stay when the
child executes another program. So nothing is missed of a child that maps the files only then, if the links were there before;
of one that has them mapped from its parent the first calls may be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping

from ssllatency.engines.bpf import kernel
from ssllatency.engines.source import FollowingSource
from ssllatency.targets import exists
from ssllatency.tracing.links.changed_code import unprobed

_WINDOW_NS, _MOST_OF_WINDOW_NS = 1_000_000_000, 250_000_000  # of each second, how much is spent on new children


class OwnLinks:
    """The processes that have links of their own, to the files of which numbers, and since when by CLOCK_MONOTONIC."""

    def __init__(
        self,
        session: FollowingSource,
        spared: Mapping[int, Collection[int]] | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`spared`: by number of a file, the processes that get no links to it, which was said already. `say` takes the
        sentence about each one that gets none later."""
        self._session, self._say = session, say
        now_ns = time.monotonic_ns()
        # By number of a file, who gets no links to it, and when that was seen.
        self._spared = {number: dict.fromkeys(pids, now_ns) for number, pids in (spared or {}).items()}
        self._since_ns: dict[int, dict[int, int]] = {}
        self._mapping: set[int] = set()  # processes that map any of the files, or have got their memory from one that does
        self._in_time: dict[int, set[int]] = {}  # the files that a process mapped when it had links to them
        self._window_ends_ns = self._spent_ns = 0
        if session.attachment.each_process:
            self._watch_children()
        for number, image in enumerate(session.attachment.images):
            self.note(image.pids, number)

    def _watch_children(self) -> None:
        """Has the kernel tell of children. A perf event takes it 0.1 s to end: too long for those that come and go."""
        attachment = self._session.attachment
        if attachment.following and attachment.method is not kernel.Method.PERF:
            attachment.following.tell_of_children()

    @property
    def are_needed(self) -> bool:
        """Whether there is a file to which each process has links of its own."""
        attachment = self._session.attachment
        return attachment.each_process or any(image.own_links for image in attachment.images)

    @property
    def pids(self) -> Collection[int]:
        """The processes that have links of their own, or are known to get none."""
        return self._since_ns.keys() | set().union(*self._spared.values())

    @property
    def spared(self) -> int:
        """The number of processes that get no links to some file."""
        return len(set().union(*self._spared.values()))

    def has(self, pid: int, number: int) -> bool:
        """Whether the process has links to that file."""
        return number in self._since_ns.get(pid, {})

    def spares(self, pid: int, number: int) -> bool:
        """Whether the process gets no links to that file."""
        return pid in self._spared.get(number, ())

    def is_mapping(self, pid: int) -> bool:
        """Whether the process is known to map any of the files."""
        return pid in self._mapping

    def note(self, pids: Iterable[int], number: int) -> None:
        """Takes it that the processes map this file, and have links to it by now."""
        if not self._session.attachment.has_own_links(number):
            return
        if not self._session.attachment.each_process:
            self._watch_children()
        for pid in pids:
            self._mapping.add(pid)
            if number not in self._since_ns.get(pid, {}):
                self._linked(pid, number)

    def _linked(self, pid: int, number: int) -> None:
        """Takes it that the process has got its links to that file now."""
        following = self._session.attachment.following
        if following and pid not in self._since_ns:
            following.watch(pid)
        self._since_ns.setdefault(pid, {})[number] = time.monotonic_ns()

    def note_mapping(self, pid: int, number: int, at_ns: int) -> bool:
        """Takes it that the process mapped the file then. False where it got its links to the file only after that."""
        if self._spared.get(number, {}).get(pid, at_ns) < at_ns:  # it may have executed another program
            del self._spared[number][pid]
        since_ns = self._since_ns.get(pid, {}).get(number)
        if since_ns is None:
            return True
        self._mapping.add(pid)
        if since_ns < at_ns:
            self._in_time.setdefault(pid, set()).add(number)
        return since_ns < at_ns

    def were_in_time(self, pid: int, numbers: Iterable[int]) -> bool:
        """Whether the process is known to have had links to all these files when it mapped them."""
        return self._in_time.get(pid, set()).issuperset(numbers)

    def include(self, pid: int, numbers: Iterable[int]) -> list[int]:
        """Attaches to the process those of the files that it maps and that aren't attached to it yet, but for those whose code
        it has changed; which these were. AttachError where the kernel refuses."""
        new = self._attach(
            pid, [number for number in numbers if self._session.attachment.has_own_links(number) and not self.has(pid, number)]
        )
        self._mapping |= {pid} if new else set()
        return new

    def spare(self, pid: int, number: int, sentence: str) -> None:
        """Takes it that the process gets no links to that file, and says why."""
        self._spared.setdefault(number, {})[pid] = time.monotonic_ns()
        self._say(sentence)

    def withdraw(self, pid: int, number: int) -> None:
        """Has the links of a process closed that has executed another program, whose owner wants none, and says so. It may have
        had probes for some milliseconds."""
        sentence = unprobed(self._session.attachment.images[number], [pid]).get(pid)
        if sentence:
            self._release({pid} & self._since_ns.keys())
            self.spare(pid, number, sentence)

    def include_child(self, pid: int, parent: int) -> bool:
        """Attaches to a new child what is attached to its parent; where the parent maps none of the files all of them, for
        what the child may execute. False where the last children have taken too long. AttachError where the kernel refuses."""
        self._release({pid} & self._since_ns.keys())  # an earlier process of that PID
        began_ns = time.monotonic_ns()
        if began_ns >= self._window_ends_ns:
            self._window_ends_ns, self._spent_ns = began_ns + _WINDOW_NS, 0
        if self.is_mapping(parent):
            self._mapping.add(pid)
        if self._spent_ns >= _MOST_OF_WINDOW_NS:
            return False
        of_parent = self._since_ns.get(parent, {}) if self.is_mapping(parent) else {}
        for pids in self._spared.values():
            pids |= {pid: began_ns} if parent in pids else {}  # it has its parent's memory until it maps the file anew
        numbers = sorted(of_parent) or range(len(self._session.attachment.images))
        self._attach(
            pid,
            [number for number in numbers if self._session.attachment.has_own_links(number) and not self.spares(pid, number)],
        )
        self._spent_ns += time.monotonic_ns() - began_ns
        return True

    def _attach(self, pid: int, numbers: Iterable[int]) -> list[int]:
        attached = []
        for number in numbers:
            sentence = unprobed(self._session.attachment.images[number], [pid]).get(pid)
            if sentence:
                self.spare(pid, number, sentence)
                continue
            self._session.include(number, [pid])
            self._linked(pid, number)
            attached.append(number)
        return attached

    def keep(self, present: set[int]) -> None:
        """Has the links closed of all processes but these: each hit walks the links of all."""
        self._mapping &= present
        for number, pids in self._spared.items():
            self._spared[number] = {pid: since_ns for pid, since_ns in pids.items() if pid in present or exists(pid)}
        self._release(self._since_ns.keys() - present)

    def _release(self, pids: Collection[int]) -> None:
        for pid in pids:
            del self._since_ns[pid]
            self._in_time.pop(pid, None)
            self._mapping.discard(pid)
        if pids:
            self._session.attachment.processes.release(pids)
