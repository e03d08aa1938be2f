# SPDX-License-Identifier: Apache-2.0
"""Watches until a condition holds, such as 'handshake p99 > 50ms for 10s': writes a recording of the time before and after,
runs a command, prints a line, and goes on watching. Ends after -d seconds, on Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from ssllatency import __version__
from ssllatency.cli import options
from ssllatency.errors import SsllatencyError
from ssllatency.output.folder import Folder
from ssllatency.output.printing import show, tell
from ssllatency.tracing import handshake_sources, live
from ssllatency.watch.action import Action
from ssllatency.watch.condition import ThresholdValue, joined
from ssllatency.watch.watching import INTERVAL_S, Bounds, Incident, Watcher

SUMMARY = "record the time before and after a condition begins to hold"
EXAMPLES = (
    (
        "ssllatency watch --port 443 --when 'handshake p99 > 50ms for 10s' -o slow",
        "a recording of before and after, whenever that holds",
    ),
    (
        "ssllatency watch --unit nginx.service --when 'failure share > 5%' --json",
        "a line of JSON for each incident",
    ),
)
_BEFORE_S, _AFTER_S, _QUIET_S, _TIMEOUT_S = 120.0, 30.0, 60.0, 60.0
_LONGEST_S = 3600.0
_KEEP, _KEEP_MIB = 20, 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    options.add_target_options(parser)
    parser.add_argument("--when", type=options.condition, required=True, metavar="CONDITION",
                        help="what is waited for: 'handshake p99 > 50ms for 10s', 'failure share > 5%% for 1m'")  # fmt: skip
    parser.add_argument("-o", "--output", metavar="FOLDER", help="write a recording of each incident into this folder")
    parser.add_argument("--functions", action="store_true",
                        help="record the calls of functions too, where the condition is about handshakes alone")  # fmt: skip
    parser.add_argument("--before", type=options.seconds, default=_BEFORE_S, metavar="TIME",
                        help="record this much of the time before the condition holds (2m)")  # fmt: skip
    parser.add_argument("--after", type=options.seconds, default=_AFTER_S, metavar="TIME",
                        help="and this much after it began to hold (30s)")  # fmt: skip
    parser.add_argument("--quiet", type=options.seconds, default=_QUIET_S, metavar="TIME",
                        help="an incident is over when the condition hasn't held for this time (1m)")  # fmt: skip
    parser.add_argument("--keep", type=options.count, default=_KEEP, metavar="N",
                        help=f"keep the newest N recordings in the folder ({_KEEP})")  # fmt: skip
    parser.add_argument("--keep-mib", type=options.whole, default=_KEEP_MIB, metavar="MIB",
                        help=f"and at most this many MiB of them ({_KEEP_MIB})")  # fmt: skip
    parser.add_argument("--run", dest="command", metavar="COMMAND",
                        help="run this command after each incident, without a shell; the variable SSLLATENCY_RECORDING names "
                             "the file")  # fmt: skip
    parser.add_argument("--run-timeout", type=options.seconds, default=_TIMEOUT_S, metavar="TIME",
                        help="end the command after this time (1m)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the line of an incident as JSON, schema ssllatency-watch/1")
    parser.add_argument("-d", "--duration", type=options.seconds, metavar="TIME", help="stop after this time: 1h, 30m")
    options.add_measuring_options(parser)
    options.add_budget_options(parser)
    options.add_attaching_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Attaches, watches, detaches."""
    selection = options.selection(arguments)
    if max(arguments.before, arguments.after) > _LONGEST_S:
        raise SsllatencyError("--before and --after can be 1h at most.", 2)
    action = Action(arguments.command, arguments.run_timeout) if arguments.command is not None else None
    folder = Folder(arguments.output, arguments.keep, arguments.keep_mib << 20) if arguments.output else None
    live.prepare()
    with ExitStack() as stack:
        resolved = live.resolved_ahead(selection, arguments, stack, handshakes=True)
        functions = arguments.functions or arguments.when.needs_functions
        session, follower, what = handshake_sources.attach_useful(resolved, arguments, stack, functions=functions)
        earlier = session.read(per_interval=True)
        live.announce(resolved, arguments.duration, what=f"{what} until {arguments.when.text!r} holds")
        watcher = _watcher(arguments, folder, action)

        def look() -> None:
            session.poll()
            if action:
                action.look()

        end = live.RunEnd(resolved, arguments.duration, follower)
        for interval in live.snapshots(session, end, INTERVAL_S, look, earlier):
            watcher.take(resolved.noted(interval))
    watcher.end()
    if action:
        action.wait()
    return 0


def _watcher(arguments: argparse.Namespace, folder: Folder | None, action: Action | None) -> Watcher:
    def begun(readings: Sequence[ThresholdValue]) -> None:
        tell(f"the condition holds: {joined(readings)}; recording {arguments.after:g} s more.")

    def over(incident: Incident) -> None:
        path = _kept(folder, incident)
        _print(incident, path, as_json=arguments.json)
        if action:
            action.start(_facts(incident, path))

    bounds = Bounds(arguments.before, arguments.after, arguments.quiet)
    made_by = __version__, shlex.join(["ssllatency", *sys.argv[1:]])
    return Watcher(arguments.when, bounds, made_by, begun, over)


def _kept(folder: Folder | None, incident: Incident) -> Path | None:
    """Say where the recording is. One that can't be written is no reason to end."""
    try:
        return folder.keep(incident.recording) if folder else None
    except SsllatencyError as error:
        tell(str(error))
        return None


def _print(incident: Incident, path: Path | None, *, as_json: bool) -> None:
    if not as_json:
        show(f"{incident.began} {incident.words}{f': {path}' if path else ''}")
        return
    values = [
        {
            "metric": reading.comparison.metric.name,
            "operator": reading.comparison.operator,
            "limit": reading.comparison.limit,
            "value": reading.value,
            "over_s": reading.comparison.over_s,
        }
        for reading in incident.readings
    ]
    fields = {
        "schema": "ssllatency-watch/1",
        "host": incident.host,
        "condition": incident.condition,
        "began": incident.began,
        "readings": values,
        "recording": str(path) if path else None,
        "intervals": incident.intervals,
        "cut_short": incident.cut_short,
    }
    show(json.dumps(fields))


def _facts(incident: Incident, path: Path | None) -> dict[str, str]:
    return {
        "SSLLATENCY_RECORDING": str(path.absolute()) if path else "",
        "SSLLATENCY_CONDITION": incident.condition,
        "SSLLATENCY_READINGS": incident.words,
        "SSLLATENCY_BEGAN": incident.began,
        "SSLLATENCY_HOST": incident.host,
    }
