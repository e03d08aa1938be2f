# SPDX-License-Identifier: Apache-2.0
"""Files that a process has mapped and nobody has looked into yet: which of them hold TLS code, and their plans."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice

from ssllatency.errors import SsllatencyError, TooManyOpenFiles
from ssllatency.probes.plan import FilePlan
from ssllatency.stacks.file_names import has_library_name
from ssllatency.targets import MOST_OF_PROCESS, MappedFile, TracedFile, exists, may_hold_tls, open_file, tls_candidates
from ssllatency.tracing.allowance import owner
from ssllatency.tracing.file_facts import NotInspectedError
from ssllatency.tracing.late.files import LateFiles, Told
from ssllatency.tracing.late.notes import Notes, name_of
from ssllatency.tracing.late.waiting import LookTimes, WaitingProcesses
from ssllatency.tracing.plan_source import PlanSource, is_traced
from ssllatency.tracing.resolve import Resolved, open_images
from ssllatency.tracing.seen_files import SeenFiles

_MOST_FILES = 8  # a process may map new files for ever: one look takes so many of a process; the rest waits for the next one
_MOST_LEFT, _AGAIN_S = 4096, 60.0


class NewFiles:
    """The files that processes of a run have mapped and that aren't known yet. Each is opened and planned once; those that hold
    TLS code go to `files`."""

    def __init__(
        self,
        resolved: Resolved,
        files: LateFiles,
        seen: SeenFiles,
        notes: Notes,
        times: LookTimes,
        waiting: WaitingProcesses,
    ) -> None:
        self._resolved, self._files, self._seen = resolved, files, seen
        self._notes, self._times, self._waiting = notes, times, waiting
        self._looked_into: dict[int, int] = {}  # by process, how many of the files that it mapped later
        self._left: set[int] = set()  # processes of which a file wasn't looked into for want of room
        self._again_s = 0.0

    def keep(self, present: set[int]) -> None:
        """Forgets the processes that aren't there any more."""
        self._looked_into = {pid: number for pid, number in self._looked_into.items() if pid in present}

    def look_into(
        self, pid: int, candidates: list[MappedFile], mapped: Told, hear: Callable[[int], Told]
    ) -> tuple[list[MappedFile], bool]:
        """Has those of the candidates traced that hold TLS code. Returns what the process maps by then, as its loader may have
        gone on meanwhile, and whether it maps more than one look takes. `mapped`: what the kernel has told of it, to which is
        added what `hear` says that it has told since. TooManyOpenFiles where no descriptor is left: the files are new still."""
        examined = 0
        with ExitStack() as passing:
            while True:
                unknown = self._unknown(pid, candidates, passing)
                if examined >= _MOST_FILES or (examined and self._times.is_late):
                    return candidates, next(unknown, None) is not None
                new = list(islice(unknown, _MOST_FILES - examined))
                if not new:
                    return candidates, False
                mapped |= hear(pid)
                candidates = self._take(pid, new, mapped)
                examined += len(new)

    def _unknown(self, pid: int, files: Sequence[MappedFile], stack: ExitStack) -> Iterator[TracedFile]:
        """Those that aren't known yet and may hold TLS, each opened when it is asked for, and open as long as `stack`. None
        where one file was asked for, or where enough of the process were looked into."""
        if self._resolved.selection.libraries:
            return
        room = MOST_OF_PROCESS - self._looked_into.get(pid, 0)
        for mapping in files:
            if self._seen.is_examined(pid, mapping):
                continue
            file = self._opened(pid, mapping, stack)
            if file is None:
                continue
            if room <= 0:
                self._notes.refuse(
                    f"{name_of(pid)} has mapped so many new files that those it maps from now on aren't inspected."
                )
                return
            if not self._seen.room.has_room(_user(file)):
                self._leave(
                    pid, mapping, "The processes have mapped so many new files that those they map now are inspected later."
                )
                continue
            yield file
            room -= 1

    def _opened(self, pid: int, mapping: MappedFile, stack: ExitStack) -> TracedFile | None:
        """The file, if it may hold TLS: by its name, or by what is in it. Files of other names for which there is no time wait
        for the next look. One that can't be opened doesn't keep the others from being traced."""
        is_library = has_library_name(mapping.path)
        if not is_library and self._seen.is_dismissed(pid, mapping):
            return None
        if not is_library and self._times.is_late:
            self._waiting.add(pid)
            return None
        try:
            with ExitStack() as own:  # a process may map thousands of files: only those that are to be planned stay open
                file = open_file(pid, mapping, own)
                if is_library or self._holds_traced(file):
                    stack.push(own.pop_all())
                    return file
        except TooManyOpenFiles:
            raise
        except NotInspectedError as obstacle:
            self._leave(pid, mapping, str(obstacle), for_now=obstacle.for_now)
            return None
        except SsllatencyError as error:
            if not exists(pid):  # another process may map it as well
                return None
            if may_hold_tls(mapping.path):
                self._note_examined(pid, [mapping])
                self._refuse(pid, error)
                return None
        self._seen.dismiss(pid, mapping)
        return None

    def _leave(self, pid: int, mapping: MappedFile, sentence: str, *, for_now: bool = True) -> None:
        """Says that a file isn't looked into, which is tried again if that holds only for now."""
        what = f"{mapping.path} {mapping.identity}"
        if for_now:
            self._notes.limit(sentence, what)
            if len(self._left) < _MOST_LEFT:
                self._left.add(pid)
        else:
            self._notes.refuse(sentence, what)
            self._seen.dismiss(pid, mapping)

    def due(self) -> list[int]:
        """The processes of which files weren't looked into, once it is time to try that again, in an order that nobody can
        choose: the first ones take what has come back by then."""
        now = time.monotonic()
        if now < self._again_s:
            return []
        due, self._left, self._again_s = self._left, set(), now + _AGAIN_S
        return random.sample(present := [pid for pid in due if exists(pid)], len(present))

    def _holds_traced(self, file: TracedFile) -> bool:
        assert file.descriptor is not None
        return self._resolved.known_files.holds_traced(file.descriptor, file.path, file.root)

    def _take(self, pid: int, new: Sequence[TracedFile], mapped: Told) -> list[MappedFile]:
        """Has those of the new files traced that hold TLS code. A file that can't be isn't looked into again. Returns what the
        process maps once they are planned."""
        mappings, users = [file.mapping for file in new], [_user(file) for file in new]
        self._note_examined(pid, mappings)
        with ExitStack() as own:
            try:
                return self._taken(pid, new, mapped, own)
            except TooManyOpenFiles:
                self._seen.unexamine(pid, mappings)
                self._looked_into[pid] -= len(mappings)
                users.clear()
                raise
            finally:
                for user in users:
                    self._seen.room.use(user, 1)

    def _taken(self, pid: int, new: Sequence[TracedFile], mapped: Told, own: ExitStack) -> list[MappedFile]:
        mappings = [file.mapping for file in new]
        try:
            planned = self._planned(pid, new)
            candidates = tls_candidates(pid)  # after the planning, which takes its time: others may be mapped and traced by now
            traced = self._files.beside(pid, candidates) if planned else []
            images = open_images(planned, self._resolved.source, own, traced)
        except TooManyOpenFiles:
            raise
        except SsllatencyError:
            if not exists(pid):  # another process may map them as well
                self._seen.unexamine(pid, mappings)
            raise
        self._files.add(pid, [file.mapping for file, _ in planned], images, mapped, own)
        return candidates

    def _planned(self, pid: int, new: Sequence[TracedFile]) -> list[tuple[TracedFile, FilePlan]]:
        """Those that hold TLS code, with their plans. One that is damaged doesn't keep the others from being traced."""
        planned = []
        for file in new:
            try:
                plan = plan_of(file, self._resolved.source)
            except TooManyOpenFiles:
                raise
            except SsllatencyError as error:
                if not exists(pid):
                    raise
                self._refuse(pid, error)
                continue
            planned += [(file, plan)] if plan else []
        return planned

    def _note_examined(self, pid: int, mappings: Sequence[MappedFile]) -> None:
        self._seen.examine(pid, mappings)
        self._looked_into[pid] = self._looked_into.get(pid, 0) + len(mappings)

    def _refuse(self, pid: int, error: SsllatencyError) -> None:
        self._notes.refuse(f"{name_of(pid)} maps a file that can't be inspected: {error}")


def _user(file: TracedFile) -> tuple[int, int] | None:
    return None if file.descriptor is None else owner(file.descriptor)


def plan_of(file: TracedFile, source: PlanSource) -> FilePlan | None:
    """The plan of an open file; None where nothing of it is traced. ElfError where it can't be read."""
    plan = source.plan(f"/proc/self/fd/{file.descriptor}", file.path, file.root)
    return plan if is_traced(plan) else None
