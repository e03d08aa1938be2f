# SPDX-License-Identifier: Apache-2.0
"""Runs a load generator against a server while tracing that server's handshakes, and prints both sides in one report. The
arguments after the tool's name are its own. Ctrl-C ends the tool, and both sides are printed."""

from __future__ import annotations

import argparse
import os
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from ssllatency.cli import handshakes, options
from ssllatency.tracing import live
from ssllatency.tracing.follow import Follower
from ssllatency.output.page import output_page
from ssllatency.output.printing import show, tell
from ssllatency.output.progress import Progress
from ssllatency.engines.sessions.full import FullSession
from ssllatency.engines.sessions.handshakes import HandshakeSession
from ssllatency.errors import SsllatencyError
from ssllatency.load.account import Account, of_tools
from ssllatency.load.arguments import Endpoint, endpoint, expected_s, refuse_plain
from ssllatency.load.figures import LoadError
from ssllatency.load.run import Ended, Output
from ssllatency.load.run import run as run_tool
from ssllatency.load.tools.choice import TOOLS, Tool, report_of, version_of
from ssllatency.model.snapshot import Snapshot
from ssllatency.reports.text import client as client_text
from ssllatency.reports.documents import document
from ssllatency.reports.text import trace as text
from ssllatency.reports.words.units import counted
from ssllatency.targets import Selection, all_processes, is_own, serving

SUMMARY = "drive s_time, h2load, ab or wrk against a server while tracing it"
_SETTLE_S, _LOOK_S = 1.0, 0.05  # how long the server may take to end what the tool has begun
_UNKNOWN_S, _LATER_S = 3600.0, 60.0  # how long a tool may run whose end isn't known, and one whose end is


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    options.add_target_options(parser)
    parser.add_argument("tool", nargs="?", choices=list(TOOLS), help="the load generator")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="ARGUMENTS", help="its own arguments, passed on unchanged"
    )
    parser.add_argument("--program", metavar="FILE", help="the tool's executable in place of the one on the PATH")
    parser.add_argument("--user", metavar="NAME", default="",
                        help="run the tool as this user (under root sudo's user, else nobody)")  # fmt: skip
    parser.add_argument("--timeout", type=options.positive, metavar="SECONDS",
                        help="end the tool after so long (a minute after its own end, an hour where it has none)")  # fmt: skip
    parser.add_argument("--functions", action="store_true", help="measure each function as well, as trace does")
    parser.add_argument("--json", action="store_true", help="print JSON, schema ssllatency/1 with the member client")
    group = parser.add_argument_group("a matrix of measurements in place of one tool")
    group.add_argument("--matrix", metavar="FILE", help="run every combination of what this file (TOML) varies")
    group.add_argument("-o", "--output", metavar="FILE", help="the table of its runs (CSV); one that is there is continued")
    group.add_argument("--dry-run", action="store_true", help="say what would be run, and for how long")
    handshakes.add_measuring_options(parser)
    options.add_attaching_options(parser)


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
        selection = serving_there(endpoint(arguments.tool, words))
    live.prepare()
    output, snapshot = _measure(command, account, expected_s(arguments.tool, words), selection, arguments)
    snapshot, status = _with_client(snapshot, output, tool, command, version)
    if status and account:
        tell(f"{command[0]} ran as user {account.uid}: --user names another, where it needs files that this one may not read.")
    _print(snapshot, arguments)
    return status


def _matrix(arguments: argparse.Namespace) -> int:
    from ssllatency.cli import matrix

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


def serving_there(where: Endpoint) -> Selection:
    """The processes that listen there; SsllatencyError where none on this host does."""
    try:
        addresses = {str(one[4][0]) for one in socket.getaddrinfo(where.host, where.port, type=socket.SOCK_STREAM)}
    except OSError as error:
        raise SsllatencyError(f"{where.host} can't be found: {error.strerror}.") from None
    except UnicodeError:
        raise SsllatencyError(f"{where.host} can't be found: it isn't a name of a host.") from None
    processes = {process.pid: process for process in all_processes() if process.pid != os.getpid()}
    found, hidden = serving(where.port, addresses, processes) if any(map(is_own, addresses)) else ([], 0)
    if not found:
        unseen = f" ({counted(hidden, 'process')} couldn't be looked at)" if hidden else ""
        raise SsllatencyError(
            f"No process on this host listens on {where.host} port {where.port}{unseen}: name the server by -p PID, --comm NAME"
            " or --container ID."
        )
    # A server's workers have its socket as well, and come with it.
    return Selection(pids=tuple(pid for pid in found if processes[pid].ppid not in found))


def _measure(
    command: Sequence[str],
    account: Account | None,
    whole_s: float | None,
    selection: Selection,
    arguments: argparse.Namespace,
) -> tuple[Output, Snapshot]:
    """Both sides of one run."""
    with ExitStack() as stack:
        resolved = live.resolved_ahead(selection, arguments, stack, handshakes=True)
        session: HandshakeSession | FullSession
        if arguments.functions:
            session, follower = handshakes.attach(FullSession, resolved, arguments, stack)
        else:
            session, follower = handshakes.attach(HandshakeSession, resolved, arguments, stack)
        live.announce(resolved, None, what="handshakes and functions" if arguments.functions else "handshakes")
        limit_s = timeout_s(arguments.timeout, whole_s)
        output = _drive(command, account, limit_s, whole_s, session, follower)
        snapshot = _settled(session)
        return output, resolved.noted(snapshot)


def timeout_s(asked_s: float | None, whole_s: float | None) -> float:
    """How long a tool may run that takes `whole_s` by itself, None where that isn't known."""
    return asked_s or (_UNKNOWN_S if whole_s is None else whole_s + _LATER_S)


def _drive(
    command: Sequence[str],
    account: Account | None,
    limit_s: float,
    whole_s: float | None,
    session: HandshakeSession | FullSession,
    follower: Follower,
) -> Output:
    """Runs the tool; meanwhile what the server's processes bring is followed."""
    with Progress(whole_s) as progress:

        def meanwhile(elapsed_s: float) -> None:
            follower.look()
            session.poll()
            progress.show(elapsed_s, counted(session.ended, "handshake"))

        return run_tool(command, timeout_s=limit_s, account=account, progress=meanwhile, stopped=live.stop_is_asked_for)


def settle(session: HandshakeSession | FullSession) -> None:
    """Waits until the server has ended what the tool left it with, for a while at most. Reads nothing: the next read has the
    extremes since the one before."""
    end = time.monotonic() + _SETTLE_S
    while time.monotonic() < end:
        time.sleep(_LOOK_S)
        if not session.in_flight:
            break


def _settled(session: HandshakeSession | FullSession) -> Snapshot:
    """What has been counted in the end."""
    settle(session)
    session.detach()
    session.poll()
    return session.read()


def _with_client(snapshot: Snapshot, output: Output, tool: Tool, command: Sequence[str], version: str) -> tuple[Snapshot, int]:
    """The measurement with the client's report, and the exit status: 1 where the tool failed or can't be understood."""
    failed = output.ended is Ended.TIMEOUT or (output.ended is Ended.ITSELF and output.status != 0)
    for sentence in complaints(output, command[0]) if failed or output.cut_bytes else ():
        tell(sentence)
    try:
        return replace(snapshot, client=report_of(tool, output, command, version)), int(failed)
    except LoadError as error:
        tell(str(error))
        return snapshot, 1


def complaints(output: Output, name: str) -> list[str]:
    """How the tool ended, and the end of what it complained of."""
    sentences = [f"{name} printed so much that {output.cut_bytes} bytes of it weren't kept."] if output.cut_bytes else []
    if output.ended is Ended.TIMEOUT:
        sentences.append(f"{name} was ended after {output.duration_s:.0f} s: --timeout gives it longer.")
    elif output.status < 0:
        sentences.append(f"{name} was killed by signal {-output.status}.")
    elif output.status:
        sentences.append(f"{name} ended with status {output.status}.")
    return [*sentences, *(f"{name}: {line}" for line in output.stderr.splitlines()[-5:] if line.strip())]


def _print(snapshot: Snapshot, arguments: argparse.Namespace) -> None:
    if arguments.json:
        show(document.to_json(snapshot))
        return
    show(client_text.render(snapshot, output_page()), end="")
    if snapshot.series:
        show("\n" + text.render(snapshot), end="")
