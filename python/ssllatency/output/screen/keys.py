# SPDX-License-Identifier: Apache-2.0
"""Keys as a user pressed them. A terminal sends Alt with a key as Esc and that key, so that Esc and a key that arrive together,
as over ssh, are read as one: as that key with Alt, as what a Mac types with Alt, or as the key without Esc. As none of ours has
Alt, they are two."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual._xterm_parser import XTermParser
from textual.drivers import linux_driver
from textual.events import Key

_ALT, _SHIFT = "alt+", "shift+"
_ESCAPE = "\x1b"
_INTRODUCERS = "[]OPX^_"  # with which sequences of terminals begin, after Esc


class KeyParser(XTermParser):
    """Textual's reader of what a terminal sends, but for Esc before a key."""

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[Key]:
        if len(sequence) == 2 and sequence[0] == _ESCAPE and sequence[1] not in _INTRODUCERS:
            yield Key("escape", _ESCAPE)
            sequence = sequence[1]
        yield from super()._sequence_to_key_events(sequence, alt)


def read_keys_apart() -> None:
    """Let Textual read keys so from now on."""
    vars(linux_driver)["XTermParser"] = KeyParser


def apart(key: Key) -> Sequence[Key]:
    """Return the keys of which one may have been made."""
    if not key.key.startswith(_ALT):
        return (key,)
    name = key.key.removeprefix(_ALT)
    if name.startswith(_SHIFT) and len(name) == len(_SHIFT) + 1:
        name = name.removeprefix(_SHIFT).upper()
    character = key.character or (name if len(name) == 1 else None)
    return Key("escape", _ESCAPE), Key(name, character)
