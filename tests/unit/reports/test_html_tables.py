# SPDX-License-Identifier: Apache-2.0
"""Tables of a page: no row is lost beside what it was before."""

from __future__ import annotations

from ssllatency.reports.html.tables import table
from ssllatency.reports.rows.row import Row


def test_rows_that_read_alike_stand_beside_one_another_in_order() -> None:
    after = [Row(("x",), ("1",)), Row(("y",), ("2",)), Row(("x",), ("3",))]
    before = [Row(("x",), ("4",)), Row(("x",), ("5",)), Row(("x",), ("6",)), Row(("z",), ("7",))]
    lines = table("", ("Name", "Count"), after, before).lines
    assert [(line.row.names[0], line.cells[0].text, line.cells[0].was) for line in lines] == [
        ("x", "1", "4"),
        ("y", "2", "-"),
        ("x", "3", "5"),
        ("x", "-", "6"),
        ("z", "-", "7"),
    ]


def test_more_rows_than_can_be_read_are_counted() -> None:
    made = table("", ("Name", "Count"), [Row((str(number),), ("1",)) for number in range(203)])
    assert (len(made.lines), made.more) == (200, "3 rows more, left out here.")
