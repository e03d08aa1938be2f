# SPDX-License-Identifier: Apache-2.0
"""Renders a measurement that was kept as JSON (`ssllatency trace --json`) as text."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ssllatency.errors import SsllatencyError
from ssllatency.reports import document, text

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
        print(text.render(snapshot, by_process=arguments.by_process), end="")
    return 0
