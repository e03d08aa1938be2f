# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/use/kernels.md, from what guests found last (build/kernels/results).

Usage: python -m tests.kernels.table [--write] [--keep]; without --write, the tables go to standard output. --keep keeps what
the page says of checks that have no results here.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kernels.machine import FOLDER, TOP
from tests.kernels.packages import version_of
from tests.kernels.plans import DEBIAN_12, DEBIAN_13, ENGINES, GO, LEAVINGS, ODD, RIGHTS, SIGNED
from tests.kernels.results import Outcome

PAGE = TOP / "docs" / "use" / "kernels.md"
BEGIN, END = "<!-- begin: made by python -m tests.kernels.table --write -->", "<!-- end -->"
Guest = Mapping[str, Any]
Row = tuple[str, ...]
_PROBLEM, _NOT_RUN, _NO_COMPLAINT = "**failed**", "-", "none"
# What the columns of the first table stand for, by the checks that must all have passed or been refused.
_COLUMNS = {
    "every program loads": ("programs load",),
    "each kind of site": ("sites",),
    "trace, snoop, handshakes, record": ("trace", "snoop", "handshakes", "handshakes off-CPU", "record"),
    "each way of attaching": ("trace perf", "trace multi", "trace session"),
    "each kind of links": ("links process", "links shared", "links process perf", "links shared perf"),
    "later processes, threads": ("reload", "reload perf", "threads", "threads links process", "started later"),
    "Go": GO,
    "kTLS": ("kTLS",),
    "rights, seccomp": RIGHTS,
    "engines bcc, bpftrace": ENGINES,
    "signed return addresses": SIGNED,
    "odd machines": ODD,
    "nothing left": LEAVINGS,
}


_HEAD = ("Kernel", "Machine", "Ways of attaching", *_COLUMNS, "Stepped to emulated", "Stress", "Complaints of the kernel")
_REFUSED_HEAD = ("Refused", "On", "In these words")
_ROOTS = {DEBIAN_12: "", DEBIAN_13: "Debian 13"}


@dataclass(frozen=True)
class Tables:
    """The rows of both tables, without their heads."""

    kernels: tuple[Row, ...]
    refusals: tuple[Row, ...]

    def __str__(self) -> str:
        """As Markdown."""
        refused = ["", *_table([_REFUSED_HEAD, *self.refusals])] if self.refusals else []
        return "\n".join([*_table([_HEAD, *self.kernels]), *refused])


def read_guests(folder: Path) -> list[Guest]:
    """What the guests of this folder found, by architecture, release and root."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return sorted(found, key=lambda guest: (guest["architecture"], version_of(guest["release"]), guest["root"]))


def machines(guests: Iterable[Guest]) -> list[list[Guest]]:
    """The guests of each kernel on each kind of machine together: they may have been booted several times."""
    groups: dict[tuple[str, str], list[Guest]] = {}
    for guest in guests:
        groups.setdefault((guest["release"], _machine(guest)), []).append(guest)
    return list(groups.values())


def tables(guests: Sequence[Guest]) -> Tables:
    """The tables of what these guests found."""
    groups = machines(guests)
    return Tables(tuple(map(_row, groups)), tuple(_refusals(groups)))


def with_tables(page: str, text: str) -> str:
    """The page with these tables between its two marks."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}"


def read_tables(page: str) -> Tables:
    """The tables between the two marks of a page, as str(Tables) writes them. ValueError where they have other columns."""
    lines = page.partition(BEGIN)[2].partition(END)[0].splitlines()
    rows = [tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]) for line in lines if line.startswith("|")]
    rows = [row for row in rows if set(row) != {"---"}]
    if _HEAD not in rows:
        raise ValueError("the page's table has other columns: write it without --keep")
    second = rows.index(_REFUSED_HEAD) if _REFUSED_HEAD in rows else len(rows)
    return Tables(tuple(rows[1:second]), tuple(rows[second + 1 :]))


def with_kept(guests: Sequence[Guest], old: Tables) -> Tables:
    """The tables of what these guests found, and of the old ones what they say of checks that these didn't carry out."""
    new = tables(guests)
    before = {row[:2]: row for row in old.kernels}
    now = {row[:2]: row for row in new.kernels}
    rows = [_with_cells(now.get(key), before.get(key)) for key in {**before, **now}]
    done = {(check, _short(guest["release"], _machine(guest))) for guest in guests for check in guest["results"]}
    refused: dict[tuple[str, str], list[str]] = {}
    for name, on, said in old.refusals:
        refused[name, said] = [kernel for kernel in on.split(", ") if (name, kernel) not in done]
    for name, on, said in new.refusals:
        refused.setdefault((name, said), []).extend(on.split(", "))
    merged = ((name, ", ".join(on), said) for (name, said), on in refused.items() if on)
    return Tables(tuple(sorted(rows, key=_order)), tuple(sorted(merged)))


def _with_cells(new: Row | None, old: Row | None) -> Row:
    """The new row with the old cells where less was run; stresses of other kinds and a kernel's complaints add up."""
    if new is None or old is None:
        return new or old or ()
    *cells, stress, complaints = (_fuller(after, before) for after, before in zip(new, old, strict=True))
    stresses = {one.partition(":")[0]: one for cell in (old[-2], stress) for one in cell.split("; ") if one != _NOT_RUN}
    said = dict.fromkeys(each for each in (old[-1], complaints) if each != _NO_COMPLAINT)
    return (*cells, "; ".join(stresses.values()) or _NOT_RUN, "; ".join(said) or _NO_COMPLAINT)


def _fuller(after: str, before: str) -> str:
    """The cell of now, or that of before where only some of its checks were carried out again and did not fail."""
    partial = bool(re.match(r"\d+ of \d+ run", after)) and before.startswith("yes")
    return before if partial or after in ("", _NOT_RUN) else after


def _order(row: Row) -> tuple[str, tuple[int, ...], str]:
    return (row[1].split(",")[0], version_of(row[0]), row[1])


def _machine(guest: Guest) -> str:
    """The architecture, and what of the machine isn't usual: "arm64, Debian 13, signs return addresses"."""
    return ", ".join(filter(None, (guest["architecture"], _ROOTS[guest["root"]], guest["processor"])))


def _short(release: str, machine: str) -> str:
    """A kernel with its machine in few words, without commas: "6.12.107+deb13 arm64 Debian 13"."""
    words = machine.split(", ")
    return " ".join((release.partition("-cloud-")[0], *words[:2]))


def _row(group: Sequence[Guest]) -> Row:
    results = _results(group)
    ways = results.get("programs load", {}).get("facts", {}).get("ways", [])
    cells = (_cell(results, checks) for checks in _COLUMNS.values())
    first = group[0]
    return (first["release"], _machine(first), ", ".join(ways), *cells, _costs(results), _stress(group), _complaints(group))


def _results(group: Sequence[Guest]) -> dict[str, Any]:
    return {name: result for guest in group for name, result in guest["results"].items()}


def _cell(results: Mapping[str, Any], checks: Sequence[str]) -> str:
    """What failed or was refused, by its name, and whether all was run."""
    done = {name: results[name]["outcome"] for name in checks if name in results}
    if failed := [name for name, outcome in done.items() if outcome == Outcome.FAILED]:
        return f"{_PROBLEM}: {', '.join(failed)}"
    if not done:
        return _NOT_RUN
    refused = [name for name, outcome in done.items() if outcome == Outcome.REFUSED]
    extent = "yes" if len(done) == len(checks) else f"{len(done)} of {len(checks)} run"
    return extent + (f"; refused: {', '.join(refused)}" if refused else "")


def _costs(results: Mapping[str, Any]) -> str:
    """How many times what an emulated site costs a stepped one does."""
    result = results.get("costs of sites")
    if result is None:
        return _NOT_RUN
    return f"{result['facts']['stepped to emulated']} x" if result["outcome"] == Outcome.PASSED else _PROBLEM


def _stress(group: Sequence[Guest]) -> str:
    """The connections of each stress with the preemption that was chosen."""
    done = [guest["results"]["stress"] for guest in group if "stress" in guest["results"]]
    return "; ".join(map(_one_stress, done)) or _NOT_RUN


def _one_stress(result: Mapping[str, Any]) -> str:
    if result["outcome"] == Outcome.FAILED:
        return f"{_PROBLEM}: {result['detail'].splitlines()[0]}"
    facts = result["facts"]
    chosen = re.search(r"\((\w+)\)", facts["preemption"])
    way = f"{chosen[1]}: " if chosen else ""
    return f"{way}{facts['connections']} handshakes in {facts['runs']} runs, {result['seconds']:.0f} s"


def _complaints(group: Sequence[Guest]) -> str:
    said = [line for guest in group for line in (*guest["complaints"], guest["trouble"]) if line]
    return "; ".join(dict.fromkeys(said)).replace("|", "\\|").replace("\n", " ") or _NO_COMPLAINT


def _refusals(groups: Sequence[Sequence[Guest]]) -> list[Row]:
    """What is refused, in ssllatency's words, and on which kernels."""
    rows: dict[tuple[str, str], list[str]] = {}
    for group in groups:
        for name, result in _results(group).items():
            if result["outcome"] == Outcome.REFUSED:
                rows.setdefault((name, result["detail"]), []).append(_short(group[0]["release"], _machine(group[0])))
    return sorted((name, ", ".join(on), said) for (name, said), on in rows.items())


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    head, *rest = rows
    yield f"| {' | '.join(head)} |"
    yield f"| {' | '.join('---' for _ in head)} |"
    yield from (f"| {' | '.join(row)} |" for row in rest)


def main() -> int:
    parser = argparse.ArgumentParser(description="Shows or writes the tables of docs/use/kernels.md.")
    parser.add_argument("--write", action="store_true", help="write them into docs/use/kernels.md")
    parser.add_argument("--keep", action="store_true", help="keep what the page says of checks that have no results here")
    options = parser.parse_args()
    guests = read_guests(FOLDER / "results")
    if not guests:
        print("kernels: there are no results: run make test-kernels KERNELS=all first", file=sys.stderr)
        return 1
    try:
        made = with_kept(guests, read_tables(PAGE.read_text())) if options.keep else tables(guests)
    except ValueError as error:
        print(f"kernels: {error}", file=sys.stderr)
        return 1
    if options.write:
        PAGE.write_text(with_tables(PAGE.read_text(), str(made)))
    else:
        print(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
