# SPDX-License-Identifier: Apache-2.0
"""Takes what fuzzing has learned into the repository: of each target's corpus in build/fuzz the fewest inputs that reach code
which neither the seeds reach nor what is kept. What is kept and reaches nothing of its own any more is removed."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import ssllatency
from tests.fuzz.keeping import kept
from tests.fuzz.keeping.coverage import Coverage, chosen
from tests.fuzz.targets import ROOM_OF, TARGETS, Check

_PACKAGE = str(Path(ssllatency.__file__).parent)
_SLOW_S = 0.1  # of processor time: inputs that take longer aren't kept, as those made of them would take as long


def keep(name: str, learned: Path, folder: Path = kept.FOLDER) -> tuple[int, int, int]:
    """Of the inputs that lie in the folder `learned`; how many were kept before, how many are now, for how many more there is
    no room."""
    target, file, coverage = TARGETS[name], kept.file_of(ROOM_OF[name], name, folder), Coverage(_PACKAGE)
    with tempfile.TemporaryDirectory(prefix="ssllatency-fuzz-") as made:
        check, seeds = target.make(Path(made))
        for seed in seeds:  # brings in what is imported late
            check(seed)
        reached = frozenset[tuple[int, int, int]]().union(*(coverage.of(check, seed) for seed in seeds))
        old, there = kept.read(file), set(seeds)
        before = len(old)
        paths = sorted(learned.iterdir()) if learned.is_dir() else []
        contents = {data for path in paths if len(data := path.read_bytes()) <= target.most_bytes}
        others = sorted(contents - there - set(old), key=lambda data: (len(data), data))
        old, others = ([data for data in inputs if _seconds(check, data) < _SLOW_S] for inputs in (old, others))
        stay, new = chosen(reached, [coverage.of(check, data) for data in old], [coverage.of(check, data) for data in others])
    wanted = [*(old[number] for number in stay), *(others[number] for number in new)]
    written = kept.write(file, wanted)
    return before, written, len(wanted) - written


def _seconds(check: Check, data: bytes) -> float:
    began_s = time.process_time()
    check(data)
    return time.process_time() - began_s


def main(words: Sequence[str]) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.keeping.keep", description=__doc__)
    parser.add_argument("targets", nargs="*", choices=[[], *TARGETS], metavar="TARGET", help="whose inputs (all)")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"), help="where fuzzing has kept them (build/fuzz)")
    arguments = parser.parse_args(words)
    for name in arguments.targets or TARGETS:
        before, now, left = keep(name, arguments.folder / "corpus" / name)
        print(f"{name}: {now} inputs, {before} before" + (f", no room for {left}" if left else ""), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
