# SPDX-License-Identifier: Apache-2.0
"""Renders a measurement that was kept as JSON (`--json` of `ssllatency trace` and `handshakes`) as text."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ssllatency.cli.page import output_page
from ssllatency.errors import SsllatencyError
from ssllatency.model.snapshot import Snapshot
from ssllatency.reports import document, handshake_text, text

SUMMARY = "render a kept measurement as text"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument("file", metavar="FILE", help="a document of schema ssllatency/1, - for standard input")
    parser.add_argument("--by-process", action="store_true", help="a section for each process")
    parser.add_argument("--json", action="store_true", help="print the document again, checked")


def read(name: str) -> str:
    """The text in a file."""
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise SsllatencyError(f"{name} can't be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SsllatencyError(f"{name} holds no JSON document: `ssllatency trace --json` writes one.") from None


def run(arguments: argparse.Namespace) -> int:
    """Prints the report."""
    snapshot = document.from_json(read(arguments.file))
    if arguments.json:
        print(document.to_json(snapshot, by_process=arguments.by_process))
    else:
        print("\n".join(_reports(snapshot, arguments.by_process)), end="")
    return 0


def _reports(snapshot: Snapshot, by_process: bool) -> list[str]:
    """One for the handshakes where they were measured, one for the functions where they were."""
    handshakes = [handshake_text.render(snapshot, output_page())] if snapshot.handshakes else []
    functions = [text.render(snapshot, by_process=by_process)] if snapshot.series or not handshakes else []
    return [*handshakes, *functions]
