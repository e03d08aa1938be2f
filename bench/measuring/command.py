# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks have in common as commands: they need root, say in one sentence why they can't go on, and print a page or
write it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from tests.live.clients.counted import ClientError
from tests.live.servers.nginx import ServerError

from bench.measuring.tracers import BenchError


def run(make_page: Callable[[], str], output: Path | None, target: str) -> int:
    """Makes the page, and prints it or writes it too; the exit status. `target`: what make calls the benchmark."""
    os.environ["PATH"] += ":/usr/sbin"
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
