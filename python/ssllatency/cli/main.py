# SPDX-License-Identifier: Apache-2.0
"""The entry point of the command. Hardly anything is brought in before the fork server is started, which a first start waits
for, and nothing before Ctrl-C is caught."""

from __future__ import annotations

import sys

_INTERRUPTED = 130  # as shells have it


def main() -> None:
    """Runs the command, and ends this process with its exit status."""
    try:
        status = _run()
    except KeyboardInterrupt:  # before there was anything to end
        status = _INTERRUPTED
    sys.exit(status)


def _run() -> int:
    from ssllatency.output import streams

    try:
        streams.open_missing()
        return _run_command(sys.argv[1:])
    except KeyboardInterrupt:
        return _INTERRUPTED
    finally:
        streams.drop_unwritten()


def _run_command(arguments: list[str]) -> int:
    from ssllatency.cli.subcommands import ROOMS
    from ssllatency.tracing.planning import fork_server

    traces = not arguments or ROOMS.get(arguments[0]) == "live"  # alone it takes a short look at who is busy
    with fork_server.running(wanted=traces):
        from ssllatency.cli.command_line import run

        return run(arguments)
