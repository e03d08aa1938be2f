# SPDX-License-Identifier: Apache-2.0
"""The only module that writes text to a terminal. Names, notes and reasons are chosen by traced processes, or by whoever wrote
a recording: none of their characters may move the cursor, set a title or reverse text."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterator
from contextlib import contextmanager

from ssllatency.errors import SsllatencyError
from ssllatency.reports.words.marks import DOMINANT, END, FAILURE, FINDING
from ssllatency.units import printable

_LAYOUT = "\n\t"
# Bold beside a colour, so that it stands out on any background.
_SEQUENCES = {FAILURE: "\x1b[1;31m", DOMINANT: "\x1b[1;33m", FINDING: "\x1b[1m", END: "\x1b[0m"}


_MOST_TOLD = 200
_TOLD: set[str] = set()


class _Status:
    """The last line on the terminal, standard error: it shows progress, and gives way to any other text."""

    shown = False


def show_status(line: str) -> None:
    """Writes the line that shows progress in place of the one before."""
    _write_error(f"\r{printable(line)}\x1b[K")
    _Status.shown = True


def clear_status() -> None:
    """Removes that line, if it is there."""
    if _Status.shown:
        _write_error("\r\x1b[K")
        _Status.shown = False


def _write_error(text: str) -> None:
    """A full disk behind standard error ends no trace. BrokenPipeError where whoever read it has gone."""
    try:
        print(text, end="", file=sys.stderr, flush=True)
    except BrokenPipeError:
        raise
    except OSError:
        pass


def show(text: str, end: str = "\n", *, colour: bool = False) -> None:
    """Writes a result to standard output, a report or JSON; with `colour` marks (reports/words/marks.py) become colours.
    SsllatencyError where it can't be written, BrokenPipeError where whoever read it has gone."""
    clear_status()
    with writing_output():
        print(as_shown(text, colour=colour), end=end, flush=True)


@contextmanager
def writing_output() -> Iterator[None]:
    """Makes an error of standard output's, as of a full disk, a SsllatencyError; but for BrokenPipeError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise SsllatencyError(f"standard output can't be written: {error.strerror}.") from None


def as_shown(text: str, *, colour: bool) -> str:
    """The text as it is written: harmless, and with `colour` with a terminal's sequence in place of each mark."""
    if not colour:
        return harmless(text)
    return harmless(text, _SEQUENCES).translate({ord(mark): sequence for mark, sequence in _SEQUENCES.items()})


def tell(sentence: str) -> None:
    """Writes a sentence to standard error, with the program's name before it, if it can be written there."""
    if len(_TOLD) < _MOST_TOLD:
        _TOLD.add(sentence)
    tell_line(f"ssllatency: {sentence}")


def told() -> frozenset[str]:
    """The sentences that were told so far."""
    return frozenset(_TOLD)


def tell_line(line: str) -> None:
    """Writes a line to standard error, in ASCII, if it can be written there."""
    clear_status()
    _write_error(f"{printable(line)}\n")


def harmless(text: str, kept: Container[str] = ()) -> str:
    """The text in which nothing but line feeds and tabs controls the terminal: other such characters are written as JSON writes
    them, \\uNNNN, so that a document stays one. Those of `kept` stay as well."""
    if text.replace("\n", "").isprintable():  # a stream of lines takes a tenth of the time so
        return text
    changed = {ord(character): _harmless(character) for character in set(text) if character not in kept}
    return text.translate(changed)


def _harmless(character: str) -> str:
    return character if character.isprintable() or character in _LAYOUT else f"\\u{ord(character):04x}"
