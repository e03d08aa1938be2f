# SPDX-License-Identifier: Apache-2.0
"""Rows identified by a key, added up and subtracted."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import chain
from operator import is_
from typing import Generic, Protocol, TypeVar


class KeyedRow(Protocol):
    """Any row with a count."""

    @property
    def count(self) -> int: ...


T = TypeVar("T", bound=KeyedRow)
H = TypeVar("H", bound=Hashable)
A = TypeVar("A")
B = TypeVar("B")


def gathered(rows: Iterable[T], key: Callable[[T], Hashable], add: Callable[[Sequence[T]], T]) -> tuple[T, ...]:
    """One row a key, in the order in which the keys first occur: what `add` makes of the rows that share it; a row that shares
    its key with none is left as it is."""
    groups: dict[Hashable, list[T]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return tuple(add(group) if len(group) > 1 else group[0] for group in groups.values())


class KeyedCache(Generic[H, A, B]):
    """The results of `make` for some values, by key: kept as long as they are the very same objects, which don't change."""

    def __init__(self, make: Callable[[Sequence[A]], B]) -> None:
        self._make = make
        self._kept: dict[H, tuple[Sequence[A], B]] = {}

    def of(self, parts: Mapping[H, Sequence[A]]) -> dict[H, B]:
        """Return the result for each key's values; those of other keys are dropped."""
        self._kept = {key: self._made(key, values) for key, values in parts.items()}
        return {key: made for key, (_, made) in self._kept.items()}

    def _made(self, key: H, values: Sequence[A]) -> tuple[Sequence[A], B]:
        before = self._kept.get(key)
        same = before and len(before[0]) == len(values) and all(map(is_, before[0], values))
        return before if before and same else (values, self._make(values))


def once(lists: Iterable[Iterable[H]]) -> tuple[H, ...]:
    """The items of all of them, each once, in the order in which they first occur."""
    return tuple(dict.fromkeys(chain.from_iterable(lists)))


def listed(names: Iterable[str]) -> str:
    """Names, some of which may be lists already, as one list with each name once."""
    return ", ".join(once(name.split(", ") for name in names))


def since(
    later: Iterable[T], earlier: Iterable[T], key: Callable[[T], Hashable], subtract: Callable[[T, T], T]
) -> tuple[T, ...]:
    """The later rows less the earlier ones of the same key, without those that didn't change.

    Raises ValueError where there was more earlier than later.
    """
    before = {key(row): row for row in earlier if row.count}
    changed = []
    for row in later:
        old = before.pop(key(row), None)
        changed.append(row if old is None else subtract(row, old))
    if before or any(row.count < 0 for row in changed):
        raise ValueError("a later snapshot can't count fewer")
    return tuple(row for row in changed if row.count)
