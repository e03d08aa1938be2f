# SPDX-License-Identifier: Apache-2.0
"""Single functions: where the function of an instruction begins, and its control flow, not including the functions that it ends
in by a tail call."""

from __future__ import annotations

from collections.abc import Iterable

from ssllatency.code.flow import Code, Graph, Unplannable, build
from ssllatency.code.machine import Machine
from ssllatency.elf.image import ElfError, Image
from ssllatency.errors import phrase


class Bodies:
    """The functions of an image by their addresses."""

    def __init__(self, image: Image, machine: Machine) -> None:
        self._image = image
        self._code = _OneFunction(image, machine)
        self._graphs: dict[int, Graph | str] = {}

    def function(self, address: int) -> int | None:
        """The beginning of the function that holds `address`; None where the unwind tables know none.

        Of a part that the compiler split off it is the part's own beginning.
        """
        bounds = self._image.function_bounds(address)
        return bounds[0] if bounds else None

    def functions(self, addresses: Iterable[int]) -> set[int]:
        """The beginnings of the functions that hold `addresses`."""
        return {start for address in addresses if (start := self.function(address)) is not None}

    def graph(self, start: int, size: int = 0) -> Graph:
        """The control flow of the function that begins at `start`, with its split-off parts. Unplannable with the reason."""
        if start not in self._graphs:
            self._graphs[start] = self._build(start, size)
        graph = self._graphs[start]
        if isinstance(graph, str):
            raise Unplannable(graph)
        return graph

    def _build(self, start: int, size: int) -> Graph | str:
        if self._image.is_part(start):
            return f"it is in a part at {start:#x} that was split off its function"
        self._code.start = start
        try:
            return build(self._code, start, size, lambda *_: None)
        except (Unplannable, ElfError) as reason:
            return phrase(reason)


class _OneFunction(Code):
    """Code that sees only the function that begins at `start`, so that tail calls aren't followed."""

    start = 0

    def bounds(self, address: int, size: int = 0) -> tuple[int, int] | None:
        bounds = super().bounds(address, size)
        return bounds if bounds and (bounds[0] == self.start or self.image.is_part(bounds[0])) else None
