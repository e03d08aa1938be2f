# SPDX-License-Identifier: Apache-2.0
"""Checks of plain JSON values that were read back: each returns the value, or says which one is damaged."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

LARGEST_FIELD_OFFSET = 1 << 16  # bytes into a structure of a library
MOST_ITEMS = 4096
_LONGEST_TEXT = 4096


class DamagedValues(Exception):
    """The values aren't what was written. The text names the field."""


def record(values: object, kind: type) -> Mapping[str, Any]:
    """A dictionary with exactly the fields of the dataclass `kind`."""
    if not isinstance(values, dict) or set(values) != {field.name for field in fields(kind)}:
        raise DamagedValues(kind.__name__)
    return values


def items(value: object, name: str, most: int = MOST_ITEMS) -> list[Any] | tuple[Any, ...]:
    """A list of at most `most` items."""
    if not isinstance(value, list | tuple) or len(value) > most:
        raise DamagedValues(name)
    return value


def text(value: object, name: str) -> str:
    """A text of sane length."""
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise DamagedValues(name)
    return value


def one_of(value: object, choices: Collection[str], name: str) -> str:
    """One of the texts `choices`."""
    found = text(value, name)
    if found not in choices:
        raise DamagedValues(name)
    return found


def number(value: object, name: str, limit: int) -> int:
    """A whole number from 0 to below `limit`."""
    if type(value) is not int or not 0 <= value < limit:
        raise DamagedValues(name)
    return value


def number_or_none(value: object, name: str, limit: int) -> int | None:
    """The same, or None."""
    return None if value is None else number(value, name, limit)


def flag(value: object, name: str) -> bool:
    """True or False."""
    if type(value) is not bool:
        raise DamagedValues(name)
    return value
