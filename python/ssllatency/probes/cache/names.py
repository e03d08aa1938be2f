# SPDX-License-Identifier: Apache-2.0
"""The names that a library has for codes as plain JSON values, and back. What is read back is checked in full: it is shown on a
terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ssllatency.fields import Field
from ssllatency.stacks.names import Names

_MAJORS = (0, 1, 3)
_MOST_NAMES = 65536
_LONGEST_NAME = 256
_LONGEST_ROW = 3
_HIGHEST_LIBRARY = 256
_HIGHEST_CODE = 1 << 32


def to_values(names: Names) -> dict[str, Any]:
    """The names as plain JSON values: each table a list of rows, as JSON has no numbers for keys."""
    tables = {field.name: getattr(names, field.name) for field in fields(Names)}
    return {name: _rows(table) if isinstance(table, Mapping) else table for name, table in tables.items()}


def _rows(table: Mapping[Any, Any]) -> list[list[Any]]:
    return [[*(key if isinstance(key, tuple) else (key,)), value] for key, value in table.items()]


def from_values(values: object) -> Names:
    """The names that to_values() turned into `values`, checked in full. Else FieldError."""
    record = Field(values).record(Names)
    major, ssl = record.pop("major"), record.pop("ssl").whole(_HIGHEST_LIBRARY)
    alert_reasons = record.pop("alert_reasons").whole(_HIGHEST_CODE)
    if major.whole() not in _MAJORS:
        major.refuse("0, 1 or 3")
    tables = {name: _table(table, name) for name, table in record.items()}
    return Names(major=major.whole(), ssl=ssl, alert_reasons=alert_reasons, **tables)


def _table(table: Field, name: str) -> dict[Any, Any]:
    return dict(_row(row, name) for row in table.items(_MOST_NAMES))


def _row(row: Field, name: str) -> tuple[Any, Any]:
    *key, value = row.items(_LONGEST_ROW) if row.value else [row]
    numbers = tuple(number.whole(_HIGHEST_CODE) for number in key)
    if len(numbers) != (2 if name == "reasons" else 1):
        row.refuse("a code, or the library's and the reason's, and what it is called")
    return (numbers if name == "reasons" else numbers[0]), value.whole(_HIGHEST_CODE) if name == "curves" else _name(value)


def _name(value: Field) -> str:
    name = value.text(_LONGEST_NAME)
    return name if name.isprintable() else value.refuse("printable")
