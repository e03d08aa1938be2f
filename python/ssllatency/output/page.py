# SPDX-License-Identifier: Apache-2.0
"""The page (columns, characters) that standard output offers."""

from __future__ import annotations

import sys

from ssllatency.reports.text.page import WIDTH, Page

# Tables don't fit into fewer columns than this.
_NARROWEST = 80


def output_page() -> Page:
    """As wide as the terminal, within what reports are made for; beyond ASCII where its encoding is UTF-8."""
    from shutil import get_terminal_size  # takes a while to bring in, and is needed once there is a report

    columns = get_terminal_size((WIDTH, 0)).columns if sys.stdout.isatty() else WIDTH
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    return Page(min(WIDTH, max(_NARROWEST, columns)), unicode=encoding == "utf8")
