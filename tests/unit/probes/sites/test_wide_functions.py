# SPDX-License-Identifier: Apache-2.0
"""Functions with thousands of ways out, as nobody writes them who wants them called."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest
from tests.fixtures.assembled import Assembled, function

from ssllatency.code.flow import Unplannable
from ssllatency.probes.plan import Role
from ssllatency.probes.sites.exits import MAX_EXITS

SHAPES: dict[str, str] = {
    "returns": "test %eax,%eax\njne 1f\npop %rbx\nret\n1: push %rbx\npop %rbx\n",
    "calls": "test $1,%dl\nje 1f\ncall other@PLT\nmov $1,%eax\npop %rbx\nret\n1:\n",
    "branches": "cmp $7,%eax\nje 9f\n",
}


def wide(shape: str, count: int) -> str:
    """A function with so many ways out, or branches to one."""
    return function("f", f"push %rbx\ncall other@PLT\n{SHAPES[shape] * count}call other@PLT\n9: pop %rbx\nret\n")


def steps(attempt: Callable[[], object]) -> int:
    """How many calls of Python functions it takes."""
    count = 0

    def counted(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(counted)
    try:
        attempt()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("shape", SHAPES)
def test_planning_takes_no_more_than_the_size_says(assembled: Callable[[str], Assembled], shape: str) -> None:
    """Six times the function, no more than some six times the work."""
    taken = []
    for count in (60, 360):
        made = assembled(wide(shape, count))
        taken.append(steps(lambda made=made: made.plan(async_job=False)))
    assert taken[1] < 8 * taken[0]


def test_more_ways_out_than_any_function_has_are_not_covered(assembled: Callable[[str], Assembled]) -> None:
    made = assembled(wide("returns", MAX_EXITS + 8))
    with pytest.raises(Unplannable, match=f"it has more than {MAX_EXITS} ways out"):
        made.plan()
    assert [probe.role for probe in made.plan(async_job=False).probes] == [Role.RETURN]
