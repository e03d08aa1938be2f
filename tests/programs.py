# SPDX-License-Identifier: Apache-2.0
"""Programs that tests run and that a package brings. Where one isn't installed the test is skipped, in CI a failure
(conftest.py)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

_PLACES = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin"))


def needed(*names: str) -> list[str]:
    """Where these programs are; skips the test that asks, with the names of those that aren't installed."""
    found = {name: shutil.which(name, path=_PLACES) for name in names}
    missing = [name for name, place in found.items() if place is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    return [place for place in found.values() if place]


def java_machines() -> list[Path]:
    """The Java virtual machines, where Debian installs each."""
    return sorted({java.resolve() for java in Path("/usr/lib/jvm").glob("*/bin/java")})


def path(name: str) -> str:
    """Where this one is."""
    return needed(name)[0]
