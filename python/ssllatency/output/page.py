# SPDX-License-Identifier: Apache-2.0
"""The page (columns, characters) that standard output offers."""

from __future__ import annotations

import os
import sys

from ssllatency.output.printing import told
from ssllatency.reports.text.page import WIDTH, Page

# Tables don't fit into fewer columns than this.
_NARROWEST = 80


def output_page(*, verbose: bool = False) -> Page:
    """Return a page as wide as the terminal, within what reports are made for; beyond ASCII where its encoding is UTF-8. What
    isn't a terminal gets lines as long as they are, without colours. What stands on the same terminal already isn't said again,
    unless `verbose` asks for all."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    unicode, columns = encoding == "utf8", _columns()
    if columns is None:
        return Page(unicode=unicode, verbose=verbose)
    seen = frozenset() if verbose or not sys.stderr.isatty() else told()
    return Page(min(WIDTH, columns), unicode, _shows_colours(), columns, verbose, seen)


def _columns() -> int | None:
    """The terminal's, but no fewer than reports can be made for; None where it is none."""
    from shutil import get_terminal_size  # takes a while to bring in, and is needed once there is a report

    return max(_NARROWEST, get_terminal_size((WIDTH, 0)).columns) if sys.stdout.isatty() else None


def _shows_colours() -> bool:
    """Whether the terminal does, and the user wants them: https://no-color.org."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") not in ("", "dumb")
