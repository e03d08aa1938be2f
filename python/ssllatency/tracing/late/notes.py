# SPDX-License-Identifier: Apache-2.0
"""Sentences, at once and in the report, about processes and files that came later."""

from __future__ import annotations

import time

from ssllatency.output.printing import tell
from ssllatency.targets import exists, process_of
from ssllatency.tracing.allowance import Allowance

LOOK_S = 1.0  # how often it is looked who is there, at least
_MOST_NOTES = 20  # in the report; and so many are told in an hour
_MOST_LIMITS, _HOUR_S = 8, 3600.0
_TOO_MANY = (
    "Too many files are open (raise the limit, ulimit -n): what processes map and isn't traced yet gets no probe, and is tried"
    " again."
)
_MOST_REMEMBERED = 1024  # sentences about what can't be traced


class Notes:
    """The sentences, in the list `notes` of an attachment. `refused` counts processes and files that couldn't be traced though
    they are there."""

    def __init__(self, notes: list[str]) -> None:
        self.refused = 0
        self._notes = notes
        self._refused: dict[str, None] = {}
        self._limits: list[str] = []  # those of the notes that say which limit was reached
        self._unsaid = self._dropped = 0
        self._telling = Allowance(_MOST_NOTES, _HOUR_S)

    def say(self, sentence: str) -> None:
        """Notes it for the report, and tells it now. Past the most there can be in a report they are only counted there, and
        past those of an hour they aren't told."""
        if sentence in self._notes:
            return
        most = _MOST_NOTES + len(self._limits)
        if len(self._notes) < most:
            self._notes.append(sentence)
        else:
            self._unsaid += 1
            self._notes[most - 1 :] = [f"{self._unsaid + 1} more of such notes were left out."]
        if self._telling.left >= 1:
            self._telling.use(1)
            tell(sentence)

    def limit(self, sentence: str, of: str = "") -> None:
        """Says that a limit of the run is reached, however many other notes there are, and counts `of`, which it leaves out,
        once. Nobody but the program has a part in such a sentence, so that there are few."""
        if of:
            self._count(of)
        if sentence not in self._limits and len(self._limits) < _MOST_LIMITS:
            self._notes.insert(len(self._limits), sentence)
            self._limits.append(sentence)
            tell(sentence)

    def say_dropped(self, dropped: int) -> None:
        """Says how many notices of new processes were lost since it said so; `dropped` in all so far."""
        if dropped > self._dropped:
            self.say(f"{dropped - self._dropped} notices of new processes were lost.")
            self._dropped = dropped

    def refuse(self, sentence: str, of: str = "") -> None:
        """Says why something isn't traced, and counts it, `of` or the sentence itself, once, as far as that is remembered."""
        if self._count(of or sentence):
            self.say(sentence)

    def _count(self, of: str) -> bool:
        """Whether it is counted now, as it wasn't yet."""
        if of in self._refused:
            return False
        if len(self._refused) >= _MOST_REMEMBERED:
            del self._refused[next(iter(self._refused))]
        self._refused[of] = None
        self.refused += 1
        return True

    def say_too_many(self) -> None:
        """Says that no more files can be open: in one sentence, however often, of however many processes and files."""
        self.limit(_TOO_MANY)

    def say_late(self, pid: int, by_ns: float) -> None:
        """Says how long after its start a process was traced."""
        since = f"{by_ns / 1e6:.1f} ms after it had started"
        gone = "" if exists(pid) else ", when it had ended"
        self.say(f"{name_of(pid)} was traced {since}{gone}: its calls until then aren't counted.")

    def say_when(self, pid: int, path: str, began_ns: int) -> None:
        """Says how long after a process had mapped a file that was traced; `began_ns` is by CLOCK_MONOTONIC, 0 where it is
        unknown."""
        age = f"{(time.monotonic_ns() - began_ns) / 1e6:.0f} ms" if began_ns else f"up to {LOOK_S:g} s"
        self.say(f"{name_of(pid)} mapped {path} {age} before it was traced: its calls until then aren't counted.")


def name_of(pid: int) -> str:
    """The name of a process in these sentences."""
    process = process_of(pid)
    return f"{process.comm} ({pid})" if process else f"a process that has ended ({pid})"
