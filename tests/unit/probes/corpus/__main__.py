# SPDX-License-Identifier: Apache-2.0
"""Compares all binaries that are here with the corpus, or makes it anew, with the tables of probe-sites.md."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.unit.probes.corpus import manifest, places, rules, tables, text
from tests.unit.probes.corpus.comparison import ADVICE, compare
from tests.unit.probes.corpus.manifest import Described


def _compare() -> int:
    binaries, compared, agree = manifest.load(), Counter[str](), True
    seen = set()
    for place in places.of_corpus():
        result = compare(place.path, binaries)
        if result is None:
            continue
        compared[result.how] += 1
        seen.add(result.against.identity if result.against and result.exact else "")
        if result.differences or result.against is None:
            print(f"\n{result}")
        agree = agree and not result.differences
    print("\n==> " + (", ".join(f"{number} {how}" for how, number in compared.items()) or "nothing is here to be compared"))
    for binary in binaries:
        if binary.identity not in seen:
            print(f"not here: {binary.origin}, {binary.file}")
    if not agree:
        print(ADVICE, file=sys.stderr)
    return 0 if agree else 1


def _write() -> int:
    """What isn't here keeps the plan that it had."""
    here = [seen for place in places.of_corpus() if (seen := manifest.look_at(place.path, place.origin, place.file))]
    there = {seen.binary.identity for seen in here}
    absent = [Described(binary, binary.expected) for binary in manifest.load() if binary.identity not in there]
    built = {seen.binary.origin for seen in here if seen.binary.origin.startswith("built ")}
    absent = [each for each in absent if each.binary.origin not in built]
    binaries, texts = manifest.arranged([*here, *absent])
    manifest.save(binaries, texts)
    tables.PAGE.write_text(tables.with_tables(tables.PAGE.read_text(), tables.chosen(binaries)))
    print(f"==> {len(binaries)} binaries, {len(texts)} plans, {sum(map(len, texts.values()))} bytes")
    for each in absent:
        print(f"left as it was, as it isn't here: {each.binary.origin}, {each.binary.file}")
    broken = [f"{name}: {objection}" for name, said in texts.items() for objection in rules.objections(text.parse(said))]
    for line in broken:
        print(line, file=sys.stderr)
    return 1 if broken else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="make the plans, the list and the tables anew")
    return _write() if parser.parse_args().write else _compare()


if __name__ == "__main__":
    sys.exit(main())
