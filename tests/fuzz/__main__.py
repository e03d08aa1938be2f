# SPDX-License-Identifier: Apache-2.0
"""Looks for bytes for which an invariant doesn't hold.

It begins with the seeds, which are made, and the inputs that are kept in tests/fuzz/corpus. With atheris (`make fuzz` installs
it below build/fuzz) it is led by which code is reached, and keeps what it learned in the folder's corpus; without, bytes of
those are overwritten at random. What breaks an invariant is written to the folder's
crashes, and the exit status is 1. Each turn of a target adds a line to the folder's executions.tsv: target, kind, seed, inputs,
seconds, status.
"""

from __future__ import annotations

import argparse
import io
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

try:
    import atheris
except ImportError:
    atheris = None

if TYPE_CHECKING:
    from tests.fuzz.running import Prepared

_TURN_S, _MOST_S = 60.0, 1200.0
_FOLLOWED = (
    "code",
    "elf",
    "tracing/certificates",
    "stacks",
    "probes",
    "load",
    "model",
    "reports",
    "targets",
    "prometheus",
    "export",
    "cli",
)


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="what to try (all)")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each target is tried in all (60)")
    parser.add_argument("--runs", type=int, default=0, help="how many inputs of each target at most (no bound)")
    parser.add_argument("--seed", type=int, help="tries the same again, where --runs bounds it (another each time)")
    parser.add_argument(
        "--minutes", type=int, default=0, help="so long for all, about, without the folder's corpus, the same each time"
    )
    parser.add_argument("--jobs", type=int, default=1, help="how many targets are tried at once (1)")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"), help="where findings are kept (build/fuzz)")
    parser.add_argument("--count", action="store_true", help="only tell how many inputs have been tried so far")
    return parser.parse_args(words)


def _import_all() -> None:
    """All code that is to be followed, what is imported late as well."""
    import ssllatency

    package = Path(ssllatency.__file__).parent
    for room in _FOLLOWED:
        for source in sorted(package.glob(f"{room}/**/*.py")):
            import_module(".".join(source.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__"))


@contextmanager
def _prepared(names: Sequence[str], corpus: Path | None) -> Iterator[list[Prepared]]:
    """The targets with their seeds, each with its folder below `corpus`, or an empty one. ValueError for another name."""
    quietly = redirect_stderr(io.StringIO())  # it tells of each module
    with quietly, atheris.instrument_imports(include=["ssllatency"]) if atheris else nullcontext():
        _import_all()
        from tests.fuzz.keeping import kept
        from tests.fuzz.running import Prepared
        from tests.fuzz.targets import ROOM_OF, TARGETS
    if unknown := set(names) - set(TARGETS):
        raise ValueError(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    with tempfile.TemporaryDirectory(prefix="ssllatency-fuzz-") as made:
        found = []
        for name in names or TARGETS:
            folder = Path(made, name)
            folder.mkdir()
            check, seeds = TARGETS[name].make(folder)
            seeds = [*seeds, *kept.read(kept.file_of(ROOM_OF[name], name))]
            learned = corpus / name if corpus else folder / "corpus"
            found.append(Prepared(name, check, seeds, TARGETS[name].most_bytes, learned))
        yield found


def _fuzz(targets: Sequence[Prepared], arguments: argparse.Namespace) -> bool:
    """Whether every invariant held."""
    from tests.fuzz.running import Bounds, Turn, take_turns
    from tests.fuzz.targets import TARGETS

    whole_s = _MOST_S if arguments.minutes else arguments.seconds
    left_s = dict.fromkeys((target.name for target in targets), whole_s)
    seeds = count(1 if arguments.minutes else arguments.seed or time.time_ns() & 0x3FFFFFFF)

    def begin(target: Prepared) -> Turn | None:
        runs = TARGETS[target.name].a_minute * arguments.minutes or arguments.runs
        seconds = left_s[target.name] if runs else min(_TURN_S, left_s[target.name])
        if left_s[target.name] <= 0:
            return None
        left_s[target.name] -= seconds
        return Turn(target, Bounds(seconds, runs, next(seeds)), arguments.folder, led=atheris is not None)

    def tell(turn: Turn, good: bool) -> None:
        print(f"{turn.target.name}: {turn.tried:,} inputs, seed {turn.bounds.seed}", end="")
        print("" if good else f": an invariant is broken: {turn.log}, {arguments.folder}/crashes", flush=True)

    return take_turns(targets, begin, arguments.jobs, tell)


def main(words: Sequence[str]) -> int:
    """The exit status."""
    arguments = _arguments(words)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was tried is counted
    if not arguments.count:
        if atheris is None:
            print("atheris isn't installed: seeds are changed at random")
        try:
            with _prepared(arguments.targets, None if arguments.minutes else arguments.folder / "corpus") as targets:
                held = _fuzz(targets, arguments)
        except ValueError as error:
            print(error, file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            print("interrupted: what was tried is counted")
            return 1
        if not held:
            return 1
    from tests.fuzz.running import totals

    tried = totals(arguments.folder)
    print("\n".join(f"{name}: {count:,} inputs so far" for name, count in sorted(tried.items())))
    print(f"in all: {sum(tried.values()):,}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
