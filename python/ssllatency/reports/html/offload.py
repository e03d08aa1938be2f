# SPDX-License-Identifier: Apache-2.0
"""The section of a page about the offload of private-key operations: sentences, and how many lanes the batches used."""

from __future__ import annotations

from ssllatency.model.arithmetic.handshake_sums import total
from ssllatency.model.handshakes import Ending
from ssllatency.model.snapshot import Snapshot
from ssllatency.reports.html.blocks import Block, PageSection, Sentences, Tabular
from ssllatency.reports.html.tables import HtmlTable, compared
from ssllatency.reports.rows.offload import Fill, engine_words, fills, offload_phrases
from ssllatency.reports.rows.row import Row
from ssllatency.units import sentence, share


def offload(whole: Snapshot, old: Snapshot | None) -> PageSection:
    """The section: what is known of the offload, what was before, and a table for each function that batches."""
    blocks: list[Block] = [Sentences(_sentences(whole))]
    if old and (sentences := _sentences(old)):
        blocks.append(Sentences([f"Before: {words}" for words in sentences]))
    former = {fill.function: fill for fill in _fills(old)}
    return PageSection(
        "offload", "Offload", [*blocks, *(Tabular(_lanes(fill, former.get(fill.function))) for fill in _fills(whole))]
    )


def _sentences(snapshot: Snapshot) -> list[str]:
    handshakes = snapshot.handshakes
    if handshakes is None or handshakes.offload is None:
        return []
    successful = total(handshakes, Ending.SUCCESS)
    phrases = [engine_words(handshakes.offload), *offload_phrases(handshakes.offload, successful, snapshot.duration_s)]
    return [sentence(phrase) for phrase in phrases]


def _fills(snapshot: Snapshot | None) -> list[Fill]:
    return fills(snapshot.handshakes.offload) if snapshot and snapshot.handshakes and snapshot.handshakes.offload else []


def _lanes(after: Fill, before: Fill | None) -> HtmlTable:
    """Return how full the batches of one function were."""
    return compared(after.words, ("Lanes used", "Calls", "Share"), _rows, after, before)


def _rows(fill: Fill) -> list[Row]:
    everything = sum(calls for _, calls in fill.calls)
    return [Row((str(lanes),), (str(calls), share(calls, everything))) for lanes, calls in fill.calls]
