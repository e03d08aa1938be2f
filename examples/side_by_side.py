# SPDX-License-Identifier: Apache-2.0
"""Several measurements of `ssllatency load --json` in one table, a row each: the client's rate, and the server's handshakes.

Usage: side_by_side.py [--mix LABEL] [--calls FUNCTION]… NAME=FILE…

A FILE that ends in .txt is what h2load printed without a traced server: such a row has the client's figures only. Each time is
a mean over all successful handshakes, those that hadn't the part included, so that a row's parts add up. RESUMED is of the
handshakes of which that is known; with --mix LABEL a column says how often each value of another label occurred, and with
--calls FUNCTION one how often that function succeeded, where functions were measured.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ssllatency.load.tools import h2load
from ssllatency.reports.text.page import table
from ssllatency.units import duration

_RATES = ("requests a second", "connections a second")
_ALWAYS = ("wall", "calls", "private_key")
_PARTS = ("key_exchange", "session_lookup", "peer_verification", "callbacks")
Document = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measurements side by side.")
    parser.add_argument("--mix", metavar="LABEL", help="a column for this label's values")
    parser.add_argument("--calls", action="append", default=[], metavar="FUNCTION", help="a column for its successful calls")
    parser.add_argument("files", nargs="+", metavar="NAME=FILE")
    arguments = parser.parse_args()
    runs = {name: _read(Path(file)) for name, _, file in (argument.partition("=") for argument in arguments.files)}
    parts = [*_ALWAYS, *(part for part in _PARTS if any(_mean(document, part) for document in runs.values()))]
    mixed = [arguments.mix] if arguments.mix else []
    headings = [name.upper().replace("_", " ") for name in ("run", "a second", "handshakes", "resumed", *parts)]
    rows = [[name, *_row(document, parts), *_more(document, mixed, arguments.calls)] for name, document in runs.items()]
    print("\n".join(table([[*headings, *(name.upper().replace("_", " ") for name in mixed), *arguments.calls], *rows], left=1)))


def _read(path: Path) -> Document:
    text = path.read_text()
    if path.suffix != ".txt":
        document: Document = json.loads(text)
        return document
    return {"client": {"figures": [{"name": figure.name, "value": figure.value} for figure in h2load.parse(text).figures]}}


def _row(document: Document, parts: list[str]) -> list[str]:
    resumed = _mix(document, "resumed")
    return [
        _rate(document),
        str(_successes(document)) if "handshakes" in document else "-",
        str(resumed.get("yes", 0)) if resumed else "-",
        *(duration(_mean(document, part)) for part in parts),
    ]


def _more(document: Document, mixed: list[str], calls: list[str]) -> list[str]:
    values = (", ".join(f"{value} {count}" for value, count in sorted(_mix(document, label).items())) for label in mixed)
    return [*(value or "-" for value in values), *(_calls(document, function) for function in calls)]


def _mix(document: Document, label: str) -> dict[str, int]:
    """How often each value of the label occurred among the successful handshakes."""
    counts: dict[str, int] = document.get("handshakes", {}).get("mix", {}).get(label, {})
    return counts


def _calls(document: Document, function: str) -> str:
    rows = document.get("functions", [])
    counts = [int(row["count"]) for row in rows if row["function"] == function and row["outcome"] == "success"]
    return str(sum(counts)) if counts else "-"


def _rate(document: Document) -> str:
    figures = {figure["name"]: figure["value"] for figure in document["client"]["figures"]}
    return next((f"{figures[name]:.0f}" for name in _RATES if name in figures), "-")


def _successful(document: Document) -> list[Document]:
    groups: list[Document] = document.get("handshakes", {}).get("groups", [])
    return [group for group in groups if group["ending"] == "success"]


def _successes(document: Document) -> int:
    return sum(int(group["count"]) for group in _successful(document))


def _mean(document: Document, part: str) -> float | None:
    """Over all successful handshakes; None where none had this part."""
    times = [group["parts"][part]["total_ns"] for group in _successful(document) if part in group["parts"]]
    return sum(times) / _successes(document) if times else None


if __name__ == "__main__":
    main()
