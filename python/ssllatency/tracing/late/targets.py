# SPDX-License-Identifier: Apache-2.0
"""Processes that become targets later: they are noted for the report, and attached to where each has links of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence

from ssllatency.engines.attach.attachment import Attachment
from ssllatency.model.snapshot import Target
from ssllatency.targets import MappedFile, Process, process_of
from ssllatency.tracing.late.notes import Notes
from ssllatency.tracing.links.own_links import OwnLinks
from ssllatency.tracing.resolve import library_of
from ssllatency.tracing.seen_files import SeenFiles

_MOST_TARGETS = 4096


class LateTargets:
    """Enlists them. `hear` takes what the kernel has told by now, `arrive` is called when one comes; with `admits` each is let
    through to links that everyone shares."""

    def __init__(
        self,
        attachment: Attachment,
        seen: SeenFiles,
        links: OwnLinks,
        notes: Notes,
        hear: Callable[[], None],
        arrive: Callable[[], None],
        *,
        admits: bool,
    ) -> None:
        self._attachment, self._seen, self._links, self._notes = attachment, seen, links, notes
        self._hear, self._arrive, self._admits = hear, arrive, admits
        self.joined_late: set[int] = set()
        """Processes that were in the kernel's set only some time after they had become targets."""

    def enlist(self, pid: int, candidates: Sequence[MappedFile]) -> None:
        """Notes the process, which maps these files, and attaches to it, if it maps any that is traced for itself."""
        numbers = {
            number: file
            for file in candidates
            if (number := self._seen.number_of(file)) is not None and not self._links.spares(pid, number)
        }
        process, before = process_of(pid), self._attachment.targets.get(pid)
        if process is None or all(self._attachment.images[index].companion for index in numbers):
            return
        self._arrive()
        for number in numbers:
            self._attachment.processes.note_mapping(pid, self._attachment.images[number])
        if pid in self.joined_late:
            self._attachment.late.add(pid)
        if self._admits:
            self._attachment.admit(pid)
        if self._links.are_needed:
            self._attach_to(process, numbers, known=before is not None)
            numbers = {number: file for number, file in numbers.items() if not self._links.spares(pid, number)}
            if not numbers and before is None:
                return
        libraries = [library_of(self._attachment.images[index], deleted=file.deleted) for index, file in numbers.items()]
        earlier = before.libraries if before else ()
        if before or len(self._attachment.targets) < _MOST_TARGETS:
            self._attachment.targets[pid] = Target(pid, process.comm, tuple(dict.fromkeys((*earlier, *libraries))))

    def _attach_to(self, process: Process, numbers: Collection[int], *, known: bool) -> None:
        """Attaches to the process what it maps and isn't attached to it yet. What it has called before is lost, unless it is
        shown that it had the links before it mapped the files."""
        new = self._links.include(process.pid, numbers)
        numbers = [number for number in numbers if self._links.has(process.pid, number)]
        if not numbers:
            return
        if self._attachment.following and not known:
            self._hear()  # of mappings that were seen before they were told of
        said = process.pid in self._attachment.late and (known or not new)
        if said or self._links.were_in_time(process.pid, new if known else numbers):
            return
        self._attachment.late.add(process.pid)
        started_ns = process.start_time * 1e9 / os.sysconf("SC_CLK_TCK")
        self._notes.say_late(process.pid, time.clock_gettime_ns(time.CLOCK_BOOTTIME) - started_ns)
