# SPDX-License-Identifier: Apache-2.0
"""The option --html: a page in a file instead of a report on standard output."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ssllatency.errors import SsllatencyError
from ssllatency.model.comparison import Comparison
from ssllatency.model.recording import Recording
from ssllatency.reports import html_page


def add_option(parser: argparse._MutuallyExclusiveGroup) -> None:
    """The option."""
    parser.add_argument("--html", metavar="FILE", help="write a self-contained HTML page to this file, and print no report")


def write(name: str, recording: Recording, before: Recording | None = None, comparison: Comparison | None = None) -> None:
    """Writes the page; a file of that name is overwritten. Raises SsllatencyError where it can't be made or written."""
    page = html_page.page(recording, before, comparison)
    try:
        Path(name).write_text(page, encoding="utf-8")
    except OSError as error:
        raise SsllatencyError(f"{name} can't be written: {error.strerror}.") from None
    print(f"ssllatency: {name} holds the page.", file=sys.stderr)
