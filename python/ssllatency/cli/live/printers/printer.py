# SPDX-License-Identifier: Apache-2.0
"""Printers of a line for each call or handshake as it ends, until the run does, and says what was missed."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from ssllatency.output.page import output_page
from ssllatency.output.printing import tell, tell_line
from ssllatency.output.stream import Output
from ssllatency.reports.text.events import Moments
from ssllatency.reports.text.page import Page
from ssllatency.stopping import stop_is_asked_for
from ssllatency.tracing.live import RunEnd
from ssllatency.units import counted

_SAY_S = 1.0  # what was dropped is reported at most this often


def page_for(columns: int | None) -> Page:
    """The page that standard output is, or one of so many columns."""
    page = output_page()
    return replace(page, most=columns) if columns else page


class Snooped(Protocol):
    """A session that is printed."""

    def detach(self) -> None:
        """Removes the probes; what has ended until then can still be taken."""


class Printer(ABC):
    """Prints a session's events to standard output, and what was missed to standard error. `noun` is what they are."""

    noun: str

    def __init__(
        self, session: Snooped, ending: RunEnd, heading: str, *, count: int | None, json: bool, colour: bool = False
    ) -> None:
        """`count`: the most lines; None for as many as there are until the end."""
        self._detached, self._ending, self._heading, self._left = session.detach, ending, heading, count
        self._moments = Moments() if json else None
        self._output = Output(sys.stdout.fileno(), self._give_up, colour=colour and not json)
        self._shown = self._unwritten = self._told = 0
        self._said = 0.0

    def print_all(self) -> None:
        """Prints until the run ends, or as many lines as were asked for."""
        self._output.write([self._heading])
        while self._left != 0 and not self._ending.has_come():
            self._print_some()
            if time.monotonic() >= self._said + _SAY_S:
                self._tell_of_drops()
        self._detached()
        self._print_rest()
        self._tell_of_drops()
        self._tell_at_the_end()

    @abstractmethod
    def _print_some(self) -> None:
        """Waits a moment, and prints what has ended."""

    @abstractmethod
    def _print_rest(self) -> None:
        """Prints what had ended when the probes were removed."""

    @abstractmethod
    def _dropped(self) -> int:
        """Return how many were dropped so far, as they couldn't be printed in time."""

    @abstractmethod
    def _tell_at_the_end(self) -> None:
        """Says what was shown, and what wasn't."""

    def _give_up(self) -> bool:
        """Called while the reader blocks our output, so that probes are removed in time and a signal ends the wait."""
        if self._ending.has_come():
            self._detached()
        return stop_is_asked_for()

    def _write(self, lines: Sequence[str]) -> None:
        """Writes a line for each; no more than are left."""
        written = self._output.write(lines)
        self._shown += written
        self._unwritten += len(lines) - written
        if self._left is not None:
            self._left -= len(lines)

    def _tell_of_drops(self) -> None:
        """Reports what was dropped since the last report."""
        dropped = self._dropped()
        if dropped == self._told:
            return
        more, self._told, self._said = dropped - self._told, dropped, time.monotonic()
        tell(f"{counted(more, self.noun)} dropped: they came faster than they could be printed.")
        if self._moments:
            self._output.write([self._moments.dropped(more, time.time_ns())])

    def _tell_counts(self, in_flight: int, under_way: str) -> None:
        """Says how many were shown, were `under_way`, and weren't printed."""
        tell_line(f"{counted(self._shown, self.noun)} shown.")
        if in_flight:
            tell_line(f"{counted(in_flight, self.noun)} {under_way}.")
        if self._unwritten:
            tell_line(f"{counted(self._unwritten, self.noun)} not printed: their reader had stopped.")
