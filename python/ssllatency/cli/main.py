# SPDX-License-Identifier: Apache-2.0
"""The entry point of the command. Nothing is brought in before the fork server is started, which a first start waits for."""

from __future__ import annotations

import sys

from ssllatency.cli.subcommands import ROOMS
from ssllatency.tracing.planning import fork_server


def main() -> None:
    """Runs the command, and ends this process with its exit status."""
    arguments = sys.argv[1:]
    traces = not arguments or ROOMS.get(arguments[0]) == "live"  # alone it takes a short look at who is busy
    with fork_server.running(wanted=traces):
        from ssllatency.cli.command_line import run

        status = run(arguments)
    sys.exit(status)
