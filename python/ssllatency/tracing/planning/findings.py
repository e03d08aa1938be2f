# SPDX-License-Identifier: Apache-2.0
"""Findings about files: each part once, from the file's entry in the cache, or by a process that reads the file.

A file that isn't kept is opened and read once for everything that the command will ask about it, or by a second process beside
for what takes longest. Such a process goes on while what it has said is used, as for names, which only a report needs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any, Protocol, TypeVar

from ssllatency.data_class import dataclass
from ssllatency.elf.source import ElfError
from ssllatency.errors import SsllatencyError, TooManyOpenFiles
from ssllatency.fields import FieldError
from ssllatency.probes.cache.kept import NO_ENTRY, Cache, Entry, File, FileWork
from ssllatency.probes.cache.parts import CALLS, HANDSHAKE, FilePart
from ssllatency.probes.settings import PlanSettings
from ssllatency.stacks.file_names import stack_called
from ssllatency.targets import debug_roots
from ssllatency.tracing.planning import fork_server
from ssllatency.tracing.planning.reading import NO_ANSWER, ReadingProcess, hear, listen
from ssllatency.tracing.planning.reading import start as start_reading

T = TypeVar("T")
_MOST_PROCESSES = 8
_Key = tuple[object, ...]


class Start(Protocol):
    """Begins to read a file."""

    def __call__(self, work: FileWork, *, interruptible: bool = True) -> ReadingProcess: ...


def file_of(path: str, label: str, root: str = "/") -> File:
    """The file at `path`, which people are shown as `label`. `root` is where the target's root lies, in which debug files are
    looked for after the host's if the file is part of it."""
    return File(path, label, debug_roots(path, label, root))


@dataclass
class _Record:
    """The record of a file: `answers` by part, an error where there is none; the process that reads it, or did last; and
    what that has said and isn't kept yet. `aside`: it is the one of what is read by a process beside that of all else."""

    file: File
    entry: Entry
    aside: bool = False
    answers: dict[str, Any] = field(default_factory=dict)
    reading: ReadingProcess | None = None
    unkept: dict[str, object] = field(default_factory=dict)

    @property
    def is_read(self) -> bool:
        """Whether a process reads it."""
        return self.reading is not None and not self.reading.over


class Findings:
    """The findings about files under some settings.

    `ahead` are the parts that the command will ask for of each file; `later` those that it will ask for once the trace runs.
    `waits`: what was found out is kept no sooner than gather() or close() is called.
    """

    def __init__(
        self,
        cache: Cache,
        settings: PlanSettings,
        ahead: Sequence[FilePart[Any]] = (),
        later: Sequence[FilePart[Any]] = (),
        start: Start | None = None,
        *,
        waits: bool = False,
    ) -> None:
        self._cache, self._settings, self._waits = cache, settings, waits
        self._ahead, self._later = tuple(ahead), tuple(later)
        self._start = start or start_reading
        self._files: dict[_Key, _Record] = {}

    def ask(self, file: File, part: FilePart[T], *, interruptible: bool = True) -> T:
        """Return a finding about a file. ElfError where it can't be read. KeyboardInterrupt where a signal asks for the end,
        unless not `interruptible`: then it takes 40 s at most."""
        record = self._record_of(file, aside=self._is_aside(file, part))
        if record.reading and not interruptible:
            record.reading.hurry()
        while not self._has(record, part):
            if record.reading and record.is_read and (part in record.reading.work.parts or self._is_waited_for(record)):
                record.reading.go_on()
                self._listen(interruptible=interruptible)
            else:
                if record.reading:
                    record.reading.kill()  # what it would say is asked of the next one, after what is waited for
                others = () if part in self._later else self._wanted(record)
                self._begin(record, (part, *others), interruptible=interruptible)
        self._keep_at_once(record)
        answer: T | SsllatencyError = record.answers[part.name]
        if not self._is_of_one_content(file):
            raise ElfError(f"{file.label} was left out: it was written to while it was read.")
        if isinstance(answer, TooManyOpenFiles):  # which is no finding about the file: it may be asked for again
            record.answers = {name: known for name, known in record.answers.items() if known is not answer}
            raise answer
        self._forget(record)
        if isinstance(answer, SsllatencyError):
            raise answer
        return answer

    def make_ahead(self, files: Iterable[File], meanwhile: Callable[[], object] = lambda: None) -> None:
        """Has what the command will ask for of these files before it does, side by side. Where any of it isn't kept, this
        process runs `meanwhile`. What can't be made is told of when it is asked for."""
        longest_first = sorted(self._records_of(files), key=self._effort, reverse=True)
        lacking = [record for record in longest_first if not self._has_all(record)]
        waiting = [record for record in lacking if not record.is_read]
        while waiting and not self._is_full():
            self._begin(record := waiting.pop(0), self._wanted(record))
        if lacking:
            meanwhile()
        for record in waiting:
            self._begin(record, self._wanted(record))
        while any(self._is_waited_for(record) for record in lacking):
            self._listen()
        for record in lacking:
            self._keep_at_once(record)

    def gather(self) -> None:
        """Takes, and keeps, what processes have said meanwhile; those that nobody waits for go on. Waits for nothing."""
        self._go_on()
        self.hear()
        for record in self._files.values():
            self._keep(record)

    def hear(self) -> None:
        """Takes what processes have said meanwhile; those that nobody waits for any more stand back. Waits for nothing."""
        readings = self._readings()
        hear(readings)
        for reading, record in readings.items():
            self._take(record, reading)

    def close(self) -> None:
        """Ends the processes that still read."""
        for record in self._files.values():
            if record.reading:
                record.reading.kill()
            self._keep(record)

    def _is_aside(self, file: File, part: FilePart[Any]) -> bool:
        """Whether the part is made by a process beside that which makes all else of the file: handshakes, which in the library
        that applications call take longer than all else, where nothing but these is waited for. Without the fork server a
        second process would have to bring in the decoder as well, which takes as long as it saves."""
        if part is not HANDSHAKE or CALLS not in self._ahead or not stack_called(file.label):
            return False
        return fork_server.is_running() or (*file.key, True) in self._files

    def _is_of_one_content(self, file: File) -> bool:
        """Whether processes side by side have read the same."""
        records = (self._files.get((*file.key, aside)) for aside in (False, True))
        readings = (record.reading for record in records if record and record.reading)
        return len({reading.content.digest for reading in readings if reading.content.digest}) < 2

    def _wanted(self, record: _Record) -> list[FilePart[Any]]:
        """The parts that will be asked of the file, as far as they are this record's."""
        return [part for part in (*self._ahead, *self._later) if self._is_aside(record.file, part) is record.aside]

    def _has_all(self, record: _Record) -> bool:
        """Whether all is known that is asked ahead."""
        return all(self._has(record, part) for part in self._wanted(record) if part in self._ahead)

    def _records_of(self, files: Iterable[File]) -> Iterator[_Record]:
        for file in files:
            for aside in sorted({self._is_aside(file, part) for part in self._ahead}):
                yield self._record_of(file, aside=aside)

    def _record_of(self, file: File, *, aside: bool) -> _Record:
        key = (*file.key, aside)
        record = self._files.get(key)
        if record is None:
            record = self._files[key] = _Record(file, self._cache.entry(file, self._settings), aside)
        record.file = file  # the descriptor that it was opened by before may be closed
        return record

    def _effort(self, record: _Record) -> tuple[bool, int]:
        """The key by which files that take longer are larger: handshakes are planned in the library that applications call."""
        return HANDSHAKE in self._wanted(record) and bool(stack_called(record.file.label)), record.file.size

    @staticmethod
    def _has(record: _Record, part: FilePart[Any]) -> bool:
        """Whether there is an answer, or why there is none."""
        if part.name not in record.answers:
            kept = record.entry.part(part)
            if kept is None and part.whole:
                kept = record.answers.get(part.whole.name) or record.entry.part(part.whole)
            if kept is not None:
                record.answers[part.name] = kept
        return part.name in record.answers

    def _forget(self, record: _Record) -> None:
        """Frees the entry once all that the command asks for is read out of it: a run may last, and see many files."""
        wanted = self._wanted(record)
        if wanted and self._has_all(record) and all(part.name in record.answers for part in wanted if part in self._later):
            record.entry = NO_ENTRY

    # Processes.

    def _begin(self, record: _Record, parts: Sequence[FilePart[Any]], *, interruptible: bool = True) -> None:
        """Has those of the parts made that aren't known."""
        self._keep(record)
        wanted = [part for part in dict.fromkeys(parts) if not self._has(record, part)]
        while interruptible and self._is_full():
            if len(self._readings()) >= _MOST_PROCESSES:
                self._go_on()
            self._listen()
        try:
            record.reading = self._start(FileWork(record.file, wanted, self._settings), interruptible=interruptible)
        except SsllatencyError as error:
            record.answers.update((part.name, error) for part in wanted)

    def _is_full(self) -> bool:
        """Whether as many processes run as there are processors, besides those that nobody waits for, or too many of both."""
        running = [record for record in self._files.values() if record.is_read]
        waited_for = sum(map(self._is_waited_for, running))
        return waited_for >= len(os.sched_getaffinity(0)) or len(running) >= _MOST_PROCESSES

    def _is_waited_for(self, record: _Record) -> bool:
        parts = record.reading.work.parts if record.reading and record.is_read else ()
        return any(part.name not in record.answers for part in parts if part not in self._later)

    def _go_on(self) -> None:
        """Has the processes go on that nobody waits for."""
        for reading in self._readings():
            reading.go_on()

    def _readings(self) -> dict[ReadingProcess, _Record]:
        """The processes that read, and of what."""
        return {record.reading: record for record in self._files.values() if record.reading and record.is_read}

    def _listen(self, *, interruptible: bool = True) -> None:
        """Takes what the processes say next."""
        readings = self._readings()
        try:
            listen(readings, interruptible=interruptible)
        except KeyboardInterrupt:
            self.close()
            raise
        for reading, record in readings.items():
            self._take(record, reading)

    def _take(self, record: _Record, reading: ReadingProcess) -> None:
        """Takes what has been said of a file."""
        for part in reading.work.parts:
            if reading.has_said(part) and part.name not in record.answers:
                record.answers[part.name] = self._answer(record, reading, part)
        if all(map(reading.has_said, reading.work.parts)):
            reading.kill()
        elif reading.over:
            self._give_up(record, reading)
        elif not self._is_waited_for(record):
            reading.stand_back()

    def _keep_at_once(self, record: _Record) -> None:
        """Adds to the file's entry what has been said, unless that is to wait."""
        if not self._waits:
            self._keep(record)

    def _keep(self, record: _Record) -> None:
        """Adds to the file's entry what has been said."""
        if record.reading and record.unkept:
            reading = record.reading
            self._cache.keep(self._settings, reading.content, reading.origin, record.unkept)
            record.unkept = {}

    @staticmethod
    def _answer(record: _Record, reading: ReadingProcess, part: FilePart[Any]) -> Any:
        if part.name in reading.errors:
            return reading.errors[part.name]
        try:
            answer = part.read(reading.values[part.name], reading.content.size)
        except FieldError:
            return ElfError(f"{record.file.label} could not be read: its answer was malformed.")
        if not part.suffices(answer):
            record.unkept[part.key(reading.work.subject.label)] = part.to_values(answer)
        return answer

    def _give_up(self, record: _Record, reading: ReadingProcess) -> None:
        """Says why there is no answer where the process ended too early. What only a report needs may be tried once more,
        unless its time is up."""
        first, *others = reading.work.parts
        failed = [part for part in others if reading.failure and (part not in self._later or reading.is_hurried)]
        for part in (first, *failed):
            error = ElfError(f"{record.file.label} {reading.failure or NO_ANSWER}.")
            record.answers.setdefault(part.name, error)
