# SPDX-License-Identifier: Apache-2.0
"""Sentences, at once and in the report, about processes and files that came later."""

from __future__ import annotations

import time

from ssllatency.output.printing import tell
from ssllatency.targets import exists, process_of

LOOK_S = 1.0  # how often it is looked who is there, at least
_MOST_NOTES = 20
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
        self._refused: set[str] = set()
        self._unsaid = self._dropped = 0

    def say(self, sentence: str) -> None:
        """Notes it for the report, and tells it now. Past the most there can be they are only counted."""
        if sentence in self._notes:
            return
        if len(self._notes) < _MOST_NOTES:
            self._notes.append(sentence)
            tell(sentence)
            return
        self._unsaid += 1
        self._notes[_MOST_NOTES - 1 :] = [f"{self._unsaid + 1} more of such notes were left out."]

    def say_dropped(self, dropped: int) -> None:
        """Says how many notices of new processes were lost since it said so; `dropped` in all so far."""
        if dropped > self._dropped:
            self.say(f"{dropped - self._dropped} notices of new processes were lost.")
            self._dropped = dropped

    def refuse(self, sentence: str) -> None:
        """Says why something isn't traced, and counts it once, as far as that is remembered."""
        if sentence in self._refused:
            return
        if len(self._refused) >= _MOST_REMEMBERED:
            self._refused.clear()
        self._refused.add(sentence)
        self.refused += 1
        self.say(sentence)

    def say_too_many(self) -> None:
        """Says that no more files can be open: in one sentence, however often, of however many processes and files."""
        self.say(_TOO_MANY)

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
