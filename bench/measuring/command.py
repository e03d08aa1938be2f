# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks have in common as commands: they need root, say in one sentence why they can't go on, and print a page or
write it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from tests.live.clients.counted import ClientError
from tests.live.servers.nginx import ServerError

from bench.measuring.tracers import BenchError


def arguments_of_turns(description: str | None, pairs: int, seconds: float | None = None) -> argparse.Namespace:
    """The arguments of a benchmark that measures in turns; `pairs` and `seconds` where none are given. No `seconds`: how long a
    turn takes is what it measures."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--pairs", type=int, default=pairs, metavar="N", help=f"how many pairs of turns, at least 2 ({pairs})")
    if seconds is not None:
        parser.add_argument(
            "--seconds", type=float, default=seconds, metavar="S", help=f"how long a turn is measured ({seconds:g})"
        )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the page to write (none)")
    return parser.parse_args()


def run(make_page: Callable[[], str], output: Path | None, target: str) -> int:
    """Makes the page, and prints it or writes it too; the exit status. `target`: what make calls the benchmark."""
    os.environ["PATH"] += ":/usr/sbin"
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job is to ignore it, and what it starts
    try:
        if os.geteuid() != 0:
            raise BenchError(f"tracing needs root: sudo make {target}.")
        text = make_page()
    except (BenchError, ServerError, ClientError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    if output:
        output.write_text(text)
        print(f"==> written to {output}", file=sys.stderr)
    print(text)
    return 0
