# SPDX-License-Identifier: Apache-2.0
"""What is found out about files: each part once, from the file's entry in the cache, or by a process that reads the file.

A file that isn't kept is opened and read once for everything that the command will ask about it. Such a process goes on while
what it has said is used, as for names, which only a report needs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeVar

from ssllatency.elf.source import ElfError
from ssllatency.errors import SsllatencyError
from ssllatency.fields import FieldError
from ssllatency.probes.cache.kept import Cache, Entry, Subject, Work
from ssllatency.probes.cache.parts import Part, Settings
from ssllatency.targets import debug_roots
from ssllatency.tracing import planning
from ssllatency.tracing.planning import NO_ANSWER, Reading, listen

T = TypeVar("T")
_MOST_PROCESSES = 8
_Key = tuple[object, ...]


class Start(Protocol):
    """Begins to read a file."""

    def __call__(self, work: Work, *, heeding: bool = True) -> Reading: ...


@dataclass(frozen=True)
class File:
    """A file to be planned: where it can be opened, what people are shown, and where the target's root lies, in which debug
    files are looked for after the host's if the file is part of it."""

    path: str
    label: str
    root: str = "/"

    @cached_property
    def subject(self) -> Subject:
        """The same, with the roots in which debug files are looked for."""
        return Subject(self.path, self.label, debug_roots(self.path, self.label, self.root))

    @property
    def size(self) -> int:
        """Its bytes."""
        return os.stat(self.path).st_size  # noqa: PTH116

    @property
    def key(self) -> _Key:
        """What findings about it are remembered by: the file as it is now."""
        status = os.stat(self.path)  # noqa: PTH116 - a path under /proc is not to be resolved
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, self.label, self.root


@dataclass
class _Known:
    """What is known about a file: `answers` by part, an error where there is none; the process that reads it, or did last; and
    what that has said and isn't kept yet."""

    file: File
    entry: Entry
    answers: dict[str, Any] = field(default_factory=dict)
    reading: Reading | None = None
    unkept: dict[str, object] = field(default_factory=dict)

    @property
    def is_read(self) -> bool:
        """Whether a process reads it."""
        return self.reading is not None and not self.reading.over


class Findings:
    """What is found out about files under some settings.

    `ahead` are the parts that the command will ask for of each file; `later` those that it will ask for once the trace runs.
    """

    def __init__(
        self,
        cache: Cache,
        settings: Settings,
        ahead: Sequence[Part[Any]] = (),
        later: Sequence[Part[Any]] = (),
        start: Start | None = None,
    ) -> None:
        self._cache, self._settings = cache, settings
        self._ahead, self._later = tuple(ahead), tuple(later)
        self._start = start or planning.start
        self._files: dict[_Key, _Known] = {}

    def ask(self, file: File, part: Part[T], *, heeding: bool = True) -> T:
        """What is found out about a file. ElfError where it can't be read. KeyboardInterrupt where a signal asks for the end,
        unless not `heeding`: then it takes 40 s at most."""
        known = self._known(file)
        if known.reading and not heeding:
            known.reading.hurry()
        while not self._has(known, part):
            if known.is_read:
                self._listen(heeding=heeding)
            else:
                others = () if part in self._later else (*self._ahead, *self._later)
                self._begin(known, (part, *others), heeding=heeding)
        self._keep(known)
        answer: T | SsllatencyError = known.answers[part.name]
        if isinstance(answer, SsllatencyError):
            raise answer
        return answer

    def make_ahead(self, files: Iterable[File], meanwhile: Callable[[], object] = lambda: None) -> None:
        """Has what the command will ask for of these files before it does, side by side. Where any of it isn't kept, this
        process runs `meanwhile`. What can't be made is told of when it is asked for."""
        by_size = sorted((self._known(file) for file in files), key=lambda known: known.file.size, reverse=True)
        lacking = [known for known in by_size if not all(self._has(known, part) for part in self._ahead)]
        waiting = [known for known in lacking if not known.is_read]
        while waiting and not self._is_full():
            self._begin(waiting.pop(0), (*self._ahead, *self._later))
        if lacking:
            meanwhile()
        for known in waiting:
            self._begin(known, (*self._ahead, *self._later))
        while any(self._is_waited_for(known) for known in lacking):
            self._listen()
        for known in lacking:
            self._keep(known)

    def close(self) -> None:
        """Ends the processes that still read."""
        for known in self._files.values():
            if known.reading:
                known.reading.kill()
            self._keep(known)

    def _known(self, file: File) -> _Known:
        key = file.key
        known = self._files.get(key)
        if known is None:
            known = self._files[key] = _Known(file, self._cache.entry(file.subject, self._settings))
        known.file = file  # the descriptor that it was opened by before may be closed
        return known

    @staticmethod
    def _has(known: _Known, part: Part[Any]) -> bool:
        """Whether there is an answer, or why there is none."""
        if part.name not in known.answers and (kept := known.entry.part(part)) is not None:
            known.answers[part.name] = kept
        return part.name in known.answers

    # Processes.

    def _begin(self, known: _Known, parts: Sequence[Part[Any]], *, heeding: bool = True) -> None:
        """Has those of the parts made that aren't known."""
        self._keep(known)
        wanted = [part for part in dict.fromkeys(parts) if not self._has(known, part)]
        while heeding and self._is_full():
            self._listen()
        try:
            known.reading = self._start(Work(known.file.subject, wanted, self._settings), heeding=heeding)
        except SsllatencyError as error:
            known.answers.update((part.name, error) for part in wanted)

    def _is_full(self) -> bool:
        """Whether as many processes run as there are processors, besides those that nobody waits for, or too many of both."""
        running = [known for known in self._files.values() if known.is_read]
        waited_for = sum(map(self._is_waited_for, running))
        return waited_for >= len(os.sched_getaffinity(0)) or len(running) >= _MOST_PROCESSES

    def _is_waited_for(self, known: _Known) -> bool:
        parts = known.reading.work.parts if known.reading and known.is_read else ()
        return any(part.name not in known.answers for part in parts if part not in self._later)

    def _listen(self, *, heeding: bool = True) -> None:
        """Takes what the processes say next."""
        readings = {known.reading: known for known in self._files.values() if known.reading and known.is_read}
        try:
            listen(readings, heeding=heeding)
        except KeyboardInterrupt:
            self.close()
            raise
        for reading, known in readings.items():
            self._take(known, reading)

    def _take(self, known: _Known, reading: Reading) -> None:
        """Takes what has been said of a file."""
        for part in reading.work.parts:
            if reading.has_said(part) and part.name not in known.answers:
                known.answers[part.name] = self._answer(known, reading, part)
        if all(map(reading.has_said, reading.work.parts)):
            reading.kill()
        elif reading.over:
            self._give_up(known, reading)
        elif not self._is_waited_for(known):
            reading.stand_back()

    def _keep(self, known: _Known) -> None:
        """Adds to the file's entry what has been said."""
        if known.reading and known.unkept:
            self._cache.keep(known.reading.work, known.reading.origin, known.unkept)
            known.unkept = {}

    @staticmethod
    def _answer(known: _Known, reading: Reading, part: Part[Any]) -> Any:
        if part.name in reading.errors:
            return reading.errors[part.name]
        try:
            answer = part.read(reading.values[part.name], reading.work.size)
        except FieldError:
            return ElfError(f"{known.file.label} could not be read: what came of it made no sense.")
        if not part.suffices(answer):
            known.unkept[part.name] = part.to_values(answer)
        return answer

    def _give_up(self, known: _Known, reading: Reading) -> None:
        """Says why there is no answer where the process ended too early. What only a report needs may be tried once more,
        unless its time is up."""
        first, *others = reading.work.parts
        failed = [part for part in others if reading.failure and (part not in self._later or reading.is_hurried)]
        for part in (first, *failed):
            error = ElfError(f"{known.file.label} {reading.failure or NO_ANSWER}.")
            known.answers.setdefault(part.name, error)
