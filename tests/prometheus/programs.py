# SPDX-License-Identifier: Apache-2.0
"""The Prometheus programs that tests run: where each is, or why it isn't here. tools/for-tests/setup-prometheus makes them, and
`tools/for-tests/setup-collector prometheus` one with an OTLP receiver, instead of a suite's."""

from __future__ import annotations

import re
from pathlib import Path

from tests.foreign import Foreign, needed

TOP = Path(__file__).resolve().parents[2]
FOLDER = TOP / "build" / "prometheus"
# By suite of Debian: the packages that are unpacked. In bookworm promtool is part of the first.
PACKAGES = {"sid": ("prometheus", "promtool"), "bookworm": ("prometheus",)}
SUITES = tuple(PACKAGES)
NAMES = ("prometheus", "promtool")
WITH_OTLP = "with OTLP"


def program(name: str, suite: str = "sid") -> Foreign:
    """The program called `name`, one of NAMES: Prometheus 3 of Debian sid, or 2.42 of bookworm; the first WITH_OTLP, too."""
    path = _folder(suite) / "usr" / "bin" / name
    if versions(suite) and path.is_file():
        return Foreign(path)
    missing = FOLDER / f"{suite}.missing"
    if missing.exists():
        return Foreign(None, f"{name} of {suite} could not be had: {missing.read_text().strip()}")
    return Foreign(None, f"{name} of {suite} is not here: run tools/for-tests/setup-prometheus")


def _folder(suite: str) -> Path:
    return TOP / "build" / "collector" / "prometheus" if suite == WITH_OTLP else FOLDER / suite


def versions(suite: str) -> str:
    """What the suite's is made of, a package and its version a line; "" where it isn't there."""
    stamp = _folder(suite) / "packages"
    return stamp.read_text().strip() if stamp.is_file() else ""


def version(suite: str) -> tuple[int, ...]:
    """Of the suite's Prometheus; (0,) where it isn't here."""
    found = re.search(r"prometheus_([\d.]+)", versions(suite))
    return tuple(map(int, found[1].split("."))) if found else (0,)


def needed_program(name: str, suite: str = "sid") -> Path:
    """Its path; skips the test that asks where it isn't here."""
    return needed(program(name, suite))
