# SPDX-License-Identifier: Apache-2.0
"""Functions that rules find in code without symbols: only where exactly one is what is looked for, and once in each image."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from ssllatency.code.flow import Unplannable
from ssllatency.elf.image import ElfError, Image, Range

FOUND = "errors raised"
"""How functions were found that are told by the errors that they raise."""
_T = TypeVar("_T")


def the_one(find: Callable[[], Collection[Range]]) -> Range:
    """Return the one function that is found. Unplannable where there is none or more than one, or from what looks for it."""
    found = sorted(set(find()))
    if not found:
        raise Unplannable("no function raises its errors and does what it does")
    if len(found) > 1:
        raise Unplannable(f"{len(found)} functions may be it, where one is expected")
    return found[0]


class FoundOnce(Generic[_T]):
    """The findings of one stack in images whose symbols name nothing. `failed` makes them of the reason for which nothing is
    found at all."""

    def __init__(self, look: Callable[[Image], _T], failed: Callable[[str], _T]) -> None:
        self._look, self._failed = look, failed
        self._found: WeakKeyDictionary[Image, _T] = WeakKeyDictionary()

    def look_in(self, image: Image) -> _T:
        """Look for them in an image, once."""
        if image not in self._found:
            try:
                self._found[image] = self._look(image)
            except (Unplannable, ElfError) as reason:
                self._found[image] = self._failed(str(reason))
        return self._found[image]

    def known_of(self, image: Image) -> _T | None:
        """Return what has been found in an image; None where nothing was looked for, as its symbols tell all."""
        return self._found.get(image)
