# SPDX-License-Identifier: Apache-2.0
"""How handshakes ended: the line that counts them, why some didn't succeed, and the slowest of them."""

from __future__ import annotations

from datetime import UTC, datetime

from ssllatency.model.handshakes import PHASES, WAITS, Cause, Ending, Handshakes, Part, Single
from ssllatency.reports.text.bars import split_bar
from ssllatency.reports.text.page import Page
from ssllatency.reports.words.handshakes import ADJECTIVES, PARTS, labels_words
from ssllatency.reports.words.units import counted, duration, seconds, share

_MOST_CAUSES = 10
_MOST_PARTS = 3
_CELLS = 40


def summary(handshakes: Handshakes, duration_s: float, page: Page) -> list[str]:
    """How many handshakes, how many a second, and how they ended."""
    counts = {ending: sum(one.count for one in handshakes.groups if one.ending is ending) for ending in Ending}
    everything = sum(counts.values())
    if not everything:
        sentence = f"No handshake ended in {seconds(duration_s)}: check that these are the processes that serve TLS,"
        return page.wrapped(f"{sentence} and that clients made new connections in that time.")
    pace = f" ({rate(everything / duration_s)} a second)" if duration_s else ""
    endings = [
        f"{counts[ending]} {ADJECTIVES[ending]} ({share(counts[ending], everything)})" for ending in Ending if counts[ending]
    ]
    return page.wrapped(f"{counted(everything, 'handshake')} in {seconds(duration_s)}{pace}: {', '.join(endings)}")


def rate(number: float) -> str:
    """So many a second, in two or three digits."""
    return f"{number:.0f}" if number >= 100 else f"{number:.2g}" if number < 10 else f"{number:.1f}"


def causes(handshakes: Handshakes, page: Page) -> list[str]:
    """Why handshakes didn't succeed, the most frequent first. MEAN is their wall time."""
    rows = sorted((one for one in handshakes.causes if one.count), key=lambda one: (-one.count, why(one)))
    if not rows:
        return []
    everything = sum(one.count for one in rows)
    shown, rest = rows[:_MOST_CAUSES], rows[_MOST_CAUSES:]
    cells = [[str(one.count), share(one.count, everything), duration(one.total_ns / one.count)] for one in shown]
    texts = [why(one) for one in shown]
    if rest:
        number = sum(one.count for one in rest)
        cells.append([str(number), share(number, everything), duration(sum(one.total_ns for one in rest) / number)])
        texts.append(f"{counted(len(rest), 'other cause')}")
    return ["Not successful:", *page.explained([["COUNT", "SHARE", "MEAN"], *cells], ["WHY", *texts])]


def why(cause: Cause) -> str:
    """How they ended and what is known of the reason."""
    source = _words(cause.library, f"{cause.code:08X}" if cause.code else "")
    reason = f"{ADJECTIVES[cause.ending]}: {cause.reason or 'no reason known'}{f' ({source})' if source else ''}"
    return _words(reason, _alert(cause.alert, "sent" if cause.sent else "received"), _state(cause.state))


def _words(*words: str) -> str:
    return ", ".join(filter(None, words))


def _alert(name: str, which_way: str = "") -> str:
    return f'alert "{name}" {which_way}'.rstrip() if name else ""


def _state(name: str) -> str:
    return f'in state "{name}"' if name else ""


def slowest(handshakes: Handshakes, page: Page) -> list[str]:
    """A few lines a handshake: when and whose, how its time was split, and what it was."""
    lines = [line for single in handshakes.slowest for line in single_lines(single, page)]
    return ["The slowest:", *lines] if lines else []


def single_lines(single: Single, page: Page) -> list[str]:
    """One handshake by itself: when it ended and how, how its time was split, and what it was."""
    wall = duration(single.parts[Part.WALL])
    ended = datetime.fromtimestamp(single.ended_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    what = f"{wall}  {ended}  {single.comm} ({single.pid}), {ADJECTIVES[single.ending]}"
    pauses = f", {counted(single.pauses, 'pause')}" if single.pauses else ""
    why = _words(single.reason, _alert(single.alert), _state(single.state))
    return [
        *page.wrapped(f"{what}, {counted(single.calls, 'call')}{pauses}", "  ", "    "),
        *(page.wrapped(why, "    ") if why else []),
        *_split(single, page),
        *(page.wrapped(labels_words(single.labels), "    ")),
    ]


def _split(single: Single, page: Page) -> list[str]:
    times = {part: single.parts[part] for part in (*PHASES, *WAITS) if single.parts.get(part)}
    longest = sorted(times, key=lambda part: -times[part])[:_MOST_PARTS]
    words = ", ".join(f"{PARTS[part]} {duration(times[part])}" for part in longest)
    return [f"    {split_bar(times, _CELLS, page)}", *page.wrapped(words, "    ")] if times else []
