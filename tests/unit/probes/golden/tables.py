# SPDX-License-Identifier: Apache-2.0
"""The tables of probe-sites.md: what is planned on which library. Made from the golden plans, so they need no library."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from tests import foreign

from ssllatency.probes.catalogue import BY_NAME
from ssllatency.probes.plan import NOT_IN_LIBRARY

PAGE = foreign.TOP / "docs" / "internals" / "probe-sites.md"
BEGIN = "<!-- begin: made by python -m tests.unit.probes.golden --write -->"
END = "<!-- end -->"
_WIDTH = 120
_OPENSSL = ("libssl", "libcrypto", "node")

Values = dict[str, Any]


def with_tables(page: str, golden: Sequence[Values]) -> str:
    """The page with its tables made anew. ValueError where it has no place for them."""
    head, _, rest = page.partition(BEGIN)
    _, mark, foot = rest.partition(END)
    if not mark:
        raise ValueError(f"{PAGE.name} lacks the lines {BEGIN} and {END}")
    return f"{head}{BEGIN}\n\n{tables(golden)}\n{END}{foot}"


def tables(golden: Sequence[Values]) -> str:
    """The tables as Markdown."""
    machines = sorted({each["machine"] for each in golden}, reverse=True)
    openssl = ([each for each in golden if each["library"] in _OPENSSL and each["machine"] == name] for name in machines)
    others = (each for each in golden if each["library"] not in _OPENSSL)
    parts = [
        _lines(_libraries(golden)),
        *(_lines(_operations(each)) for each in openssl),
        *(_lines(_list(each)) for each in others),
    ]
    missing = list(_missing(golden))
    return "\n".join(parts + ([_lines(["Not planned, though the library has it:", "", *missing])] if missing else []))


def _lines(lines: Sequence[str] | Iterator[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The first row is the head."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    yield _row(rows[0], widths)
    yield _row(["-" * width for width in widths], widths)
    yield from (_row(row, widths) for row in rows[1:])


def _libraries(golden: Sequence[Values]) -> Iterator[str]:
    head = ("Library", "Family", "Machine", "Version", "Build-id", "Planned", "Missing")
    rows = [
        (
            *(each["library"], each["family"], each["machine"], each["version"].split("  ")[0] or "-", each["build_id"][:12]),
            *(str(len(each["operations"])), str(len(each["missing"]))),
        )
        for each in golden
    ]
    return _table([head, *rows])


def _column(golden: Values) -> str:
    return f"{'node' if golden['library'] == 'node' else 'OpenSSL'} {golden['family']}"


def _operations(golden: Sequence[Values]) -> Iterator[str]:
    """Of one machine: one row an operation, one column a family of OpenSSL, its libssl and libcrypto together or a program
    that has both."""
    columns: dict[str, dict[str, str]] = {}
    for each in golden:
        cells = columns.setdefault(_column(each), {})
        cells.update({name: _cell(planned) for name, planned in each["operations"].items()})
        cells.update({name: "-" if reason == NOT_IN_LIBRARY else "no" for name, reason in each["missing"].items()})
    named = [name for name in BY_NAME if any(name in cells for cells in columns.values())]
    rows = [(f"`{name}`", *(cells.get(name, "") for cells in columns.values())) for name in named]
    return _table([(f"On {golden[0]['machine']}", *columns), *rows])


def _cell(planned: Values) -> str:
    """What a call costs, past a slash what one that fails may cost where that is more, and by how many exit sites it is left;
    with return probes in brackets where they are cheaper."""
    other = planned.get("preferring_return_probes")
    return _one(planned) + (f" [{_one(other)}]" if other else "")


def _one(planned: Values) -> str:
    if any(site.startswith("return ") for site in planned["sites"]):
        return f"{planned['ns']:,} r"
    dearest = f" / {planned['failing_ns']:,}" if "failing_ns" in planned else ""
    return f"{planned['ns']:,}{dearest} ({sum(site.startswith('exit ') for site in planned['sites'])})"


def _list(golden: Values) -> Iterator[str]:
    """For a library with many functions alike: what they cost, with their names."""
    yield f"{golden['library']}:"
    yield ""
    by_cell: dict[str, list[str]] = {}
    for name, planned in golden["operations"].items():
        by_cell.setdefault(_cell(planned), []).append(f"`{name}`")
    for cell, names in by_cell.items():
        yield from _item(f"{cell}: {', '.join(names)}")


def _missing(golden: Sequence[Values]) -> Iterator[str]:
    for each in golden:
        for name, reason in each["missing"].items():
            if reason != NOT_IN_LIBRARY:
                yield from _item(f"`{name}` in {each['library']} {each['family']}: {reason}")


def _item(text: str) -> list[str]:
    return textwrap.wrap(f"- {text}", _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
