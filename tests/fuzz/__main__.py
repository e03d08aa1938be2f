# SPDX-License-Identifier: Apache-2.0
"""Looks for bytes for which an invariant doesn't hold: `python -m tests.fuzz TARGET [SECONDS] [FOLDER]`.

With atheris (pip install atheris) it is led by which code is reached, and keeps what it learned in FOLDER; without, bytes of
the seeds are overwritten at random. What breaks an invariant is written to the current folder, as crash-….
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

try:
    import atheris
except ImportError:
    atheris = None

_TARGETS = ("plan", "handshakes", "names", "debug", "kept")
_MOST_BYTES, _LONGEST_S, _MOST_MB = 1 << 16, 20, 2048


def prepared(target: str, folder: Path) -> tuple[Callable[[bytes], None], list[bytes]]:
    """What is called with bytes, and the bytes to begin with."""
    from tests.fuzz import invariants, seeds

    if target == "debug":
        library, debug = seeds.stripped_library(folder)
        return invariants.check_debug_file(library, folder / "root"), [debug]
    if target == "kept":
        return invariants.check_kept, seeds.kept(folder)
    checks = {"plan": invariants.check_plan, "handshakes": invariants.check_handshake_plan, "names": invariants.check_names}
    return checks[target], seeds.libraries(folder)


def changed(seed: bytes, chance: random.Random) -> bytes:
    """The seed with some bytes overwritten, or cut short."""
    data = bytearray(seed)
    for _ in range(chance.choice((1, 1, 2, 4, 16, 64))):
        at = chance.randrange(len(data))
        data[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    return bytes(data[: chance.randrange(len(data))] if chance.random() < 0.05 else data)


def at_random(check: Callable[[bytes], None], seeds: list[bytes], seconds: float) -> int:
    """Tries changed seeds for so long; how many."""
    chance, until, count = random.Random(time.time_ns()), time.monotonic() + seconds, 0
    while time.monotonic() < until:
        data = changed(chance.choice(seeds), chance)
        count += 1
        try:
            check(data)
        except BaseException:
            Path(f"crash-{count}").write_bytes(data)
            raise
    return count


def led(check: Callable[[bytes], None], seeds: list[bytes], seconds: float, corpus: Path) -> None:
    """Has atheris look; it ends the process."""
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    bounds = (
        f"-max_len={_MOST_BYTES}",
        f"-timeout={_LONGEST_S}",
        f"-rss_limit_mb={_MOST_MB}",
        f"-max_total_time={seconds:.0f}",
    )
    atheris.Setup([sys.argv[0], str(corpus), *bounds, "-print_final_stats=1"], check)
    atheris.Fuzz()


def main(arguments: list[str]) -> int:
    """Runs one target."""
    if not arguments or arguments[0] not in _TARGETS:
        print(f"usage: python -m tests.fuzz {'|'.join(_TARGETS)} [SECONDS] [FOLDER]", file=sys.stderr)
        return 2
    target, seconds = arguments[0], float(arguments[1]) if len(arguments) > 1 else 60.0
    with tempfile.TemporaryDirectory(prefix="ssllatency-fuzz-") as made:
        if atheris is None:
            check, seeds = prepared(target, Path(made))
            print(
                f"{at_random(check, seeds, seconds)} files tried at random, none breaks an invariant (atheris isn't installed)"
            )
            return 0
        with atheris.instrument_imports(include=["ssllatency"]):
            check, seeds = prepared(target, Path(made))
        corpus = Path(arguments[2] if len(arguments) > 2 else made, "corpus", target)
        pid = os.fork()  # atheris ends its process without a word to Python: the folder would stay
        if pid == 0:
            led(check, seeds, seconds, corpus)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
