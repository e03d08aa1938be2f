# SPDX-License-Identifier: Apache-2.0
"""Prints calls as they end."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from itertools import islice

from ssllatency.cli.live.printers.printer import Printer, page_for
from ssllatency.engines.clock import wall_clock_ns
from ssllatency.engines.sessions.snoop import SnoopSession, events_of, events_with_whom
from ssllatency.output.printing import tell_line
from ssllatency.reports.rows.sampling import unprinted
from ssllatency.reports.text.events import JsonLines, WhomColumns, columns
from ssllatency.reports.text.frame import lost
from ssllatency.tracing import live

_LOOK_S = 0.05  # how long a call may wait in the ring buffer; a nearly full buffer wakes us sooner
_BATCHES = 8  # batches printed without a pause while calls keep coming; then the end of the run is checked for
_CLOCK_S = 10.0  # how often the wall clock is compared with the kernel's


class CallPrinter(Printer):
    """Prints the calls of a session, as the options of `snoop` ask for them."""

    noun = "call"

    def __init__(self, session: SnoopSession, arguments: argparse.Namespace, ending: live.RunEnd) -> None:
        self._session = session
        page = page_for(arguments.columns)
        self._lines = JsonLines(session.keys) if arguments.json else columns(session.keys, page)
        self._whom = WhomColumns(self._lines, session.keys.whom, page) if arguments.by else None
        self._wall_ns, self._compared = wall_clock_ns(), time.monotonic()
        super().__init__(session, ending, self._lines.heading, count=arguments.count, json=arguments.json, colour=page.colour)

    def _print_some(self) -> None:
        self._session.poll()
        self._ending.wait_for(self._session.fileno(), live.pause_s(min(self._session.due_s, self._ending.at), _LOOK_S))
        self._session.wait(0)
        self._output.check()
        self._print(islice(self._session.batches(), _BATCHES))

    def _print_rest(self) -> None:
        self._print(self._session.batches())

    def _print(self, batches: Iterable[bytes]) -> None:
        now = time.monotonic()
        if now > self._compared + _CLOCK_S:
            self._wall_ns, self._compared = wall_clock_ns(), now
        for batch in batches:
            self._write(self._render(batch))
            if self._left == 0:
                return
            if time.monotonic() >= self._session.due_s:
                self._session.poll()

    def _render(self, batch: bytes) -> list[str]:
        if self._whom:
            return self._whom.render(islice(events_with_whom(batch), self._left), self._wall_ns)
        return self._lines.render(islice(events_of(batch), self._left), self._wall_ns)

    def _dropped(self) -> int:
        return self._session.events_dropped

    def _tell_at_the_end(self) -> None:
        snapshot = self._session.read()
        for sentence in unprinted(snapshot.sampling):
            tell_line(sentence)
        self._tell_counts(snapshot.in_flight, "had begun and not returned")
        for line in lost(snapshot.losses):
            tell_line(line)
