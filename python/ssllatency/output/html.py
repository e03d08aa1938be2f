# SPDX-License-Identifier: Apache-2.0
"""The option --html: a page in a file instead of a report on standard output."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from ssllatency.model.recording import Recording
from ssllatency.model.statistics.comparison import Comparison
from ssllatency.output import files as output_files
from ssllatency.output.printing import tell
from ssllatency.reports.html import page as html_page


def add_option(parser: argparse._MutuallyExclusiveGroup) -> None:
    """The option."""
    parser.add_argument("--html", metavar="FILE", help="write a self-contained HTML page to this file, and print no report")


def write(name: str, recording: Recording, before: Recording | None = None, comparison: Comparison | None = None) -> None:
    """Writes the page; a file of that name is overwritten. Raises SsllatencyError where it can't be made or written."""
    with _plain_matplotlib():
        page = html_page.page(recording, before, comparison)
    output_files.write(name, page)
    tell(f"{name} holds the page.")


@contextmanager
def _plain_matplotlib() -> Iterator[None]:
    """Keeps matplotlib, which is first imported within, from reading a configuration: it would take one from the current
    folder, the environment or the home folder, any of which may belong to another user, and a configuration can make it run
    TeX.

    It keeps a list of fonts in its folder; a new folder each time costs some 0.4 s.
    """
    here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    variables = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="ssllatency-html-") as empty:
        os.environ |= {"MATPLOTLIBRC": os.devnull, "MPLCONFIGDIR": empty, "MPLBACKEND": "svg"}
        os.chdir(empty)
        try:
            yield
        finally:
            os.fchdir(here)
            os.close(here)
            os.environ.clear()
            os.environ |= variables
