# SPDX-License-Identifier: Apache-2.0
"""Rows identified by a key, added up and subtracted."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import chain
from typing import Protocol, TypeVar


class Row(Protocol):
    """Any row with a count."""

    @property
    def count(self) -> int: ...


T = TypeVar("T", bound=Row)
H = TypeVar("H", bound=Hashable)


def gathered(rows: Iterable[T], key: Callable[[T], Hashable], add: Callable[[Sequence[T]], T]) -> tuple[T, ...]:
    """One row a key, in the order in which the keys first occur: what `add` makes of the rows that share it."""
    groups: dict[Hashable, list[T]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return tuple(add(group) for group in groups.values())


def once(lists: Iterable[Iterable[H]]) -> tuple[H, ...]:
    """What is in any of them, each once, in the order in which they first occur."""
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
