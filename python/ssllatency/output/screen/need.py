# SPDX-License-Identifier: Apache-2.0
"""Whether Textual, which draws the full screen, is installed. It is imported only once the probes are attached."""

from __future__ import annotations

import os
import shlex
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from ssllatency.errors import SsllatencyError

_OLDEST, _NEWER = 8, 9  # as pyproject.toml has it


def need_textual() -> None:
    """SsllatencyError where it isn't there, or is another version than the screen is made for."""
    spec = find_spec("textual")
    if spec is None or spec.origin is None:
        raise SsllatencyError(f"The full screen is drawn with Textual, which isn't installed: {_advice()}")
    # Beside the module that is imported: another version may be elsewhere. In ssllatency's own packages, which bring the right
    # one along, no part has metadata.
    folder = str(Path(spec.origin).parent.parent)
    for distribution in metadata.distributions(name="textual", path=[folder]):
        if not _OLDEST <= int(distribution.version.partition(".")[0]) < _NEWER:
            raise SsllatencyError(f"The full screen is drawn with Textual {_OLDEST}, not {distribution.version}: {_advice()}")


def _advice() -> str:
    """Name what there is to install, and into which Python; --plain needs nothing."""
    needed = f"'textual>={_OLDEST},<{_NEWER}'"
    if sys.prefix != sys.base_prefix:
        return f"`{shlex.quote(sys.executable)} -m pip install {needed}`, or add --plain to print lines."
    return f"add --plain to print lines, or run ssllatency in a virtual environment with it: `pip install {needed}`."


def forget_settings() -> None:
    """Removes Textual's own variables from the environment: they name modules to import and files to write, and root may have
    been given them by another user."""
    for name in [name for name in os.environ if name.startswith("TEXTUAL")]:
        del os.environ[name]
