# SPDX-License-Identifier: Apache-2.0
"""Results that one reading takes over from the one before: most of what is counted on a host is the same at the next scrape,
and so is all that is made of it, down to what is sent and written."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from enum import StrEnum, auto
from operator import is_
from typing import Any, TypeVar

A = TypeVar("A")
B = TypeVar("B")


class Stage(StrEnum):
    """A stage at which something is kept: the counts of a process, those of a service, and the service's points."""

    PROCESS = auto()
    SERVICE = auto()
    POINTS = auto()


class KeptResults:
    """The results of each stage, by key. A result is kept as long as what it was made of are the very same objects, none of
    which changes, and at most until a reading that didn't ask for it has ended: so there are no more than two readings need."""

    def __init__(self) -> None:
        self._before: dict[tuple[Stage, Hashable], tuple[Sequence[object], Any]] = {}
        self._now: dict[tuple[Stage, Hashable], tuple[Sequence[object], Any]] = {}

    def __len__(self) -> int:
        return len(self._before)

    def of(self, stage: Stage, key: Hashable, parts: Sequence[A], make: Callable[[Sequence[A]], B]) -> B:
        """The result for these parts: the last one, or what `make` returns."""
        kept = self._before.get((stage, key))
        if kept is None or len(kept[0]) != len(parts) or not all(map(is_, kept[0], parts)):
            kept = parts, make(parts)
        self._now[stage, key] = kept
        made: B = kept[1]
        return made

    def last(self, stage: Stage, key: Hashable) -> Any:
        """The result of the reading before, whatever it was made of; None where there was none."""
        kept = self._before.get((stage, key))
        return kept[1] if kept else None

    def end_reading(self) -> None:
        """Forgets what this reading hasn't asked for."""
        self._before, self._now = self._now, {}
