# SPDX-License-Identifier: Apache-2.0
"""The offload of private-key operations: who waits, for how long and for what, and how full its batches are."""

from __future__ import annotations

from collections.abc import Iterator

from ssllatency.data_class import dataclass
from ssllatency.model.handshakes import (
    Group,
    Part,
)
from ssllatency.model.offload import Batches, Offload, PollingThread
from ssllatency.reports.words.parts import PARTS
from ssllatency.units import counted, duration, seconds, share


@dataclass(frozen=True)
class Fill:
    """The fill of the calls of one multi-buffer function: `words` about all of them, `calls` by the number of lanes used, from
    the fewest that occurred to the most."""

    function: str
    words: str
    calls: tuple[tuple[int, int], ...]


def engine_words(offload: Offload) -> str:
    """By what was offloaded: a phrase."""
    return f"Offload by {offload.engine or 'an unknown engine'}"


def offload_phrases(offload: Offload, successful: Group | None, duration_s: float) -> list[str]:
    """Return what is known of the waits and the threads, a phrase each; `successful` are the handshakes whose waits it
    splits."""
    return [
        *_waiting(offload),
        *_split(offload, successful),
        *_fallbacks(offload),
        *(_poller(poller, duration_s) for poller in offload.pollers),
    ]


def fills(offload: Offload) -> list[Fill]:
    """The batches that were called."""
    return [_fill(batches) for batches in offload.batches if batches.count]


def _waiting(offload: Offload) -> Iterator[str]:
    most = "" if offload.most_waiting is None else f", {offload.most_waiting} at most"
    yield f"handshakes waiting for it: {offload.waiting} at the end{most}"
    if offload.handshakes:
        mean = offload.pauses / offload.handshakes
        yield f"pauses: {offload.pauses} in {counted(offload.handshakes, 'handshake')}, {mean:.3g} each on average"


def _split(offload: Offload, successful: Group | None) -> Iterator[str]:
    parts = successful.parts if successful else {}
    done, resumed = parts.get(Part.COMPLETION), parts.get(Part.QUEUE_OFFLOAD)
    if done and resumed and done.count and resumed.count:
        both = done.total_ns + resumed.total_ns
        yield f"{PARTS[Part.COMPLETION]}: {duration(done.total_ns / done.count)} on average, {share(done.total_ns, both)}"
        words = f"{duration(resumed.total_ns / resumed.count)} on average, {share(resumed.total_ns, both)}"
        yield f"{PARTS[Part.QUEUE_OFFLOAD]}, until the event loop came back: {words}"
    if offload.unseen:
        yield f"{counted(offload.unseen, 'wait')} not split, as the completion wasn't seen"


def _fallbacks(offload: Offload) -> Iterator[str]:
    if offload.software:
        yield f"{counted(offload.software, 'private-key operation')} done by OpenSSL itself instead"


def _poller(poller: PollingThread, duration_s: float) -> str:
    used = "" if poller.cpu_s is None else f", {seconds(poller.cpu_s)} of CPU"
    used += f" ({share(poller.cpu_s, duration_s)} of a core)" if poller.cpu_s is not None and duration_s else ""
    return f"polling thread {poller.comm} ({poller.pid}/{poller.tid}): {counted(poller.completions, 'completion')}{used}"


def _fill(batches: Batches) -> Fill:
    lanes = batches.count * batches.lanes
    average = f"average fill {batches.used / batches.count:.1f} of {batches.lanes}"
    wasted = f"{share(lanes - batches.used, lanes)} of the lanes wasted"
    used = [lane for lane, calls in enumerate(batches.fill) if calls]
    return Fill(
        batches.function,
        f"{batches.function}: {counted(batches.count, 'call')}, {average}, {wasted}",
        tuple((lane, batches.fill[lane]) for lane in range(min(used), max(used) + 1)),
    )
