# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/kernels.md, from what guests found last (build/kernels/results).

Usage: python -m tests.kernels.table [--write]; without, the tables go to standard output.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.kernels.machine import FOLDER, TOP
from tests.kernels.packages import version_of
from tests.kernels.plans import ODD
from tests.kernels.results import Outcome

PAGE = TOP / "docs" / "kernels.md"
BEGIN, END = "<!-- begin: made by python -m tests.kernels.table --write -->", "<!-- end -->"
Guest = Mapping[str, Any]
_PROBLEM = "**failed**"
# What the columns of the first table stand for, by the checks that must all have passed or been refused.
_COLUMNS = {
    "every program loads": ("programs load",),
    "each kind of site": ("sites",),
    "trace, snoop, handshakes, record": ("trace", "snoop", "handshakes", "handshakes off-CPU", "record"),
    "each way of attaching": ("trace perf", "trace multi", "trace session"),
    "each kind of links": ("links process", "links shared", "links process perf", "links shared perf"),
    "later processes, threads": ("reload", "reload perf", "threads", "threads links process", "started later"),
    "rights, seccomp": ("three capabilities", "three capabilities perf", "seccomp"),
    "odd machines": ODD,
    "nothing left": ("nothing left", "nothing left perf", "nothing left killed", "nothing left killed perf"),
}


def read_guests(folder: Path) -> list[Guest]:
    """What the guests of this folder found, by architecture and release."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return sorted(found, key=lambda guest: (guest["architecture"], version_of(guest["release"])))


def kernels(guests: Iterable[Guest]) -> list[list[Guest]]:
    """The guests of each kernel together: one release may have been booted several times."""
    groups: dict[tuple[str, str], list[Guest]] = {}
    for guest in guests:
        groups.setdefault((guest["architecture"], guest["release"]), []).append(guest)
    return list(groups.values())


def tables(guests: Sequence[Guest]) -> str:
    """The tables as Markdown."""
    groups = kernels(guests)
    head = ("Kernel", "Architecture", "Ways of attaching", *_COLUMNS, "Stress", "Complaints of the kernel")
    return "\n".join([*_table([head, *map(_row, groups)]), "", *_refusals(groups)])


def with_tables(page: str, text: str) -> str:
    """The page with these tables between its two marks."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}"


def _row(group: Sequence[Guest]) -> tuple[str, ...]:
    results = _results(group)
    ways = results.get("programs load", {}).get("facts", {}).get("ways", [])
    cells = (_cell(results, checks) for checks in _COLUMNS.values())
    first = group[0]
    return (first["release"], first["architecture"], ", ".join(ways), *cells, _stress(group), _complaints(group))


def _results(group: Sequence[Guest]) -> dict[str, Any]:
    return {name: result for guest in group for name, result in guest["results"].items()}


def _cell(results: Mapping[str, Any], checks: Sequence[str]) -> str:
    """What failed or was refused, by its name, and whether all was run."""
    done = {name: results[name]["outcome"] for name in checks if name in results}
    if failed := [name for name, outcome in done.items() if outcome == Outcome.FAILED]:
        return f"{_PROBLEM}: {', '.join(failed)}"
    if not done:
        return "not run"
    refused = [name for name, outcome in done.items() if outcome == Outcome.REFUSED]
    extent = "yes" if len(done) == len(checks) else f"{len(done)} of {len(checks)} run"
    return extent + (f"; refused: {', '.join(refused)}" if refused else "")


def _stress(group: Sequence[Guest]) -> str:
    """The connections of each stress with the preemption that was chosen."""
    done = [guest["results"]["stress"] for guest in group if "stress" in guest["results"]]
    return "; ".join(map(_one_stress, done)) or "not run"


def _one_stress(result: Mapping[str, Any]) -> str:
    if result["outcome"] == Outcome.FAILED:
        return f"{_PROBLEM}: {result['detail'].splitlines()[0]}"
    facts = result["facts"]
    chosen = re.search(r"\((\w+)\)", facts["preemption"])
    way = f"{chosen[1]}: " if chosen else ""
    return f"{way}{facts['connections']} handshakes in {facts['runs']} runs, {result['seconds']:.0f} s"


def _complaints(group: Sequence[Guest]) -> str:
    said = [line for guest in group for line in (*guest["complaints"], guest["trouble"]) if line]
    return "; ".join(dict.fromkeys(said)).replace("|", "\\|").replace("\n", " ") or "none"


def _refusals(groups: Sequence[Sequence[Guest]]) -> Iterator[str]:
    """What is refused, in ssllatency's words, and on which kernels."""
    rows: dict[tuple[str, str], list[str]] = {}
    for group in groups:
        for name, result in _results(group).items():
            if result["outcome"] == Outcome.REFUSED:
                rows.setdefault((name, result["detail"]), []).append(group[0]["release"].partition("-cloud-")[0])
    if rows:
        yield from _table(
            [("Refused", "On", "In these words"), *((name, ", ".join(on), said) for (name, said), on in rows.items())]
        )


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    head, *rest = rows
    yield f"| {' | '.join(head)} |"
    yield f"| {' | '.join('---' for _ in head)} |"
    yield from (f"| {' | '.join(row)} |" for row in rest)


def main() -> int:
    parser = argparse.ArgumentParser(description="Shows or writes the tables of docs/kernels.md.")
    parser.add_argument("--write", action="store_true", help="write them into docs/kernels.md")
    write: bool = parser.parse_args().write
    guests = read_guests(FOLDER / "results")
    if not guests:
        print("kernels: there are no results: run make test-kernels KERNELS=all first", file=sys.stderr)
        return 1
    if write:
        PAGE.write_text(with_tables(PAGE.read_text(), tables(guests)))
    else:
        print(tables(guests))
    return 0


if __name__ == "__main__":
    sys.exit(main())
