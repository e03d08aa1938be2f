# SPDX-License-Identifier: Apache-2.0
"""Reads what a file keeps of a measurement: a recording, or documents of schema ssllatency/1, one, or one a line.

The file of a crashed run is read, too: a torn last line is left out, and the run says so. An interval whose numbers contradict
one another is also left out, if others are good. Any other error is refused with the number of its line. Of several documents
each is an interval; those of one host make a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field

from ssllatency.bounded_json import parsed
from ssllatency.data_class import dataclass
from ssllatency.errors import SsllatencyError
from ssllatency.model.recording import Recording, Run
from ssllatency.model.snapshot import Snapshot
from ssllatency.reports.documents import document
from ssllatency.reports.documents.fields import ContradictionError, DocumentField
from ssllatency.reports.documents.recording import SCHEMA
from ssllatency.units import ranges


@dataclass
class _RunRead:
    """The part of a run that has been read."""

    version: str = ""
    command: str = ""
    interval_s: float | None = None
    notes: tuple[str, ...] = ()
    intervals: list[Snapshot] = field(default_factory=list)
    left_out: dict[int, ContradictionError] = field(default_factory=dict)  # by line
    read: int = 0

    def take(self, root: DocumentField, line: int) -> None:
        """Takes the interval of a line, or leaves it out."""
        self.read += 1
        try:
            self.intervals.append(document.from_document(root.value))
        except ContradictionError as problem:
            self.left_out[line] = problem

    def run(self, cut: bool) -> Run:
        """The run, once it has an interval; `cut`: whether it was cut short."""
        notes = [*self.notes, *([_told(self.left_out)] if self.left_out else [])]
        if cut:
            host = self.intervals[-1].host
            notes.append(f"The recording was cut short: what came after interval {self.read} of {host} isn't in it.")
        return Run(tuple(self.intervals), self.version, self.command, self.interval_s, tuple(notes))


def from_text(text: str, label: str) -> Recording:
    """The recording in the text of a file; `label` is the file's name. SsllatencyError where the text is none."""
    lines = text.split("\n")
    last = lines.pop()  # "" where the last line is whole
    if last and _parsed(last) is not None:
        lines, last = [*lines, last], ""
    first = _parsed(lines[0]) if lines else None
    if isinstance(first, dict) and first.get("schema") == SCHEMA:
        return Recording(tuple(_recorded(lines, bool(last), label)), label)
    if not isinstance(first, dict) or not any(line.strip() for line in (*lines[1:], last)):
        with _at(label):
            return Recording.of([document.from_json(text)], label)
    return Recording(tuple(_documents(lines, bool(last), label)), label)


def _recorded(lines: Sequence[str], torn: bool, label: str) -> list[Run]:
    with _in_line(label, 1):
        runs = [_read_run(run) for run in DocumentField(_parsed(lines[0])).get("runs").items()]
    ended = False
    for number, line in enumerate(lines[1:], 2):
        with _in_line(label, number):
            root = DocumentField(_parsed(line))
            if ended:
                root.refuse("left out: the recording has ended before it")
            ended = _take(root, runs, number)
    return _made(runs, torn or not ended, label)


def _take(root: DocumentField, runs: Sequence[_RunRead], line: int) -> bool:
    """Takes the interval of a line; whether the line is the last one instead, which tells how many there must have been."""
    end = root.optional("end")
    if end:
        total = sum(run.read for run in runs)
        if end.get("intervals").whole() != total:
            end.get("intervals").refuse(f"{total}, the number of intervals above")
        return True
    position, number = root.get("run"), root.get("interval")
    if position.whole() >= len(runs):
        position.refuse("the number of a run that the first line has, from 0")
    run = runs[position.whole()]
    if number.whole() != run.read + 1:
        number.refuse(f"{run.read + 1}: the intervals of a run are numbered from 1 in their order")
    run.take(root, line)
    return False


def _made(runs: Sequence[_RunRead], cut: bool, label: str) -> list[Run]:
    """The runs that have intervals; where the recording was cut short, that is where the last of them ends."""
    measured = [run for run in runs if run.intervals]
    without = {line: problem for run in runs if not run.intervals for line, problem in run.left_out.items()}
    if measured:
        measured[-1].left_out |= without
        return [run.run(cut and run is measured[-1]) for run in measured]
    if without:
        with _in_line(label, min(without)):
            raise without[min(without)]
    raise SsllatencyError(f"{label} holds no whole interval: the recording ended within its first.")


def _told(left_out: Mapping[int, ContradictionError]) -> str:
    """The sentence about the intervals that are left out: where they are, and why the first of them is."""
    if len(left_out) == 1:
        return "".join(f"1 interval was left out: line {line}: {problem.which}." for line, problem in left_out.items())
    return f"{len(left_out)} intervals were left out: lines {ranges(left_out)}; in the first, {left_out[min(left_out)].which}."


def _read_run(run: DocumentField) -> _RunRead:
    interval_s = run.get("interval_s")
    return _RunRead(
        version=run.get("version").text(),
        command=run.get("command").text(),
        interval_s=None if interval_s.value is None else interval_s.number(),
        notes=tuple(note.text() for note in run.get("notes").items()),
    )


def _documents(lines: Sequence[str], torn: bool, label: str) -> list[Run]:
    hosts: dict[str, _RunRead] = {}
    for number, line in enumerate(lines, 1):
        with _in_line(label, number):
            root = DocumentField(_parsed(line))
            if root.optional("handshake"):  # one by itself, of `handshakes --over`
                continue
            host = root.optional("host")
            hosts.setdefault(str(host.value) if host else "", _RunRead()).take(root, number)
    if not hosts:
        raise SsllatencyError(f"{label} holds no whole interval.")
    return _made(list(hosts.values()), torn, label)


def _parsed(text: str) -> object:
    """The text read as JSON; None where it isn't any. SsllatencyError where it is too much."""
    try:
        return parsed(text)
    except (ValueError, RecursionError):
        return None


def _in_line(label: str, number: int) -> AbstractContextManager[None]:
    """Refuse what is refused within with the line's number."""
    return _at(f"{label}, line {number}")


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Refuse what is refused within with the place that it is at."""
    try:
        yield
    except SsllatencyError as error:
        sentence = str(error)
        raise SsllatencyError(f"{place}: {sentence[:1].lower()}{sentence[1:]}") from None
