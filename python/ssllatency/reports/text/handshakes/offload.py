# SPDX-License-Identifier: Apache-2.0
"""The offload of private-key operations in text: who waits, for how long and for what, and how full its batches are."""

from __future__ import annotations

from collections.abc import Iterator

from ssllatency.model.handshakes import (
    Group,
)
from ssllatency.model.offload import Offload
from ssllatency.reports.rows.offload import Fill, engine_words, fills, offload_phrases
from ssllatency.reports.text.bars import count_bar
from ssllatency.reports.text.page import Page

_CELLS = 40


def offload_lines(offload: Offload, successful: Group | None, duration_s: float, page: Page) -> list[str]:
    """All about the offload; `successful` are the handshakes whose waits it splits."""
    phrases = offload_phrases(offload, successful, duration_s)
    lines = [line for phrase in phrases for line in page.wrapped(phrase, "  ", "    ")]
    return [
        *page.wrapped(f"{engine_words(offload)}:"),
        *lines,
        *(line for fill in fills(offload) for line in _fill_lines(fill, page)),
    ]


def _fill_lines(fill: Fill, page: Page) -> Iterator[str]:
    yield from page.wrapped(fill.words, "  ", "    ")
    most = max(calls for _, calls in fill.calls)
    for lanes, calls in fill.calls:
        yield f"    {lanes:>2} {calls:>8} |{count_bar(calls, most, _CELLS, page):<{_CELLS}}|"
