# SPDX-License-Identifier: Apache-2.0
"""Reads an untrusted document field by field; an error becomes one sentence that names the field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from enum import StrEnum
from typing import NoReturn, TypeVar

from ssllatency.errors import SsllatencyError
from ssllatency.reports.words.units import printable

# Far above any count or sum of nanoseconds, and small enough for every calculation with them.
_LARGEST = 2**96
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)

_UNREADABLE = "This is not a measurement that ssllatency can read"

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")


class ContradictionError(SsllatencyError):
    """Numbers of a measurement that must add up don't; `which` names them and says how they must."""

    def __init__(self, which: str) -> None:
        super().__init__(f"{_UNREADABLE}: {which}.")
        self.which = which


class Field:
    """A value of the document and where it stands ("functions[3].count"). Every method raises SsllatencyError."""

    def __init__(self, value: object, path: str = "") -> None:
        self.value = value
        self.path = path

    def refuse(self, must: str) -> NoReturn:
        """Say what the field must be."""
        raise SsllatencyError(f"{_UNREADABLE}: {self._must_be(must)}.")

    def contradict(self, must: str) -> NoReturn:
        """Say what the field must be by other numbers of the measurement."""
        raise ContradictionError(self._must_be(must))

    def get(self, name: str) -> Field:
        """A member that has to be there."""
        member = self.optional(name)
        return member if member is not None else Field(None, self._member(name)).refuse("there")

    def optional(self, name: str) -> Field | None:
        """A member, or None where it is left out."""
        if not isinstance(self.value, dict):
            self.refuse("an object")
        return Field(self.value[name], self._member(name)) if name in self.value else None

    def members(self) -> Iterator[tuple[str, Field]]:
        """All members of an object."""
        if not isinstance(self.value, dict) or not all(isinstance(name, str) for name in self.value):
            self.refuse("an object")
        for name, value in self.value.items():
            yield name, Field(value, self._member(name))

    def items(self) -> Iterator[Field]:
        """The values of a list."""
        if not isinstance(self.value, list):
            self.refuse("a list")
        for position, value in enumerate(self.value):
            yield Field(value, f"{self.path}[{position}]")

    def rows(self, read: Callable[[Field], tuple[object, T]], what: str) -> tuple[T, ...]:
        """The values of a list as `read` reads them, with their keys; `what` says of what each has to be the only one."""
        known: dict[object, T] = {}
        for row in self.items():
            key, value = read(row)
            if known.setdefault(key, value) is not value:
                row.refuse(f"the only one of its {what}")
        return tuple(known.values())

    def text(self) -> str:
        """A string."""
        return self.value if isinstance(self.value, str) else self.refuse("a string")

    def one_of(self, names: type[E]) -> E:
        """One of the names that there are."""
        known = {str(one): one for one in names}
        return known[self.text()] if self.value in list(known) else self.refuse("one of " + ", ".join(known))

    def whole(self) -> int:
        """A whole number of 0 or more."""
        if type(self.value) is not int or not 0 <= self.value < _LARGEST:
            self.refuse("a whole number of 0 or more")
        return self.value

    def wholes(self) -> tuple[int, ...]:
        """A list of whole numbers of 0 or more."""
        if isinstance(self.value, list) and all(type(number) is int and 0 <= number < _LARGEST for number in self.value):
            return tuple(self.value)  # recordings have many of them
        return tuple(number.whole() for number in self.items())

    def whole_or_null(self) -> int | None:
        """A whole number of 0 or more, or null."""
        return None if self.value is None else self.whole()

    def number(self) -> float:
        """A number of 0 or more."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float) or not 0 <= self.value < _LARGEST:
            self.refuse("a number of 0 or more")
        return float(self.value)

    def flag(self) -> bool:
        """true or false."""
        return self.value if isinstance(self.value, bool) else self.refuse("true or false")

    def time(self) -> str:
        """A time as RFC 3339 writes it, with a zone."""
        text = self.text()
        try:
            valid = _RFC_3339.fullmatch(text) and datetime.fromisoformat(text)
        except ValueError:
            valid = None
        return text if valid else self.refuse("a time such as 2030-01-31T12:00:00Z")

    def _must_be(self, must: str) -> str:
        return f"{printable(self.path) or 'the document'} must be {must}"

    def _member(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name
