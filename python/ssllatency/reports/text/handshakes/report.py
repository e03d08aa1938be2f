# SPDX-License-Identifier: Apache-2.0
"""The report of `ssllatency handshakes` as plain text.

In order: what was traced; how the handshakes ended; the mean successful one as a bar of its parts; a table of them; what kinds
there were; why some didn't succeed; the offload; the groups; the slowest; what was missed; and the diagnosis.
"""

from __future__ import annotations

from ssllatency.model.handshake_arithmetic import total
from ssllatency.model.handshakes import Ending, Group, Handshakes
from ssllatency.model.snapshot import Snapshot
from ssllatency.reports.diagnosis.diagnosis import diagnose
from ssllatency.reports.text.frame import heading, lost, not_traced, notes
from ssllatency.reports.text.handshakes import endings as handshake_endings
from ssllatency.reports.text.handshakes import mix as handshake_mix
from ssllatency.reports.text.handshakes import offload as offload_text
from ssllatency.reports.text.handshakes import parts as handshake_parts
from ssllatency.reports.text.page import PLAIN, Page
from ssllatency.reports.words.units import counted


def render(snapshot: Snapshot, page: Page = PLAIN) -> str:
    """The report, ending in a newline; "" where handshakes weren't measured. ASCII unless the page shows more."""
    handshakes = snapshot.handshakes
    if handshakes is None:
        return ""
    blocks = [
        heading(snapshot, page.width),
        handshake_endings.summary(handshakes, snapshot.duration_s, page),
        *_times(handshakes, page),
        handshake_endings.causes(handshakes, page),
        _offload(snapshot, handshakes, page),
        handshake_mix.groups(handshakes, page),
        handshake_endings.slowest(handshakes, page),
        _in_flight(handshakes),
        not_traced(snapshot.missing, page.width),
        lost(snapshot.losses, lost_handshakes(handshakes)),
        *notes((*uncounted(handshakes), *snapshot.notes), page.width),
        _diagnosis(handshakes, page),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _times(handshakes: Handshakes, page: Page) -> list[list[str]]:
    """Bars, table and mix of the successful ones; of the failed ones where none succeeded."""
    group = _first(handshakes)
    if group is None:
        return []
    kinds = handshake_mix.mix(handshakes, group.count, page) if group.ending is Ending.SUCCESS else []
    return [*handshake_parts.bars(group, page), handshake_parts.table(group, page), kinds]


def _first(handshakes: Handshakes) -> Group | None:
    return next((group for group in (total(handshakes, ending) for ending in Ending) if group), None)


def _offload(snapshot: Snapshot, handshakes: Handshakes, page: Page) -> list[str]:
    if handshakes.offload is None:
        return []
    return offload_text.offload(handshakes.offload, total(handshakes, Ending.SUCCESS), snapshot.duration_s, page)


def _in_flight(handshakes: Handshakes) -> list[str]:
    number = handshakes.in_flight
    return [f"In flight at the end: {counted(number, 'handshake')} had begun and not ended."] if number else []


def lost_handshakes(handshakes: Handshakes) -> list[tuple[int, str, str]]:
    """What was missed, as frame.lost() takes it."""
    return [
        (handshakes.dropped, "handshake", "not counted, pushed out by newer ones before the end"),
        (handshakes.unattributed, "handshake", "whose calls moved between threads, so that all of them is rest"),
        (handshakes.unsplit, "handshake", "not split into on and off CPU, as the kernel didn't announce all switches"),
        (
            handshakes.slept,
            "handshake",
            "whose calls slept before reads and writes were watched: waits for the peer may be told as rest",
        ),
    ]


def uncounted(handshakes: Handshakes) -> list[str]:
    """A sentence about handshakes that began before the trace, if there were any."""
    number = handshakes.partial
    return [f"Handshakes whose beginning was not seen, and that aren't counted: {number}."] if number else []


def _diagnosis(handshakes: Handshakes, page: Page) -> list[str]:
    return [line for sentence in diagnose(handshakes) for line in page.wrapped(f"==> {sentence}", "", "    ")]
