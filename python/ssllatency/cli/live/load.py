# SPDX-License-Identifier: Apache-2.0
"""Runs a load generator against a server while tracing that server's handshakes, and prints the figures of both sides in one
report. Everything after the tool's name is passed to the tool. Ctrl-C stops the tool; the report is printed all the same."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from ssllatency.cli import options
from ssllatency.engines.source import Ability, HandshakeSource
from ssllatency.errors import SsllatencyError
from ssllatency.load.account import Account, of_tools
from ssllatency.load.arguments import endpoint, expected_s, refuse_plain
from ssllatency.load.figures import LoadError
from ssllatency.load.run import StopReason, ToolOutput
from ssllatency.load.run import run as run_tool
from ssllatency.load.tools.choice import TOOLS, Tool, report_of, version_of
from ssllatency.model.snapshot import Snapshot
from ssllatency.output.page import output_page
from ssllatency.output.printing import show, tell
from ssllatency.output.progress import Progress
from ssllatency.reports.documents import document
from ssllatency.reports.text import client as client_text
from ssllatency.reports.text import trace as text
from ssllatency.stopping import stop_is_asked_for
from ssllatency.targets import Selection
from ssllatency.tracing import handshake_sources, live
from ssllatency.tracing.follow import Follower
from ssllatency.tracing.load import driving
from ssllatency.units import counted

SUMMARY = "run s_time, h2load, ab or wrk against a server while tracing it"
EXAMPLES = (
    ("ssllatency load h2load -- -n 2000 -c 20 https://localhost/", "both sides of 2000 requests"),
    ("ssllatency load wrk -t2 -c100 -d30s --latency https://127.0.0.1/", "wrk with its percentiles beside the server's"),
    ("ssllatency load --matrix matrix.toml -o runs.csv", "every combination of what the file names"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    options.add_target_options(parser)
    parser.add_argument("tool", nargs="?", choices=list(TOOLS), help="the load generator")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="ARGUMENTS", help="the tool's own arguments, passed on unchanged"
    )
    parser.add_argument("--program", metavar="FILE", help="the tool's executable, if not the one on the PATH")
    parser.add_argument("--user", metavar="NAME", default="",
                        help="run the tool as this user (for root: sudo's user, else nobody)")  # fmt: skip
    parser.add_argument("--timeout", type=options.seconds, metavar="TIME",
                        help="stop the tool after this time (a minute past its own duration, else an hour)")  # fmt: skip
    parser.add_argument("--functions", action="store_true", help="also measure each function, as trace does")
    parser.add_argument("--json", action="store_true", help="print JSON, schema ssllatency/1 with the member client")
    options.add_verbose_option(parser)
    group = parser.add_argument_group("a matrix of measurements instead of one run")
    group.add_argument("--matrix", metavar="FILE", help="run every combination of the factors in this TOML file")
    group.add_argument(
        "-o", "--output", metavar="FILE", help="write the runs' figures to this CSV file; an interrupted one is continued"
    )
    group.add_argument("--dry-run", action="store_true", help="only print what would be run, and how long it would take")
    options.add_measuring_options(parser)
    options.add_attaching_options(parser)
    options.add_budget_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Attaches, runs the tool, detaches and prints."""
    if arguments.matrix:
        return _matrix(arguments)
    if not arguments.tool or arguments.output or arguments.dry_run:
        raise SsllatencyError("the following arguments are required: tool, or --matrix FILE for -o and --dry-run.", 2)
    tool = TOOLS[arguments.tool]
    words = arguments.arguments[1:] if arguments.arguments[:1] == ["--"] else arguments.arguments
    command = [arguments.program or tool.program, *tool.leading, *words]
    refuse_plain(arguments.tool, words)
    account = of_tools(arguments.user)
    version = version_of(tool, arguments.program or "", account)
    selection = options.selection(arguments)
    if selection == Selection():
        selection = driving.serving_there(endpoint(arguments.tool, words))
    live.prepare()
    output, snapshot = _measure(command, account, expected_s(arguments.tool, words), selection, arguments)
    snapshot, status = _with_client(snapshot, output, tool, command, version)
    if status and account:
        tell(f"{command[0]} ran as user {account.uid}: --user names another, if it needs files that this one may not read.")
    _print(snapshot, arguments)
    return status


def _matrix(arguments: argparse.Namespace) -> int:
    from ssllatency.cli.live import matrix

    others = (
        arguments.tool,
        arguments.program,
        arguments.json,
        arguments.functions,
        options.selection(arguments) != Selection(),
    )
    if any(others):
        raise SsllatencyError(
            "The file of --matrix names tools and servers: leave tool, targets, --program, --json and --functions out.", 2
        )
    return matrix.run(arguments)


def _measure(
    command: Sequence[str],
    account: Account | None,
    whole_s: float | None,
    selection: Selection,
    arguments: argparse.Namespace,
) -> tuple[ToolOutput, Snapshot]:
    """Both sides of one run."""
    with ExitStack() as stack:
        resolved = live.resolved_ahead(selection, arguments, stack, handshakes=True)
        wanted = Ability.HANDSHAKES | Ability.FUNCTIONS if arguments.functions else Ability.HANDSHAKES
        session, follower = handshake_sources.attach(wanted, resolved, arguments, stack)
        live.announce(resolved, None, what="handshakes and functions" if arguments.functions else "handshakes")
        session.poll()  # begins to keep the budget, before the tool runs
        limit_s = driving.timeout_s(arguments.timeout, whole_s)
        output = _drive(command, account, limit_s, whole_s, session, follower)
        snapshot = _settled(session)
        return output, resolved.noted(snapshot)


def _drive(
    command: Sequence[str],
    account: Account | None,
    limit_s: float,
    whole_s: float | None,
    session: HandshakeSource,
    follower: Follower,
) -> ToolOutput:
    """Runs the tool, and follows the server's processes meanwhile."""
    with Progress(whole_s) as progress:

        def meanwhile(elapsed_s: float) -> None:
            follower.look()
            session.poll()
            progress.show(elapsed_s, counted(session.ended, "handshake"))

        return run_tool(command, timeout_s=limit_s, account=account, progress=meanwhile, stopped=stop_is_asked_for)


def _settled(session: HandshakeSource) -> Snapshot:
    """The snapshot at the end, after the last handshakes."""
    driving.settle(session)
    session.detach()
    session.poll()
    return session.read()


def _with_client(
    snapshot: Snapshot, output: ToolOutput, tool: Tool, command: Sequence[str], version: str
) -> tuple[Snapshot, int]:
    """The measurement with the client's report, and the exit status: 1 where the tool failed or can't be understood."""
    failed = output.ended is StopReason.TIMEOUT or (output.ended is StopReason.ITSELF and output.status != 0)
    for sentence in driving.complaints(output, command[0]) if failed or output.cut_bytes else ():
        tell(sentence)
    try:
        return replace(snapshot, client=report_of(tool, output, command, version)), int(failed)
    except LoadError as error:
        tell(str(error))
        return snapshot, 1


def _print(snapshot: Snapshot, arguments: argparse.Namespace) -> None:
    if arguments.json:
        show(document.to_json(snapshot))
        return
    page = output_page(verbose=arguments.verbose)
    show(client_text.render(snapshot, page), end="", colour=page.colour)
    if snapshot.series:
        show("\n" + text.render(snapshot, page), end="", colour=page.colour)
