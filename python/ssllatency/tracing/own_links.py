# SPDX-License-Identifier: Apache-2.0
"""Links of each process of its own: who has them to which files, a new child from its start on, and nobody any more once it has
ended.

A link can't be had before its process is there. So the kernel tells of each new child of a target, and what is attached to its
parent is attached to it before anything is read of it: in a millisecond or two, if this process gets to run at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from ssllatency.engines.attach.attachment import Attachment
from ssllatency.engines.bpf import kernel


class Growing(Protocol):
    """A session that takes what comes later."""

    attachment: Attachment

    def include(self, index: int, pids: Sequence[int]) -> None:
        """Attaches the image of that number to processes that came later."""


class OwnLinks:
    """Which processes have links of their own, to the files of which numbers."""

    def __init__(self, session: Growing) -> None:
        self._session = session
        self._numbers: dict[int, set[int]] = {}
        for number, image in enumerate(session.attachment.images):
            self.note(image.pids, [number])
        attachment = session.attachment
        # A perf event takes the kernel 0.1 s to end: too long for children that come and go.
        if attachment.each_process and attachment.following and attachment.method is not kernel.Method.PERF:
            attachment.following.tell_of_children()

    def has(self, pid: int, number: int) -> bool:
        """Whether the process has links to that file."""
        return number in self._numbers.get(pid, ())

    def note(self, pids: Iterable[int], numbers: Iterable[int]) -> None:
        """Takes it that the processes have links to these files."""
        numbers = list(numbers)
        for pid in pids:
            self._numbers.setdefault(pid, set()).update(numbers)

    def include(self, pid: int, numbers: Iterable[int]) -> bool:
        """Attaches those of the files to the process that aren't attached to it yet; whether there were any. AttachError where
        the kernel refuses."""
        new = [number for number in numbers if not self.has(pid, number)]
        for number in new:
            self._session.include(number, [pid])
        self.note([pid], new)
        return bool(new)

    def include_child(self, pid: int, parent: int) -> bool:
        """Attaches to a new child what is attached to its parent; whether that is anything. AttachError as for include."""
        if pid in self._numbers:  # an earlier process of that PID
            self._release([pid])
        return self.include(pid, sorted(self._numbers.get(parent, ())))

    def keep(self, present: Collection[int]) -> None:
        """Has the links closed of all processes but these: each hit walks the links of all."""
        self._release([pid for pid in self._numbers if pid not in present])

    def _release(self, pids: Collection[int]) -> None:
        for pid in pids:
            del self._numbers[pid]
        if pids and self._session.attachment.each_process:
            self._session.attachment.processes.release(pids)
