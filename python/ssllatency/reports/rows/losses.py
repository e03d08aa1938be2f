# SPDX-License-Identifier: Apache-2.0
"""The gaps of a measurement: losses, what was under way at the end, what was not traced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ssllatency.data_class import dataclass
from ssllatency.model.handshakes import Handshakes
from ssllatency.model.snapshot import Losses, Missing, Snapshot
from ssllatency.reports.words.accept_queues import overflows_sentence, untold_sentence
from ssllatency.units import counted


def losses(counts: Losses, handshakes: Handshakes | None = None) -> list[str]:
    """The losses that aren't zero, those of handshakes first, each as a phrase: "7 calls not counted because ..."."""
    lines = [
        *(_of_handshakes(handshakes) if handshakes else ()),
        (counts.unmatched_entries, "call", "seen to begin but never to end"),
        (counts.left, "call", "left by a panic or runtime.Goexit, never to end"),
        (counts.unmatched_exits, "call", "seen to end but not to begin, including those under way when the trace began"),
        (counts.map_full, "call", "not counted because a kernel map was full"),
        (counts.events_dropped, "record", "dropped because a ring buffer was full"),
        (counts.folded_processes, "process", 'beyond the maximum, counted together as "other"'),
        (counts.late_processes, "process", "traced late, whose calls until then aren't counted"),
    ]
    return [f"{counted(number, noun)} {how}" for number, noun, how in lines if number]


def _of_handshakes(handshakes: Handshakes) -> list[tuple[int, str, str]]:
    """Return how many, of what, and how they were lost."""
    return [
        (handshakes.dropped, "handshake", "not counted, pushed out by newer ones before the end"),
        (handshakes.unattributed, "handshake", "whose calls moved between threads, so that all of them is rest"),
        (handshakes.unsplit, "handshake", "not split into on and off CPU, as their calls moved between threads"),
        (
            handshakes.slept,
            "handshake",
            "whose calls slept before reads and writes were watched: waits for the peer may be counted as rest",
        ),
        (
            handshakes.bounded,
            "handshake",
            "whose peer's bytes came in several pieces while they waited: some of their queue may be the peer's",
        ),
    ]


def incomplete(snapshot: Snapshot) -> bool:
    """Whether something was left out because there was no room for it."""
    dropped = snapshot.handshakes.dropped if snapshot.handshakes else 0
    return bool(dropped or snapshot.losses.map_full or snapshot.losses.events_dropped)


def calls_in_flight(number: int) -> list[str]:
    """The sentence about calls that hadn't returned at the end, if there were any."""
    return [f"In flight at the end: {counted(number, 'call')} had begun and not returned."] if number else []


def handshakes_in_flight(number: int) -> list[str]:
    """The sentence about handshakes that were under way at the end, if there were any."""
    return [f"In flight at the end: {counted(number, 'handshake')} had begun and not ended."] if number else []


def notes(snapshot: Snapshot) -> list[str]:
    """Sentences: about handshakes that began before the trace, connections that were no handshakes and those that found no
    room, where there were any, and what the engine has to say."""
    return [*(_of_counts(snapshot.handshakes) if snapshot.handshakes else ()), *snapshot.notes]


def _of_counts(handshakes: Handshakes) -> Iterator[str]:
    if handshakes.partial:
        yield f"Handshakes whose beginning was not seen, and that aren't counted: {handshakes.partial}."
    if handshakes.inspections:
        inspections = counted(handshakes.inspections, "connection")
        yield f"Not counted as handshakes: {inspections} of BoringSSL's that quiche made only to parse a ClientHello."
    yield from _full_queues(handshakes)


def _full_queues(handshakes: Handshakes) -> list[str]:
    sentences = overflows_sentence(handshakes.accept_queues), untold_sentence(handshakes.overflows_untold)
    return [sentence for sentence in sentences if sentence]


@dataclass(frozen=True)
class NotTraced:
    """The functions of a library that were left out for one reason."""

    library: str
    reason: str
    functions: tuple[str, ...]


def not_traced(missing: Iterable[Missing]) -> list[NotTraced]:
    """Return what was left out, by library and reason."""
    functions: dict[tuple[str, str], list[str]] = {}
    for absent in missing:
        functions.setdefault((absent.library, absent.reason), []).append(absent.function)
    return [NotTraced(library, reason, tuple(names)) for (library, reason), names in sorted(functions.items())]
