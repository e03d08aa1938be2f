# SPDX-License-Identifier: Apache-2.0
"""The pure tests that `make test-quick` leaves to `make test`, beside those that are marked: the list of those that took most
when `tests/run.py slow` measured all of them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

LISTED = Path(__file__).parent / "unit" / "slow.txt"
QUICK_S = 90.0  # of processor time, which all tests that aren't listed may take together
_TOOK = re.compile(r"(\d+\.\d+)s (?:setup|call|teardown) +(tests/\S+?\.py::\w+)")


def choose(durations: str, quick_s: float = QUICK_S) -> list[str]:
    """Return the tests to list, by name, each with all its parameters: as few as leave no more than `quick_s` seconds to the
    others. `durations`: what pytest prints of all tests with `--durations=0`."""
    took: defaultdict[str, float] = defaultdict(float)
    for seconds, test in _TOOK.findall(durations):
        took[test] += float(seconds)
    left, chosen = sum(took.values()), []
    for test in sorted(took, key=lambda test: -took[test]):
        if left <= quick_s:
            break
        chosen.append(test)
        left -= took[test]
    return sorted(chosen)


def listed() -> set[str]:
    """The names of the listed tests."""
    return set(LISTED.read_text().split())


def mark(items: Sequence[pytest.Item]) -> None:
    """Marks those that are listed as slow."""
    slow = listed()
    for item in items:
        if item.nodeid.partition("[")[0] in slow:
            item.add_marker("slow")
