# SPDX-License-Identifier: Apache-2.0
"""Text of a page: untrusted text made harmless, numbers kept beside their units, parts marked by a letter."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from ssllatency.model.handshakes import Part
from ssllatency.units import NO_BREAK, together

# Readers don't read longer texts; files, functions and reasons have no longer names.
_LONGEST = 4000
_LONGEST_NAME = 400
_LONGEST_IN_PLOT = 32
_MICROSECONDS = re.compile(r"(?<=\d\u00a0)us(?![^\W_])")

_COMMAND = re.compile("`([^`]{1,200})`")
_BREAKS = re.compile(r"([/_])(?=\w)")


def style_name(part: Part) -> str:
    """The part's name in style sheets and among the colours."""
    return part.value.replace("_", "-")


def visible(text: str) -> str:
    """The text without control characters and characters that turn its direction, cut where it is too long to be read."""
    shown = _cut(text, _LONGEST)
    if shown.isprintable():
        return shown
    return "".join(_visible(character) for character in shown)


def _visible(character: str) -> str:
    return character if character.isprintable() or character in f"\n{NO_BREAK}" else f"\\x{ord(character):02x}"


def typeset(text: str) -> str:
    """Numbers that stay beside their units, and microseconds as they are written: "706 \u00b5s"."""
    return _MICROSECONDS.sub("\u00b5s", together(text))


def name(text: str) -> Markup:
    """A name, cut where it is too long to be one, that may go on in the next line after a slash or underscore."""
    return Markup(_BREAKS.sub(r"\1<wbr>", str(escape(visible(_cut(text, _LONGEST_NAME))))))


def sentence(text: str) -> Markup:
    """A sentence in which what stands between backticks is for typing."""
    return Markup(_COMMAND.sub(r"<code>\1</code>", str(escape(typeset(visible(text))))))


def in_plot(text: str) -> str:
    """A name in a plot, where nothing else makes it harmless and one line is all the room there is."""
    return visible(text if len(text) <= _LONGEST_IN_PLOT else f"{text[:_LONGEST_IN_PLOT]} ...")


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]} ... ({len(text)} characters)"
