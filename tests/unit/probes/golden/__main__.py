# SPDX-License-Identifier: Apache-2.0
"""Compares the golden plans with the libraries of this machine, or makes them anew, with the tables of probe-sites.md."""

from __future__ import annotations

import argparse
import json
import sys

from tests.unit.probes import golden
from tests.unit.probes.golden import tables


def _write(subject: golden.Subject) -> str:
    path = golden.locate(subject.file).path
    if path is None:
        return f"left as it is: {golden.locate(subject.file).reason}"
    kept = golden.golden_path(subject, path)
    kept.write_text(json.dumps(golden.current(subject, path), indent=1, ensure_ascii=False) + "\n")
    return f"written to {kept.name}"


def _compare(subject: golden.Subject) -> tuple[str, bool]:
    path = golden.locate(subject.file).path
    if path is None:
        return f"not compared: {golden.locate(subject.file).reason}", True
    kept = golden.golden_path(subject, path)
    if not kept.exists():
        return f"not compared: there is no {kept.name}", False
    result = golden.compare(golden.load(kept), golden.current(subject, path))
    said = "\n  ".join((f"compared with {kept.name} {result.kind}", *result.differences))
    return said, not result.differences


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="make the golden plans and the tables anew")
    write: bool = parser.parse_args().write
    agree = True
    for subject in golden.SUBJECTS:
        said, fine = (_write(subject), True) if write else _compare(subject)
        agree = agree and fine
        print(f"{subject.file}: {said}")
    if write:
        tables.PAGE.write_text(tables.with_tables(tables.PAGE.read_text(), golden.all_golden()))
    if not agree:
        print(golden.ADVICE, file=sys.stderr)
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
