# SPDX-License-Identifier: Apache-2.0
"""Debian's kernels under QEMU: what each guest checked, and that its kernel had nothing to complain of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kernels import guests
from tests.kernels.conftest import CHOSEN
from tests.kernels.guests import Ended
from tests.kernels.plans import Plan
from tests.kernels.results import Outcome

pytestmark = pytest.mark.timeout(0)  # a guest has a limit of its own, and others may have to end before it begins


@pytest.mark.usefixtures("booted")
def test_a_kernel_that_falls_over_is_noticed(checkout: Path) -> None:
    """Otherwise no other test here would mean anything. The others' guests run meanwhile: this one takes half a minute."""
    plan = Plan("", CHOSEN[0].kernel, "", ("private stacks", "panic", "programs load"), 120)
    ended = guests.boot(plan, checkout)
    assert list(ended.results) == ["private stacks"]
    assert any("Kernel panic" in line for line in ended.complaints)
    assert "ended early" in ended.trouble


def test_check(plan: Plan, check: str, booted: Callable[[Plan], Ended]) -> None:
    ended = booted(plan)
    assert check in ended.results, f"not checked on Linux {ended.release}: {ended.trouble}"
    result = ended.results[check]
    assert result.outcome is not Outcome.FAILED, f"on Linux {ended.release}: {result.detail}"


def test_the_kernel_does_not_complain(plan: Plan, booted: Callable[[Plan], Ended]) -> None:
    ended = booted(plan)
    assert ended.trouble == ""
    assert ended.complaints == []
