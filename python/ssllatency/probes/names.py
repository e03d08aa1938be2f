# SPDX-License-Identifier: Apache-2.0
"""Keeps the names that libraries have for codes on disk, so that a report needs no second look into the libraries' files.

An entry depends on the contents of the file and on this program's own code, as a plan's does (cache.py), and is checked against
the separate debug file as well. Nothing here brings in the ELF parser or the decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ssllatency.elf.names import Names, names
from ssllatency.probes import store

if TYPE_CHECKING:
    from ssllatency.elf.image import Image

_ENTRY = {"build_id", "debug", "names"}
_MAJORS = (0, 1, 3)
_MOST_NAMES = 65536
_LONGEST_NAME = 256
_HIGHEST_CODE = 1 << 32


class _DamagedNames(Exception):
    """The values are no Names. The text names the field."""


def cached_names(
    path: str | Path,
    open_image: Callable[[], Image],
    *,
    debug_roots: Sequence[str] = ("/",),
    directory: Path | None = None,
) -> tuple[Names, bool]:
    """The names in the file `path`, and whether they came from the cache.

    `open_image` opens the same file where it must be looked into, with `debug_roots`; `directory` is the folder of the cache
    (`store.default_directory()`). ElfError as from names().
    """
    directory = directory or store.default_directory()
    content = store.digest(path)
    name = store.entry_name(content, "names")
    kept = _load(directory, name, debug_roots) if name else None
    if kept:
        return kept, True
    image = open_image()
    found = names(image)
    if name and image.build_id and store.digest(path) == content:
        entry = {"build_id": image.build_id, "debug": store.identity(image.debug_file), "names": to_values(found)}
        store.store(directory, name, entry)
    return found, False


def _load(directory: Path, name: str, debug_roots: Sequence[str]) -> Names | None:
    entry = store.load(directory, name)
    if not isinstance(entry, dict) or set(entry) != _ENTRY or not isinstance(entry["build_id"], str):
        return None
    debug = entry["debug"]
    true = not store.debug_file_has_come(entry["build_id"], debug_roots) if debug is None else store.same_debug_file(debug)
    try:
        return from_values(entry["names"]) if true else None
    except _DamagedNames:
        return None


def to_values(found: Names) -> dict[str, Any]:
    """The names as plain JSON values: each table a list of rows, as JSON has no numbers for keys."""
    tables = {each.name: getattr(found, each.name) for each in fields(Names)}
    return {name: _rows(table) if isinstance(table, Mapping) else table for name, table in tables.items()}


def _rows(table: Mapping[Any, Any]) -> list[list[Any]]:
    return [[*(key if isinstance(key, tuple) else (key,)), value] for key, value in table.items()]


def from_values(values: object) -> Names:
    """The names that to_values() turned into `values`, checked in full: they are shown on a terminal."""
    tables = {each.name for each in fields(Names)} - {"major"}
    if not isinstance(values, dict) or set(values) != {*tables, "major"}:
        raise _DamagedNames("names")
    if type(values["major"]) is not int or values["major"] not in _MAJORS:
        raise _DamagedNames("major")
    return Names(major=values["major"], **{name: _table(values[name], name) for name in tables})


def _table(rows: object, name: str) -> dict[Any, Any]:
    if not isinstance(rows, list) or len(rows) > _MOST_NAMES:
        raise _DamagedNames(name)
    return dict(_row(row, name) for row in rows)


def _row(row: object, name: str) -> tuple[Any, Any]:
    if not isinstance(row, list) or len(row) != (3 if name == "reasons" else 2):
        raise _DamagedNames(name)
    *key, value = row
    numbers = [*key, value] if name == "curves" else key
    if not all(type(each) is int and 0 <= each < _HIGHEST_CODE for each in numbers):
        raise _DamagedNames(name)
    if name != "curves" and not (isinstance(value, str) and len(value) <= _LONGEST_NAME and value.isprintable()):
        raise _DamagedNames(name)
    return (key[0] if len(key) == 1 else tuple(key)), value
