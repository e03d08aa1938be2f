# SPDX-License-Identifier: Apache-2.0
"""Lists the processes on this host that do TLS: their containers and ports, the TLS implementation with its version, how it is
linked, and whether it can be traced. Attaches nothing; without root it lists what it may read, and says what it couldn't."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace

from ssllatency.cli import options
from ssllatency.errors import SsllatencyError
from ssllatency.output.printing import show
from ssllatency.reports.text.page import table, wrapped
from ssllatency.reports.words.units import printable
from ssllatency.targets import Selection, Survey, listing, select, survey
from ssllatency.tracing.file_facts import KnownFiles

SUMMARY = "list what does TLS on this host, in which container, and whether it can be traced"
EXAMPLES = (
    ("ssllatency targets", "everything on this host that does TLS"),
    ("ssllatency targets --container web --json", "of one container, as JSON"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    options.add_target_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, schema ssllatency-targets/1")


def run(arguments: argparse.Namespace) -> int:
    """Prints the list; 0 also where it is empty."""
    selection = options.selection(arguments)
    processes = select(Selection(everything=True) if selection == Selection() else selection, problem=_left_out)
    files = KnownFiles()
    surveyed = survey(processes, files.describe)
    files.save()
    surveyed = replace(surveyed, unread=(*surveyed.unread, *files.unlooked))
    if arguments.json:
        show(json.dumps(listing.to_document(surveyed, os.uname().nodename)))
    else:
        _print(surveyed)
    return 0


def _left_out(_: SsllatencyError) -> None:
    """Called for a process that may not be searched for a library: the survey counts it."""


def _print(surveyed: Survey) -> None:
    rows = [tuple(printable(cell) for cell in row) for row in listing.rows(surveyed)]
    show("\n".join(table([listing.HEADINGS, *rows], left=listing.LEFT)) if rows else "No process that does TLS was found.")
    for sentence in listing.sentences(surveyed):
        show("\n".join(["", *wrapped(sentence, hanging="  ")]))
