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
    _check_needed()
    # Only once what it imports is known to be installed.
    from ssllatency.reports.html import document as html_document

    return html_document.render(recording, before, comparison)


def _check_needed() -> None:
    missing = [name for name in _NEEDED if not _is_installed(name)]
    if missing:
        packages = " ".join(f"python3-{name}" for name in missing)
        are = "aren't" if missing[1:] else "isn't"
        raise SsllatencyError(
            f"An HTML page is drawn with {' and '.join(missing)}, which {are} installed: `apt-get install {packages}`,"
            f" or `pip install {' '.join(missing)}` in a virtual environment."
        )


def _is_installed(name: str) -> bool:
    try:
        import_module(name)
    except ImportError:
        return False
    return True
