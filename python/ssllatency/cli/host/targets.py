# SPDX-License-Identifier: Apache-2.0
"""Lists the processes on this host that do TLS: their containers and ports, the TLS implementation with its version, how it is
linked, and whether it can be traced. Attaches nothing, unless it is to count handshakes for a while; without root it lists what
it may read, and says what it couldn't."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ssllatency.cli import options
from ssllatency.engines.doctor import typed_program
from ssllatency.errors import SsllatencyError
from ssllatency.output.page import output_page
from ssllatency.output.printing import show, tell, tell_line
from ssllatency.reports.text.page import Page
from ssllatency.reports.words.marks import FAILURE, FINDING
from ssllatency.targets import Selection, Survey, listing, select, survey
from ssllatency.tracing.file_facts import KnownFiles
from ssllatency.units import printable, rate, share

if TYPE_CHECKING:
    from ssllatency.tracing.first_look import FirstLook, Seen

SUMMARY = "list the processes that use TLS, in which container, and whether they can be traced"
EXAMPLES = (
    ("ssllatency targets", "every process on this host that uses TLS"),
    ("ssllatency targets --container web --json", "of one container, as JSON"),
    ("ssllatency targets -d 10s", "how many handshakes each makes, and the certificates that it serves"),
)
_GOES = ("LINKED", "CONTAINER", "LISTENS")  # columns that are left out where there is no room, the first first
_LOOK_S = 2.0
_MOST_LOOKED_AT = 32  # families of processes
_RATES = ("PID", "PROCESS", "HANDSHAKES/S", "FAILED")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    options.add_target_options(parser)
    parser.add_argument(
        "-d", "--duration", type=options.seconds, metavar="TIME",
        help="also count handshakes of listening processes for this long, with probes that are removed afterwards: how many "
        "a second, how many failed, and which certificates were served",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON, schema ssllatency-targets/1")


def run(arguments: argparse.Namespace) -> int:
    """Prints the list; 0 also where it is empty."""
    surveyed = _surveyed(options.selection(arguments))
    if not arguments.json:
        _print(surveyed)
    families = _listening(surveyed) if arguments.duration else []
    if arguments.duration and not families:
        tell("no process that listens can be traced, so no handshakes are counted.")
    look = _look(families, arguments.duration) if families else None
    if arguments.json:
        seen = {"seen": document(look)} if look else {}
        show(json.dumps(listing.to_document(surveyed, os.uname().nodename) | seen))
    elif look:
        _print_look(families, look)
    return 0


def run_alone() -> int:
    """Do what `ssllatency` alone does: the list, and the line to type next; on a terminal, where it may trace, also the rates
    of handshakes."""
    surveyed = _surveyed(Selection())
    _print(surveyed)
    families = [family for family in listing.families(surveyed) if _is_traced(family)]
    seen = _first_look(surveyed) if sys.stdout.isatty() else {}
    busiest = max(families, key=lambda family: _seen_of(family, seen)[0], default=None)
    show("\n".join(["", *_next_lines(busiest)]))
    return 0


def _surveyed(selection: Selection) -> Survey:
    processes = select(Selection(everything=True) if selection == Selection() else selection, problem=_left_out)
    files = KnownFiles()
    surveyed = survey(processes, files.describe)
    files.save()
    return replace(surveyed, unread=(*surveyed.unread, *files.unlooked))


def _left_out(_: SsllatencyError) -> None:
    """Called for a process that may not be searched for a library: the survey counts it."""


def _print(surveyed: Survey) -> None:
    page = output_page()
    show("\n\n".join("\n".join(block) for block in blocks(surveyed, page)), colour=page.colour)


def blocks(surveyed: Survey, page: Page) -> list[list[str]]:
    """The table, and sentences for what it doesn't show; what can't be traced stands out."""
    rows = [tuple(printable(cell) for cell in row) for row in listing.rows(surveyed)]
    heading, *lines = page.fitted([listing.HEADINGS, *rows], listing.LEFT, _GOES)
    untraced = [row[-1] != "yes" for row in rows]
    marked = [page.marked(line, FAILURE) if no else line for line, no in zip(lines, untraced, strict=True)]
    sentences = [page.wrapped(sentence, hanging="  ") for sentence in listing.sentences(surveyed)]
    return [
        [heading, *marked] if rows else ["No process that does TLS was found."],
        *([page.marked(line, FINDING) for line in lines] for lines in sentences),
    ]


def _is_traced(family: listing.ProcessFamily) -> bool:
    return any(not stack.why_not for stack in family.first.stacks)


def _listening(surveyed: Survey) -> Sequence[listing.ProcessFamily]:
    """Those that listen and can be traced, as many as are looked at; says how many more there are."""
    families = [family for family in listing.families(surveyed) if _is_traced(family) and family.first.listens]
    if len(families) > _MOST_LOOKED_AT:
        tell(f"the handshakes of {len(families) - _MOST_LOOKED_AT} of them aren't counted.")
    return families[:_MOST_LOOKED_AT]


def _first_look(surveyed: Survey) -> Mapping[int, Seen]:
    """Traces the handshakes of those that listen for a moment, where that is possible, and prints what it has seen."""
    if not (families := _listening(surveyed)):
        return {}
    if os.geteuid() != 0:
        tell("run it as root to see their handshakes per second as well.")
        return {}
    try:
        look = _look(families, _LOOK_S)
    except SsllatencyError as error:  # one of them has ended, or this machine can't trace
        tell(str(error))
        return {}
    _print_look(families, look)
    return look.by_process


def _look(families: Sequence[listing.ProcessFamily], seconds: float) -> FirstLook:
    """Return what they do within so many seconds."""
    from ssllatency.tracing import first_look

    parser = argparse.ArgumentParser()
    options.add_measuring_options(parser)
    options.add_attaching_options(parser)
    options.add_budget_options(parser)
    measuring = parser.parse_args(["--by", "process", "--max-groups", str(first_look.MOST_ROWS)])
    tell_line(f"Counting their handshakes for {seconds:g} s, with probes that are then removed ... Ctrl-C ends it sooner.")
    return first_look.look([pid for family in families for pid in family.pids], measuring, seconds)


def document(look: FirstLook) -> dict[str, Any]:
    """Return what was seen of handshakes, as plain data."""
    from ssllatency.reports.documents.certificates import certificate_fields

    rates = [
        {"pid": pid or None, "handshakes_per_second": seen.rate, "failed_per_second": seen.failed}
        for pid, seen in look.by_process.items()
    ]
    return {
        "duration_s": look.duration_s,
        "processes": rates,
        **(certificate_fields(look.handshakes) if look.handshakes else {}),
    }


def _print_look(families: Sequence[listing.ProcessFamily], look: FirstLook) -> None:
    from ssllatency.reports.text.handshakes.certificates import certificates
    from ssllatency.tracing import first_look

    seen = look.by_process
    other = first_look.OTHER in seen
    rows = [
        (listing.shown_pid(family), family.first.process.comm, _rate(number, known=not other), share(failed, number))
        for family in families
        for number, failed in [_seen_of(family, seen)]
    ]
    page = output_page()
    heading, *lines = page.fitted([_RATES, *rows], 2)
    failed = [_seen_of(family, seen)[1] > 0 for family in families]
    marked = [page.marked(line, FAILURE) if bad else line for line, bad in zip(lines, failed, strict=True)]
    served = certificates(look.handshakes, page) if look.handshakes else []
    show("\n".join(["", heading, *marked, *(["", *served] if served else [])]), colour=page.colour)
    if other:
        tell(f"{rate(seen[first_look.OTHER].rate)} handshakes a second aren't in the table: there are too many processes.")


def _rate(number: float, *, known: bool) -> str:
    """Handshakes a second; none isn't known where some weren't told apart."""
    return rate(number) if number or known else "-"


def _seen_of(family: listing.ProcessFamily, seen: Mapping[int, Seen]) -> tuple[float, float]:
    """The handshakes a second of a family, and how many of these failed."""
    of_family = [seen[pid] for pid in family.pids if pid in seen]
    return sum(process.rate for process in of_family), sum(process.failed for process in of_family)


def _next_lines(family: listing.ProcessFamily | None) -> list[str]:
    program = shlex.quote(typed_program())
    sudo = program if os.geteuid() == 0 else f"sudo {program}"
    if family is None:
        return ["Next:", f"  {program} help             # all commands"]
    pid, name = family.first.process.pid, printable(family.first.process.comm)
    lines = {
        f"{sudo} handshakes -p {pid} -d 10s": f"where the time of {name}'s handshakes goes",
        f"{sudo} trace -p {pid} -d 10s": "how long its TLS functions take",
        f"{program} help": "all commands",
    }
    width = max(map(len, lines))
    return ["Next:", *(f"  {line:{width}}  # {what}" for line, what in lines.items())]
