# SPDX-License-Identifier: Apache-2.0
"""Files that a process has mapped and nobody has looked into yet: which of them hold TLS code, and their plans."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from ssllatency.errors import SsllatencyError
from ssllatency.stacks.file_names import has_library_name
from ssllatency.targets import MOST_OF_PROCESS, MappedFile, TracedFile, exists, holds_tls, may_hold_tls, recognised_file
from ssllatency.tracing.late.files import LateFiles, Told
from ssllatency.tracing.late.notes import Notes, name_of
from ssllatency.tracing.late.waiting import LookTimes, WaitingProcesses
from ssllatency.tracing.resolve import Recogniser, Resolved, open_images
from ssllatency.tracing.seen_files import SeenFiles


class NewFiles:
    """The files that processes of a run have mapped and that aren't known yet. Those that hold TLS code go to `files`."""

    def __init__(
        self,
        resolved: Resolved,
        stack: ExitStack,
        files: LateFiles,
        seen: SeenFiles,
        notes: Notes,
        times: LookTimes,
        waiting: WaitingProcesses,
    ) -> None:
        self._resolved, self._stack, self._files, self._seen = resolved, stack, files, seen
        self._notes, self._times, self._waiting = notes, times, waiting
        self._recognise = Recogniser(resolved.source, resolved.known_files)
        self._looked_into: dict[int, int] = {}  # by process, how many of the files that it mapped later

    def keep(self, present: set[int]) -> None:
        """Forgets the processes that aren't there any more."""
        self._looked_into = {pid: number for pid, number in self._looked_into.items() if pid in present}

    def unknown(self, pid: int, files: Sequence[MappedFile]) -> list[MappedFile]:
        """Those that aren't known yet; none where one file was asked for, or where enough of the process were looked into."""
        if self._resolved.selection.libraries:
            return []
        new = [file for file in files if not self._seen.is_examined(pid, file) and self._may_hold_tls(pid, file)]
        room = MOST_OF_PROCESS - self._looked_into.get(pid, 0)
        if new and (room <= 0 or self._seen.is_full):
            whose = f"{name_of(pid)} has mapped" if room <= 0 else "The processes have mapped"
            self._notes.say(f"{whose} so many new files that those it maps from now on aren't inspected.")
            return []
        return new[: max(0, room)]

    def _may_hold_tls(self, pid: int, file: MappedFile) -> bool:
        """By its name at once; of others each is looked at once. Those for which there is no time wait for the next look."""
        if has_library_name(file.path):
            return True
        if self._seen.is_dismissed(pid, file):
            return False
        if self._times.is_late:
            self._waiting.add(pid)
            return False
        try:
            holds = holds_tls(pid, file, self._recognise.holds)
        except SsllatencyError:
            if not exists(pid):  # another process may map it as well
                return False
            holds = may_hold_tls(file.path)  # then it is told why it can't be looked into
        if not holds:
            self._seen.dismiss(pid, file)
        return holds

    def take(self, pid: int, new: Sequence[MappedFile], mapped: Told) -> None:
        """Has those of the new files traced that hold TLS code. A file that can't be isn't looked into again."""
        self._seen.examine(pid, new)
        self._looked_into[pid] = self._looked_into.get(pid, 0) + len(new)
        try:
            files = self._recognised(pid, new)
            images = open_images(files, self._resolved.source, self._stack, self._files.beside(pid)) if files else ()
        except SsllatencyError:
            if not exists(pid):  # another process may map them as well
                self._seen.unexamine(pid, new)
            raise
        self._files.add(pid, [file.mapping for file in files], images, mapped)

    def _recognised(self, pid: int, new: Sequence[MappedFile]) -> list[TracedFile]:
        """Those that hold TLS code. One that is damaged, or can't be opened, doesn't keep the others from being traced."""
        files = []
        for mapping in new:
            try:
                file = recognised_file(pid, mapping, self._recognise)
            except SsllatencyError as error:
                if not exists(pid):
                    raise
                self._notes.refuse(f"{name_of(pid)} maps a file that can't be inspected: {error}")
                continue
            files += [file] if file else []
        return files
