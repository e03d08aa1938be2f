# SPDX-License-Identifier: Apache-2.0
"""The only module that writes text to a terminal. Names, notes and reasons are chosen by traced processes, or by whoever wrote
a recording: none of their characters may move the cursor, set a title or reverse text."""

from __future__ import annotations

import sys

from ssllatency.reports.words.units import printable

_LAYOUT = "\n\t"


def show(text: str, end: str = "\n") -> None:
    """Writes a result to standard output, a report or JSON."""
    print(harmless(text), end=end, flush=True)


def tell(sentence: str) -> None:
    """Writes a sentence to standard error, with the program's name before it."""
    tell_line(f"ssllatency: {sentence}")


def tell_line(line: str) -> None:
    """Writes a line to standard error, in ASCII."""
    print(printable(line), file=sys.stderr, flush=True)


def harmless(text: str) -> str:
    """The text in which nothing but line feeds and tabs controls the terminal: other such characters are written as JSON writes
    them, \\uNNNN, so that a document stays one."""
    if text.isprintable():
        return text
    return "".join(_harmless(character) for character in text)


def _harmless(character: str) -> str:
    return character if character.isprintable() or character in _LAYOUT else f"\\u{ord(character):04x}"
