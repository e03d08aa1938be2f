#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what `--budget` keeps of a server's requests, and how often its estimates hold the truth: paired runs on an nginx at
full speed, which counts and times its calls itself."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from bench.budget import page
from bench.budget.runs import BudgetRun, Estimated, Loaded
from bench.measuring import command
from bench.measuring.works import CONNECTIONS, choose_cpus
from bench.page import machine


def main() -> int:
    """Measure, and print or write the page."""
    arguments = _arguments()

    def make_page() -> str:
        runs = _kept(arguments.keep) + _measure(arguments)
        return page.render(runs, machine(), arguments.budget, arguments.seconds, CONNECTIONS)

    return command.run(make_page, arguments.output, "bench-budget")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10, metavar="N", help="how many runs (10)")
    parser.add_argument("--seconds", type=float, default=20.0, metavar="S", help="how long each is traced (20)")
    parser.add_argument("--budget", default="2%", metavar="PERCENT", help="the budget (2%%)")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="adds the runs to those that FILE has, and shows all")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the page to write (none)")
    return parser.parse_args()


def _measure(arguments: argparse.Namespace) -> list[BudgetRun]:
    runs = []
    if not arguments.runs:
        return []
    with (
        tempfile.TemporaryDirectory(prefix="ssllatency-bench-") as directory,
        Loaded(Path(directory), choose_cpus(), arguments.budget, arguments.seconds) as loaded,
    ):
        for number in range(1, arguments.runs + 1):
            print(f"==> budget: run {number}", file=sys.stderr)
            runs.append(loaded.run())
            if arguments.keep:
                with arguments.keep.open("a") as file:
                    file.write(json.dumps(asdict(runs[-1])) + "\n")
    return runs


def _kept(file: Path | None) -> list[BudgetRun]:
    """The runs of former calls."""
    lines = file.read_text().splitlines() if file and file.exists() else []
    return [_read(json.loads(line)) for line in lines]


def _read(run: dict[str, object]) -> BudgetRun:
    estimated = {
        function: Estimated(tuple(values["count"]), tuple(values["p99_ns"]), values["true_p99_ns"])
        for function, values in run.pop("estimated").items()  # type: ignore[attr-defined]
    }
    return BudgetRun(**run, estimated=estimated)  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(main())
