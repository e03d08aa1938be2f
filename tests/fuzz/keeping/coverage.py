# SPDX-License-Identifier: Apache-2.0
"""Which code an input reaches, by the interpreter's own tracing, and the fewest inputs that reach it all.

libFuzzer has no way to minimise a corpus that Python code can use, and what it counts depends on its seed. Here a step from one
line of a function to another counts, so that the same inputs are chosen wherever that is done.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FrameType
from typing import Any

Step = tuple[int, int, int]  # the function's number, the line before (0: none), the line


class Coverage:
    """Numbers the functions whose source is below a folder."""

    def __init__(self, below: str) -> None:
        self._below = below
        self._numbers: dict[CodeType, int] = {}

    def of(self, check: Callable[[bytes], None], data: bytes) -> frozenset[Step]:
        """The steps that the check takes with this input."""
        steps: set[Step] = set()

        def enter(frame: FrameType, _event: str, _argument: object) -> Any:
            code = frame.f_code
            if not code.co_filename.startswith(self._below) or code.co_name == "<module>":
                return None
            number, before = self._numbers.setdefault(code, len(self._numbers)), 0

            def follow(frame: FrameType, event: str, _argument: object) -> Any:
                nonlocal before
                if event == "line":
                    steps.add((number, before, frame.f_lineno))
                    before = frame.f_lineno
                return follow

            return follow

        traced = sys.gettrace()
        sys.settrace(enter)
        try:
            check(data)
        finally:
            sys.settrace(traced)
        return frozenset(steps)


def chosen(
    reached: Iterable[Step], kept: Sequence[frozenset[Step]], others: Sequence[frozenset[Step]]
) -> tuple[list[int], list[int]]:
    """Which inputs bring steps that aren't `reached` without them: of those that are kept already, in their order, and then of
    the others, those with the most new steps first."""
    covered, stay = set(reached), []
    for number, steps in enumerate(kept):
        if not steps <= covered:
            stay.append(number)
            covered |= steps
    new = []
    # A count of new steps only falls, so that the first whose count still holds has the most.
    waiting = [(-len(steps - covered), number) for number, steps in enumerate(others)]
    heapq.heapify(waiting)
    while waiting and waiting[0][0] < 0:
        before, number = heapq.heappop(waiting)
        now = -len(others[number] - covered)
        if now == before:
            new.append(number)
            covered |= others[number]
        else:
            heapq.heappush(waiting, (now, number))
    return stay, new
