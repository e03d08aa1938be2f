# SPDX-License-Identifier: Apache-2.0
"""The offload of private-key operations in text: who waits, for how long and for what, and how full its batches are."""

from __future__ import annotations

from collections.abc import Iterator

from ssllatency.model.handshakes import Batches, Group, Offload, Part, PollingThread
from ssllatency.reports.text.bars import count_bar
from ssllatency.reports.text.page import Page
from ssllatency.reports.words.units import counted, duration, seconds, share

_CELLS = 40


def offload(known: Offload, successful: Group | None, duration_s: float, page: Page) -> list[str]:
    """All about the offload; `successful` are the handshakes whose waits it splits."""
    sentences = [*_waiting(known), *_split(known, successful), *_fallbacks(known)]
    sentences += [_poller(poller, duration_s) for poller in known.pollers]
    lines = [line for sentence in sentences for line in page.wrapped(sentence, "  ", "    ")]
    fills = [line for batches in known.batches if batches.count for line in _fill(batches, page)]
    return [*page.wrapped(f"Offload by {known.engine or 'an unknown engine'}:"), *lines, *fills]


def _waiting(known: Offload) -> Iterator[str]:
    most = "" if known.most_waiting is None else f", {known.most_waiting} at most"
    yield f"handshakes waiting for it: {known.waiting} at the end{most}"
    if known.handshakes:
        mean = known.pauses / known.handshakes
        yield f"pauses: {known.pauses} in {counted(known.handshakes, 'handshake')}, {mean:.3g} each on average"


def _split(known: Offload, successful: Group | None) -> Iterator[str]:
    parts = successful.parts if successful else {}
    done, resumed = parts.get(Part.COMPLETION), parts.get(Part.RESUMPTION)
    if done and resumed and done.count and resumed.count:
        both = done.total_ns + resumed.total_ns
        yield f"submission to completion: {duration(done.total_ns / done.count)} on average, {share(done.total_ns, both)}"
        words = f"{duration(resumed.total_ns / resumed.count)} on average, {share(resumed.total_ns, both)}"
        yield f"completion to resumption by the event loop: {words}"
    if known.unseen:
        yield f"{counted(known.unseen, 'wait')} not split, as the completion wasn't seen"


def _fallbacks(known: Offload) -> Iterator[str]:
    if known.software:
        yield f"{counted(known.software, 'private-key operation')} done by OpenSSL itself instead"


def _poller(poller: PollingThread, duration_s: float) -> str:
    used = "" if poller.cpu_s is None else f", {seconds(poller.cpu_s)} of CPU"
    used += f" ({share(poller.cpu_s, duration_s)} of a core)" if poller.cpu_s is not None and duration_s else ""
    return f"polling thread {poller.comm} ({poller.pid}/{poller.tid}): {counted(poller.completions, 'completion')}{used}"


def _fill(batches: Batches, page: Page) -> Iterator[str]:
    lanes = batches.count * batches.lanes
    average = f"average fill {batches.used / batches.count:.1f} of {batches.lanes}"
    wasted = f"{share(lanes - batches.used, lanes)} of the lanes wasted"
    yield from page.wrapped(f"{batches.function}: {counted(batches.count, 'call')}, {average}, {wasted}", "  ", "    ")
    filled = [lane for lane, calls in enumerate(batches.fill) if calls]
    for lane in range(min(filled), max(filled) + 1):
        calls = batches.fill[lane]
        yield f"    {lane:>2} {calls:>8} |{count_bar(calls, max(batches.fill), _CELLS, page):<{_CELLS}}|"
