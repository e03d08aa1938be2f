# SPDX-License-Identifier: Apache-2.0
"""Matrices for tests, from the text of their files."""

from __future__ import annotations

from ssllatency.load.matrix import cells as matrix_cells
from ssllatency.load.matrix import file as matrix_file
from ssllatency.load.matrix.plan import Cell, Matrix, Plan

SERVER = "seconds = 1\nconnections = 100\n[servers.web]\n"


def matrix(factors: str = "", head: str = SERVER) -> Matrix:
    """The matrix with these lines of its factors."""
    return matrix_file.parse(f"{head}[factors]\n{factors}")


def plan(factors: str = "", head: str = SERVER) -> Plan:
    """Its cells, and what is left out."""
    return matrix_cells.plan(matrix(factors, head))


def only_cell(factors: str = "", head: str = SERVER) -> Cell:
    """The cell of a matrix of one."""
    (cell,) = plan(factors, head).cells
    return cell
