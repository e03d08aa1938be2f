# SPDX-License-Identifier: Apache-2.0
"""No test asserts that something is quick: on a busy machine it isn't, and nothing is wrong."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time", "time_ns"}
FAULTS = (
    "assert time.monotonic() - began < 5",
    "elapsed = time.perf_counter() - began\n    assert elapsed <= 5",
    "took = (time.time_ns() - began) / 1e9\n    assert 5 > took and took",
)
FINE = (
    "assert time.monotonic() < deadline",
    "assert time.monotonic() - began >= nap_s",
    "elapsed = time.monotonic() - began\n    assert elapsed > nap_s",
)


def is_duration(node: ast.AST, durations: set[str]) -> bool:
    """Whether the expression has a difference of a clock's readings in it, or a variable that holds one."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id in durations:
            return True
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub) and any(map(is_reading, ast.walk(part))):
            return True
    return False


def is_reading(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CLOCKS


def is_limit(compare: ast.Compare, durations: set[str]) -> bool:
    """Whether it says that a duration is at most something."""
    sides = [compare.left, *compare.comparators]
    for left, how, right in zip(sides, compare.ops, sides[1:], strict=False):
        smaller = {ast.Lt: left, ast.LtE: left, ast.Gt: right, ast.GtE: right}.get(type(how))
        if smaller is not None and is_duration(smaller, durations):
            return True
    return False


def limits(tree: ast.AST) -> Iterator[int]:
    """The lines of the asserts that limit a duration."""
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        assigned = [node for node in ast.walk(function) if isinstance(node, ast.Assign) and is_duration(node.value, set())]
        durations = {target.id for node in assigned for target in node.targets if isinstance(target, ast.Name)}
        for check in (node for node in ast.walk(function) if isinstance(node, ast.Assert)):
            if any(isinstance(part, ast.Compare) and is_limit(part, durations) for part in ast.walk(check.test)):
                yield check.lineno


@pytest.mark.parametrize("body", FAULTS)
def test_a_limit_is_seen(body: str) -> None:
    assert list(limits(ast.parse(f"def test_it():\n    {body}\n")))


@pytest.mark.parametrize("body", FINE)
def test_what_is_no_limit_is_not(body: str) -> None:
    assert not list(limits(ast.parse(f"def test_it():\n    {body}\n")))


@pytest.mark.slow
def test_no_test_asserts_that_something_is_quick() -> None:
    files = sorted(TESTS.rglob("*.py"))
    assert files
    assert [f"{file.relative_to(TESTS)}:{line}" for file in files for line in limits(ast.parse(file.read_text()))] == []
