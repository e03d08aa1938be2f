# SPDX-License-Identifier: Apache-2.0
"""A recording as one HTML page that needs nothing beside itself: no script, no network, under 1 MB.

It follows the reader's choice of light or dark, fits a phone and paper, and says every plot's numbers in a table as well. What
targets chose (names, paths, reasons) is escaped by the template engine.
"""

from __future__ import annotations

import logging
from importlib import import_module

from ssllatency.errors import SsllatencyError
from ssllatency.model.recording import Recording
from ssllatency.model.statistics.comparison import Comparison

_NEEDED = ("jinja2", "matplotlib")


def page(recording: Recording, before: Recording | None = None, comparison: Comparison | None = None) -> str:
    """The page of a recording, or of what changed since the one `before`, drawn beside it from the same start.
    `comparison` is theirs where the caller has made it already.

    Raises SsllatencyError where a library that it is drawn with isn't installed, and where the recording's measurements can't
    be added up (model.arithmetic.snapshots.merge).
    """
    # It logs the folders that it creates and the fonts that it looks for, from the moment that it is imported.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    for name in _NEEDED:
        _need(name)
    # Only once what it imports is known to be installed.
    from ssllatency.reports.html import document as html_document

    return html_document.render(recording, before, comparison)


def _need(name: str) -> None:
    try:
        import_module(name)
    except ImportError:
        raise SsllatencyError(
            f"An HTML page is drawn with {name}, which isn't installed: `apt-get install python3-{name}`,"
            " or `pip install jinja2 matplotlib` in a virtual environment."
        ) from None
