# SPDX-License-Identifier: Apache-2.0
"""JSON that stays JSON: the fuzzer's bytes choose which values of a good document are replaced, by what.

Bytes changed at random break the syntax before a field is looked at. So here they are taken as a row of choices.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any

Check = Callable[[bytes], None]
_MOST_EDITS = 4
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 2, 7, -1, 1 << 16, 1 << 20, 1 << 31, 1 << 32, 1 << 63, 1 << 64, 1 << 96, 10**30),
    *(0.5, -0.5, 1e-9, 1e17, 1e308, float("nan"), float("inf")),
    *("", "a", "1", "rax", "rbx", "entry", "exit", "\x1b[2J", "\ud800", "\u202e", "0" * 64, "2030-01-31T12:00:00Z"),
    *([], [0], [None], [[0, 0]], {}, {"a": 1}),
)


class Choices:
    """The bytes, taken one after the other; 0 where there are no more."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def of(self, number: int) -> int:
        """One of 0 to `number` - 1, none of which is out of reach."""
        width = 1 if number <= 256 else 2
        taken, self._at = self._data[self._at : self._at + width], self._at + width
        return int.from_bytes(taken, "little") % number if number else 0

    @property
    def left(self) -> bool:
        """Whether there are more."""
        return self._at < len(self._data)


def edited(document: Any, choices: Choices) -> Any:
    """The document with some of its values replaced, removed, swapped or doubled."""
    holder = [copy.deepcopy(document)]
    for _ in range(_MOST_EDITS):
        if not choices.left:
            break
        _edit(*_place(holder, choices), choices)
    return holder[0]


def _place(holder: Any, choices: Choices) -> tuple[Any, Any]:
    """A list or object of the document, and a member of it."""
    key: Any = 0
    while True:
        value = holder[key]
        keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        chosen = choices.of(len(keys) + 1)
        if chosen == len(keys) or not keys:
            return holder, key
        holder, key = value, keys[chosen]


def _edit(holder: Any, key: Any, choices: Choices) -> None:
    kind = choices.of(8)
    if kind == 0 and isinstance(holder, list):
        holder.append(copy.deepcopy(holder[key]))
    elif kind == 1 and isinstance(holder, dict):
        del holder[key]
    elif kind == 2:
        others = list(holder) if isinstance(holder, dict) else range(len(holder))
        other = others[choices.of(len(others))]
        holder[key], holder[other] = holder[other], holder[key]
    elif kind == 3 and type(holder[key]) is int:
        holder[key] += choices.of(256) - 128
    else:
        holder[key] = copy.deepcopy(_VALUES[choices.of(len(_VALUES))])


def of_documents(check: Check, documents: Sequence[bytes]) -> Check:
    """The check as one of choices: of which document, each a JSON text or one a line, is edited, and how."""
    parsed = [[json.loads(line) for line in text.splitlines()] for text in documents]

    def checked(data: bytes) -> None:
        choices = Choices(data)
        lines = list(parsed[choices.of(len(parsed))])
        at = choices.of(len(lines))
        lines[at] = edited(lines[at], choices)
        check("\n".join(map(json.dumps, lines)).encode() + b"\n")

    return checked


def beginnings() -> list[bytes]:
    """Choices to begin with."""
    return [bytes((first, second, third)) * 8 for first in range(4) for second, third in ((1, 5), (3, 250), (9, 77))]
