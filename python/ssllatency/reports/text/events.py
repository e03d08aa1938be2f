# SPDX-License-Identifier: Apache-2.0
"""Single calls as lines: columns, or a JSON object each. Quick, as there may be hundreds of thousands a second.

What calls have in common (the thread's columns, the function's, the second) is formatted once and kept.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, cast

from ssllatency.model.events import Call, Caller, Event, Keys, Returned, as_int32
from ssllatency.model.handshakes import Label
from ssllatency.model.snapshot import Outcome
from ssllatency.reports.text.page import PLAIN, Page
from ssllatency.reports.words.label_words import value_words
from ssllatency.reports.words.marks import FAILURE
from ssllatency.units import printable

_KEPT = 4096  # callers; more are formatted anew
_FUNCTION_WIDTH, _OUTCOME_WIDTH = 26, 16
_WIDTHS = {"TIME": 15, "PID": 7, "TID": 7, "COMM": 15, "FUNC": _FUNCTION_WIDTH, "RET": 14, "BYTES": 9, "LAT(us)": 10}
_LEFT = ("TIME", "COMM", "FUNC")
_KEPT_COLUMNS, _MORE_COLUMNS = ("TIME", "PID", "FUNC", "LAT(us)"), ("BYTES", "RET", "COMM", "TID")  # where it is narrow
HEADINGS = (
    f"{'TIME':15} {'PID':>7} {'TID':>7} {'COMM':15} {'FUNC':{_FUNCTION_WIDTH}} {'RET':>10} {'BYTES':>9} {'LAT(us)':>10} OUTCOME"
)


class Lines(Protocol):
    """A way of writing events down."""

    heading: str

    def render(self, events: Iterable[Event], wall_ns: int) -> list[str]:
        """A line for each, newline included. `wall_ns` added to an event's clock is the time of day."""


class Clock:
    """The local time by a pattern of strftime, to the second: formatted anew only when the second changes."""

    def __init__(self, pattern: str) -> None:
        self._pattern, self._second, self._text = pattern, -1, ""

    def at(self, second: int) -> str:
        if second != self._second:
            self._second, self._text = second, time.strftime(self._pattern, time.localtime(second))
        return self._text


class Moments:
    """Times of the day as JSON has them: RFC 3339 with microseconds, in local time."""

    def __init__(self) -> None:
        self._clock, self._zone = Clock("%Y-%m-%dT%H:%M:%S."), Clock("%z")

    def at(self, wall_ns: int) -> str:
        """The moment so long after the Unix epoch."""
        second, micro = divmod(wall_ns // 1000, 1_000_000)
        zone = self._zone.at(second)
        return f"{self._clock.at(second)}{micro:06d}{zone[:3]}:{zone[3:]}"

    def dropped(self, number: int, wall_ns: int) -> str:
        """The line that stands for calls or handshakes that were dropped because the buffer was full."""
        return f'{{"time": "{self.at(wall_ns)}", "dropped": {number}}}\n'


def returned_text(kind: Returned, returned: int) -> str:
    """A return value as C would print it: an int with its sign, a pointer or status in hexadecimal, "-" for void."""
    if kind is Returned.NUMBER:
        return str(as_int32(returned))
    if kind is Returned.NOTHING:
        return "-"
    return f"0x{returned & 0xFFFFFFFF:08x}" if kind is Returned.STATUS else f"0x{returned:x}"


class Columns:
    """Columns that line up, whether on a terminal or in a file."""

    heading = HEADINGS + "\n"

    def __init__(self, keys: Keys, page: Page = PLAIN) -> None:
        """Failures stand out where the page shows colours."""
        self._keys, self._clock, self._page = keys, Clock("%H:%M:%S."), page
        self._callers: dict[bytes, str] = {}
        self._calls: dict[int, tuple[Returned, str, str]] = {}

    def render(self, events: Iterable[Event], wall_ns: int) -> list[str]:
        """A line for each."""
        lines = []
        callers, calls, at, number = self._callers, self._calls, self._clock.at, Returned.NUMBER
        for ended_ns, duration_ns, returned, size, caller, call in events:
            second, micro = divmod((ended_ns + wall_ns) // 1000, 1_000_000)
            who = callers.get(caller) or self._caller(caller)
            kind, function, outcome = calls.get(call) or self._call(call)
            value = as_int32(returned) if kind is number else returned_text(kind, returned)
            length = size if size >= 0 else ""
            lines.append(
                f"{at(second)}{micro:06d} {who} {function} {value:>10} {length:>9} {duration_ns / 1000:>10.1f} {outcome}\n"
            )
        return lines

    def _caller(self, key: bytes) -> str:
        who = self._keys.caller(key)
        if len(self._callers) >= _KEPT:
            self._callers.clear()
        text = self._callers[key] = f"{who.pid:>7} {who.tid:>7} {printable(who.comm):15}"
        return text

    def _call(self, key: int) -> tuple[Returned, str, str]:
        call = self._keys.call(key)
        made = self._calls[key] = call.returned, f"{call.function:{_FUNCTION_WIDTH}}", _outcome(call, self._page)
        return made


class NarrowColumns(Columns):
    """The columns for which there is room on a narrow terminal: when, which process, what and how long, and then as many of the
    others as fit. An outcome that is too long for the rest of the line is cut."""

    def __init__(self, keys: Keys, page: Page) -> None:
        super().__init__(keys, page)
        fixed = sum(_WIDTHS[name] + 1 for name in _KEPT_COLUMNS) + _OUTCOME_WIDTH
        room = (page.most or page.width) - fixed
        self._shown = set(_KEPT_COLUMNS)
        for name in _MORE_COLUMNS:
            if _WIDTHS[name] + 1 <= room:
                room -= _WIDTHS[name] + 1
                self._shown.add(name)
        self.heading = f"{self._prefix({name: name for name in _WIDTHS})} OUTCOME\n"

    def render(self, events: Iterable[Event], wall_ns: int) -> list[str]:
        """A line for each."""
        lines = []
        for ended_ns, duration_ns, returned, size, key, number in events:
            second, micro = divmod((ended_ns + wall_ns) // 1000, 1_000_000)
            caller, call = self._keys.caller(key), self._keys.call(number)
            cells = {
                "TIME": f"{self._clock.at(second)}{micro:06d}",
                "PID": str(caller.pid),
                "TID": str(caller.tid),
                "COMM": printable(caller.comm),
                "FUNC": call.function,
                "RET": returned_text(call.returned, returned),
                "BYTES": str(size) if size >= 0 else "",
                "LAT(us)": f"{duration_ns / 1000:.1f}",
            }
            prefix = self._prefix(cells)
            left = max(0, (self._page.most or self._page.width) - len(prefix) - 1)
            lines.append(f"{prefix} {_outcome(call, self._page, left)}\n")
        return lines

    def _prefix(self, cells: Mapping[str, str]) -> str:
        shown = [name for name in _WIDTHS if name in self._shown]
        return " ".join(f"{cells[name]:{'<' if name in _LEFT else '>'}{_WIDTHS[name]}}" for name in shown)


def columns(keys: Keys, page: Page) -> Columns:
    """Lines of all columns, or of those for which this terminal has room."""
    return Columns(keys, page) if page.has_room([HEADINGS + " " * _OUTCOME_WIDTH]) else NarrowColumns(keys, page)


def _outcome(call: Call, page: Page, width: int | None = None) -> str:
    text = (f"{call.outcome} {call.reason}" if call.reason else str(call.outcome))[:width]
    return page.marked(text, FAILURE) if call.outcome is Outcome.FAILURE else text


def whom_words(labels: Mapping[Label, str | None]) -> str:
    """Return who shook hands, at the end of a line."""
    return " ".join(f"{label}={value_words(label, value)}" for label, value in labels.items())


class WhomColumns:
    """Adds to each line of a call that ended a handshake who shook hands."""

    def __init__(
        self, lines: Columns | JsonLines, whom: Callable[[bytes], Mapping[Label, str | None]], page: Page = PLAIN
    ) -> None:
        """On a page that is too narrow for it, it goes into a line of its own."""
        self._lines, self._whom, self._page = lines, whom, page
        self.heading = lines.heading

    def render(self, events: Iterable[tuple[int, int, int, int, bytes, int, bytes]], wall_ns: int) -> list[str]:
        """A line for each. The last of an event's members is the key of who shook hands."""
        lines = []
        for *event, key in events:
            (line,) = self._lines.render([cast("Event", tuple(event))], wall_ns)
            labels = self._whom(key)
            lines.append(self._added(line, labels) if labels else line)
        return lines

    def _added(self, line: str, labels: Mapping[Label, str | None]) -> str:
        if isinstance(self._lines, JsonLines):
            return f'{line[:-2]}, "labels": {json.dumps(labels)}}}\n'
        words = whom_words(labels)
        added = f"{line[:-1]} {words}"
        return f"{added}\n" if self._page.has_room([added]) else f"{line}  {words}\n"


class JsonLines:
    """An object a line. What isn't known, or doesn't apply, has no field."""

    heading = ""

    def __init__(self, keys: Keys) -> None:
        self._keys, self._moments = keys, Moments()
        self._callers: dict[bytes, str] = {}
        self._calls: dict[int, tuple[Returned, str]] = {}

    def render(self, events: Iterable[Event], wall_ns: int) -> list[str]:
        """A line for each."""
        lines = []
        for ended_ns, duration_ns, returned, size, caller, call in events:
            who = self._callers.get(caller) or self._caller(caller)
            kind, what = self._calls.get(call) or self._call(call)
            value = _json_returned(kind, returned)
            length = f', "bytes": {size}' if size >= 0 else ""
            moment = self._moments.at(ended_ns + wall_ns)
            lines.append(f'{{"time": "{moment}", {who}, {what}{value}{length}, "duration_ns": {duration_ns}}}\n')
        return lines

    def _caller(self, key: bytes) -> str:
        if len(self._callers) >= _KEPT:
            self._callers.clear()
        text = self._callers[key] = _fields(self._keys.caller(key))
        return text

    def _call(self, key: int) -> tuple[Returned, str]:
        call = self._keys.call(key)
        made = self._calls[key] = call.returned, _call_fields(call)
        return made


def _fields(caller: Caller) -> str:
    return _members(caller._asdict())


def _call_fields(call: Call) -> str:
    reason = {"reason": call.reason} if call.reason and call.outcome is not Outcome.SUCCESS else {}
    return _members({"function": call.function, "outcome": str(call.outcome), **reason})


def _members(fields: Mapping[str, object]) -> str:
    """The fields as an object has them, without its braces."""
    return ", ".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in fields.items())


def _json_returned(kind: Returned, returned: int) -> str:
    if kind is Returned.NOTHING:
        return ""
    text = returned_text(kind, returned)
    return f', "returned": {text}' if kind is Returned.NUMBER else f', "returned": "{text}"'
