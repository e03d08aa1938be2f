# SPDX-License-Identifier: Apache-2.0
"""Prints whole handshakes as they end."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from ssllatency.cli.live.printers.printer import Printer, page_for
from ssllatency.engines.source import HandshakeSource
from ssllatency.model.handshakes import Ending, Single
from ssllatency.output.printing import tell_line
from ssllatency.reports.documents.document import single_to_json
from ssllatency.reports.rows import losses
from ssllatency.reports.rows.sampling import phases_sentence
from ssllatency.reports.text.frame import lost
from ssllatency.reports.text.handshakes.lines import HandshakeLines
from ssllatency.tracing import live


class HandshakePrinter(Printer):
    """Prints the handshakes of a session, as the options of `snoop` ask for them."""

    noun = "handshake"

    def __init__(
        self, session: HandshakeSource, arguments: argparse.Namespace, ending: live.RunEnd, early: Sequence[Single] = ()
    ) -> None:
        """`early`: those that have been taken already."""
        self._session, self._early = session, early
        page = page_for(arguments.columns)
        self._width = page.width
        self._wanted = frozenset(map(Ending, arguments.outcome or Ending))
        self._lines = None if arguments.json else HandshakeLines(arguments.by, page)
        heading = self._lines.heading if self._lines else ""
        super().__init__(session, ending, heading, count=arguments.count, json=arguments.json, colour=page.colour)

    def _print_some(self) -> None:
        time.sleep(live.pause_s(self._ending.at, live.look_pause_s(self._session.due_s)))
        self._output.check()
        self._print_rest()

    def _print_rest(self) -> None:
        taken, self._early = [*self._early, *self._session.poll()], ()
        singles = [single for single in taken if single.ending in self._wanted]
        self._write(self._render(singles[: self._left]))

    def _render(self, singles: Sequence[Single]) -> list[str]:
        return self._lines.render(singles) if self._lines else [f"{single_to_json(single)}\n" for single in singles]

    def _dropped(self) -> int:
        return self._session.events_dropped

    def _tell_at_the_end(self) -> None:
        snapshot = self._session.read()
        handshakes = snapshot.handshakes
        if handshakes and (sentence := phases_sentence(handshakes, estimated=False)):
            tell_line(sentence)
        self._tell_counts(handshakes.in_flight if handshakes else 0, "had begun and not ended")
        said = self._session.notes
        for note in losses.notes(snapshot):
            if note not in said:
                tell_line(f"Note: {note}")
        for line in lost(snapshot.losses, handshakes, width=self._width):
            tell_line(line)
