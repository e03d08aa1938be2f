# SPDX-License-Identifier: Apache-2.0
"""docs/coverage.md: its tables are those of coverage_table.py, and each test that proves a cell is one that is run."""

from __future__ import annotations

import ast
from functools import cache

import coverage_table
import pytest
from pages import TOP

from ssllatency.stacks.by_name import BY_NAME
from ssllatency.stacks.registry import STACKS, UNTRACED


@cache
def named_in(file: str) -> frozenset[str]:
    """The names of a test module's tests; none where there is no such module."""
    path = TOP / "tests" / file
    body = ast.parse(path.read_text()).body if path.exists() else []
    return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))


def test_the_page_has_the_tables() -> None:
    assert coverage_table.PAGE.read_text() == coverage_table.page()


@pytest.mark.parametrize("row", coverage_table.ROWS, ids=lambda row: f"{row.stack} {row.versions} {row.linked}")
def test_each_cell_is_proven_by_a_test_or_says_why_not(row: coverage_table.Row) -> None:
    assert list(row.cells.keys() - coverage_table.COLUMNS.keys()) == []
    for column in coverage_table.COLUMNS:
        cell = row.cells[column]
        if isinstance(cell, str):
            assert cell
        else:
            assert cell.tests
            for test in cell.tests:
                file, _, name = test.partition("::")
                assert name in named_in(file), f"{column}: there is no test {test}"


def test_each_library_that_targets_names_has_a_row() -> None:
    marked = {name for implementation in (*STACKS, *UNTRACED) for name in implementation.marks} - {"Go"}
    assert marked | {stack.name for stack in BY_NAME} == {row.stack for row in coverage_table.ROWS}
