# SPDX-License-Identifier: Apache-2.0
"""The names that a library has for codes as plain JSON values, and back. What is read back is checked in full: it is shown on a
terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ssllatency.openssl.names.names import Names
from ssllatency.probes import checks
from ssllatency.probes.checks import DamagedValues

_MAJORS = (0, 1, 3)
_MOST_NAMES = 65536
_LONGEST_NAME = 256
_HIGHEST_LIBRARY = 256
_HIGHEST_CODE = 1 << 32


def to_values(found: Names) -> dict[str, Any]:
    """The names as plain JSON values: each table a list of rows, as JSON has no numbers for keys."""
    tables = {each.name: getattr(found, each.name) for each in fields(Names)}
    return {name: _rows(table) if isinstance(table, Mapping) else table for name, table in tables.items()}


def _rows(table: Mapping[Any, Any]) -> list[list[Any]]:
    return [[*(key if isinstance(key, tuple) else (key,)), value] for key, value in table.items()]


def from_values(values: object) -> Names:
    """The names that to_values() turned into `values`, checked in full. Else DamagedValues."""
    record = checks.record(values, Names)
    major = checks.number(record["major"], "major", _MAJORS[-1] + 1)
    if major not in _MAJORS:
        raise DamagedValues("major")
    ssl = checks.number(record["ssl"], "ssl", _HIGHEST_LIBRARY)
    tables = {name: _table(rows, name) for name, rows in record.items() if name not in ("major", "ssl")}
    return Names(major=major, ssl=ssl, **tables)


def _table(rows: object, name: str) -> dict[Any, Any]:
    return dict(_row(row, name) for row in checks.items(rows, name, _MOST_NAMES))


def _row(row: object, name: str) -> tuple[Any, Any]:
    *key, value = checks.items(row, name) or [None]
    if len(key) != (2 if name == "reasons" else 1):
        raise DamagedValues(name)
    for each in [*key, value] if name == "curves" else key:
        checks.number(each, name, _HIGHEST_CODE)
    if name != "curves" and not (isinstance(value, str) and len(value) <= _LONGEST_NAME and value.isprintable()):
        raise DamagedValues(name)
    return (key[0] if len(key) == 1 else tuple(key)), value
