# SPDX-License-Identifier: Apache-2.0
"""Keys as a user pressed them. A terminal sends Alt with a key as Esc and that key, so that Esc and a key that arrive together,
as over ssh, are read as one with Alt; as none of ours has Alt, they are two."""

from __future__ import annotations

from collections.abc import Sequence

from textual.events import Key

_ALT, _SHIFT = "alt+", "shift+"


def apart(key: Key) -> Sequence[Key]:
    """Return the keys of which one may have been made."""
    if not key.key.startswith(_ALT):
        return (key,)
    name = key.key.removeprefix(_ALT)
    if name.startswith(_SHIFT) and len(name) == len(_SHIFT) + 1:
        name = name.removeprefix(_SHIFT).upper()
    character = key.character or (name if len(name) == 1 else None)
    return Key("escape", "\x1b"), Key(name, character)
