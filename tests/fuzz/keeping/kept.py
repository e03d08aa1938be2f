# SPDX-License-Identifier: Apache-2.0
"""The inputs that are kept: for each target a file with a line of JSON for each input, in a folder of the target's room.

An input that is text is a string. Another is an object whose one member is the bytes in base64: as they are, or deflated where
that is shorter. All of them were made by mutation of seeds, which are made by our own code; none is anybody's program.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "corpus"
MOST_BYTES = 48 << 10  # of a file; all together stay below a megabyte
_BYTES, _DEFLATED = "bytes", "deflated"


def file_of(room: str, target: str, folder: Path = FOLDER) -> Path:
    """Where the inputs of a target are."""
    return folder / room / f"{target}.jsonl"


def read(file: Path) -> list[bytes]:
    """The inputs in a file; none where it isn't there."""
    return [_decoded(json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []


def write(file: Path, inputs: Iterable[bytes]) -> int:
    """Writes as many of the inputs as there is room for, the first ones first; how many these are."""
    lines: list[str] = []
    left = MOST_BYTES
    for data in inputs:
        line = json.dumps(encoded(data)) + "\n"
        if len(line) <= left:
            lines.append(line)
            left -= len(line)
    if lines or file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(lines))
    return len(lines)


def encoded(data: bytes) -> str | dict[str, str]:
    """An input as a value of JSON."""
    forms: list[str | dict[str, str]] = [{_BYTES: _base64(data)}, {_DEFLATED: _base64(zlib.compress(data, 9))}]
    with suppress(UnicodeDecodeError):
        forms.insert(0, data.decode())
    return min(forms, key=lambda form: len(json.dumps(form)))


def _decoded(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    ((form, text),) = value.items()
    data = base64.b64decode(text, validate=True)
    return zlib.decompress(data) if form == _DEFLATED else data


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
