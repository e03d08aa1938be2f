# SPDX-License-Identifier: Apache-2.0
"""The entry point of the command. Hardly anything is brought in before the fork server is started, which a first start waits
for."""

from __future__ import annotations

import sys

from ssllatency.cli.subcommands import ROOMS
from ssllatency.output import streams
from ssllatency.tracing.planning import fork_server

_INTERRUPTED = 130  # as shells have it


def main() -> None:
    """Runs the command, and ends this process with its exit status."""
    try:
        streams.open_missing()
        arguments = sys.argv[1:]
        traces = not arguments or ROOMS.get(arguments[0]) == "live"  # alone it takes a short look at who is busy
        with fork_server.running(wanted=traces):
            from ssllatency.cli.command_line import run

            status = run(arguments)
    except KeyboardInterrupt:  # before there was anything to end
        status = _INTERRUPTED
    streams.drop_unwritten()
    sys.exit(status)
