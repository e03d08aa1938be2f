# SPDX-License-Identifier: Apache-2.0
"""The report of `ssllatency handshakes` as plain text.

In order: what was traced; how the handshakes ended; the mean successful one as a bar of its parts; a table of them; what kinds
there were; flights, losses and resumption; the certificates that were served; why some didn't succeed; the offload; the groups;
the slowest; what was missed; and the diagnosis.
"""

from __future__ import annotations

from ssllatency.model.arithmetic.handshake_sums import total
from ssllatency.model.handshakes import Ending, Handshakes
from ssllatency.model.snapshot import Snapshot
from ssllatency.reports.diagnosis.diagnosis import conclusion
from ssllatency.reports.rows import losses as loss_rows
from ssllatency.reports.rows.handshakes.facts import facts_sentence
from ssllatency.reports.rows.parts import shown_group
from ssllatency.reports.rows.sampling import phases_sentence
from ssllatency.reports.text.frame import costs, heading, lost, not_traced, notes
from ssllatency.reports.text.handshakes import certificates as handshake_certificates
from ssllatency.reports.text.handshakes import endings as handshake_endings
from ssllatency.reports.text.handshakes import groups as handshake_groups
from ssllatency.reports.text.handshakes import mix as handshake_mix
from ssllatency.reports.text.handshakes import parts as handshake_parts
from ssllatency.reports.text.handshakes.offload import offload_lines
from ssllatency.reports.text.page import PLAIN, Page, joined
from ssllatency.reports.words.marks import FINDING
from ssllatency.reports.words.parts import part_names


def render(snapshot: Snapshot, page: Page = PLAIN, before: Snapshot | None = None) -> str:
    """The report, ending in a newline; "" where handshakes weren't measured. ASCII unless the page shows more. `before`: the
    interval that was reported before this one, whose heading, certificates and notes needn't be repeated."""
    return joined(blocks(snapshot, page, before)) if snapshot.handshakes else ""


def blocks(snapshot: Snapshot, page: Page, before: Snapshot | None = None) -> list[list[str]]:
    """The report as blocks of lines, some of them empty; none where handshakes weren't measured."""
    handshakes = snapshot.handshakes
    if handshakes is None:
        return []
    return [
        heading(snapshot, page.width, before),
        handshake_endings.summary(handshakes, snapshot.duration_s, page),
        *_times(handshakes, page),
        handshake_certificates.certificates(handshakes, page, before.handshakes if before else None),
        handshake_endings.causes(handshakes, page),
        _offload(snapshot, handshakes, page),
        handshake_groups.groups(handshakes, page),
        handshake_endings.slowest(handshakes, page),
        loss_rows.handshakes_in_flight(handshakes.in_flight),
        not_traced(snapshot.missing, page.width),
        lost(snapshot.losses, handshakes, width=page.width),
        *costs(snapshot.cost, page),
        *notes(loss_rows.notes(snapshot), page, before),
        _diagnosis(handshakes, snapshot.duration_s, page),
    ]


def _times(handshakes: Handshakes, page: Page) -> list[list[str]]:
    """Bars, table and mix of the successful ones; of the failed ones where none succeeded."""
    group = shown_group(handshakes)
    if group is None:
        return []
    kinds = handshake_mix.mix(handshakes, page) if group.ending is Ending.SUCCESS else []
    facts = page.wrapped(facts_sentence(handshakes), "", "  ")
    watched = page.wrapped(phases_sentence(handshakes), "", "  ")
    names = part_names(handshakes.role)
    return [*handshake_parts.bars(group, page, names), [*handshake_parts.table(group, page, names), *watched], kinds, facts]


def _offload(snapshot: Snapshot, handshakes: Handshakes, page: Page) -> list[str]:
    if handshakes.offload is None:
        return []
    return offload_lines(handshakes.offload, total(handshakes, Ending.SUCCESS), snapshot.duration_s, page)


def _diagnosis(handshakes: Handshakes, duration_s: float, page: Page) -> list[str]:
    lines = (line for sentence in conclusion(handshakes, duration_s) for line in page.wrapped(f"==> {sentence}", "", "    "))
    return [page.marked(line, FINDING) for line in lines]
