# SPDX-License-Identifier: Apache-2.0
"""Reads untrusted JSON values field by field; a value that isn't valid is refused, and its path in the document named.

Written by hand: of the 0.3 s that a command has to start, importing msgspec 0.22 takes 40 ms and pydantic 2.14 with one model
240 ms; this takes less than 1 ms, its sentences are for whoever named the file, and each bound stands where the field is read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn, Self, TypeVar

from ssllatency.errors import SsllatencyError

# Far above any count or sum of nanoseconds, and small enough for every calculation with them.
_LARGEST = 2**96

E = TypeVar("E", bound=str)
T = TypeVar("T")


class FieldError(SsllatencyError):
    """A field isn't as it must be. The text names it and says how it must be: "functions[3].count must be …"."""


class Field:
    """A value and where it stands in what it was read from ("functions[3].count"). Every method raises what error() gives."""

    __slots__ = ("_key", "_parent", "value")

    def __init__(self, value: object, parent: Field | None = None, key: str | int = "") -> None:
        self.value = value
        self._parent, self._key = parent, key

    @property
    def path(self) -> str:
        """Its place in the document, "" for the whole."""
        if self._parent is None:
            return ""
        above = self._parent.path
        if isinstance(self._key, int):
            return f"{above}[{self._key}]"
        return f"{above}.{self._key}" if above else self._key

    def must_be(self, what: str) -> str:
        """Return which field it is and how it must be."""
        return f"{self.path or 'the document'} must be {what}"

    def error(self, must: str) -> SsllatencyError:
        """The error of a field that must be something else."""
        return FieldError(self.must_be(must))

    def refuse(self, must: str) -> NoReturn:
        """Say what the field must be."""
        raise self.error(must)

    def name(self) -> Self:
        """The name of a member of an object, as a text that stands where the member does."""
        return type(self)(self._key, self._parent, self._key)

    # Objects and lists.

    def get(self, name: str) -> Self:
        """A member that has to be there."""
        member = self.optional(name)
        return member if member is not None else type(self)(None, self, name).refuse("there")

    def optional(self, name: str) -> Self | None:
        """A member, or None where it is left out."""
        members = self._object()
        return type(self)(members[name], self, name) if name in members else None

    def members(self) -> Iterator[tuple[str, Self]]:
        """All members of an object."""
        members = self._object()
        if not all(isinstance(name, str) for name in members):
            self.refuse("an object")
        for name, value in members.items():
            yield name, type(self)(value, self, name)

    def record(self, kind: type) -> dict[str, Self]:
        """The members of an object that has exactly the fields of the dataclass `kind`."""
        members = self._object()
        if members.keys() != {field.name for field in dataclasses.fields(kind)}:
            self.refuse(f"an object with the fields of {kind.__name__}")
        return {name: type(self)(value, self, name) for name, value in members.items()}

    def items(self, most: int | None = None) -> Iterator[Self]:
        """The values of a list, of at most so many."""
        if not isinstance(self.value, list | tuple):
            self.refuse("a list")
        if most is not None and len(self.value) > most:
            self.refuse(f"a list of at most {most}")
        for position, value in enumerate(self.value):
            yield type(self)(value, self, position)

    def rows(self, read: Callable[[Self], tuple[object, T]], what: str) -> tuple[T, ...]:
        """The values of a list as `read` reads them, with their keys; `what` names the key, which must be unique."""
        by_key: dict[object, T] = {}
        for row in self.items():
            key, value = read(row)
            if by_key.setdefault(key, value) is not value:
                row.refuse(f"the only one of its {what}")
        return tuple(by_key.values())

    # Plain values.

    def text(self, longest: int | None = None) -> str:
        """A string, of at most so many characters."""
        if not isinstance(self.value, str):
            self.refuse("a string")
        if longest is not None and len(self.value) > longest:
            self.refuse(f"a string of at most {longest} characters")
        return self.value

    def one_of(self, choices: Iterable[E]) -> E:
        """One of the strings that there are to choose from."""
        chosen = next((choice for choice in choices if choice == self.value), None)
        return chosen if chosen is not None else self.refuse("one of " + ", ".join(choices))

    def whole(self, below: int = _LARGEST) -> int:
        """A whole number of 0 or more, below a limit."""
        if type(self.value) is not int or not 0 <= self.value < below:
            self.refuse("a whole number of 0 or more" if below == _LARGEST else f"a whole number of 0 or more, below {below}")
        return self.value

    def integer(self) -> int:
        """A whole number, which may be negative, within the same limit."""
        if type(self.value) is not int or not -_LARGEST < self.value < _LARGEST:
            self.refuse("a whole number")
        return self.value

    def wholes(self) -> tuple[int, ...]:
        """A list of whole numbers of 0 or more."""
        if isinstance(self.value, list) and all(type(number) is int and 0 <= number < _LARGEST for number in self.value):
            return tuple(self.value)  # recordings have many of them
        return tuple(number.whole() for number in self.items())

    def whole_or_null(self, below: int = _LARGEST) -> int | None:
        """A whole number, as whole(), or null."""
        return None if self.value is None else self.whole(below)

    def number(self) -> float:
        """A number of 0 or more."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float) or not 0 <= self.value < _LARGEST:
            self.refuse("a number of 0 or more")
        return float(self.value)

    def flag(self) -> bool:
        """true or false."""
        return self.value if isinstance(self.value, bool) else self.refuse("true or false")

    def _object(self) -> dict[Any, Any]:
        return self.value if isinstance(self.value, dict) else self.refuse("an object")
