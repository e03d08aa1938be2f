# SPDX-License-Identifier: Apache-2.0
"""The invariants of tests/fuzz hold of some thousand inputs that are changed at random, and object where they are broken on
purpose."""

from __future__ import annotations

import json
import platform
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests import programs
from tests.fuzz import invariants, seeds
from tests.fuzz.running import changed
from tests.fuzz.targets import TARGETS
from tests.parameters import slow_except

from ssllatency.probes import planner
from ssllatency.probes.plan import OperationPlan
from ssllatency.probes.sites.operation import Planner

_SHARE = 4  # the tier of its own tries so many times as much


@pytest.fixture(autouse=True)
def _tools() -> None:
    if platform.machine() != "x86_64":
        pytest.skip("the functions are x86-64 code for the machine's own assembler")


@pytest.mark.parametrize("target", slow_except(TARGETS, "kept", "matrix"))
def test_invariants_hold_of_changed_seeds(target: str, tmp_path: Path) -> None:
    programs.needed(*TARGETS[target].programs)
    check, files = TARGETS[target].make(tmp_path)
    chance = random.Random(target)
    for file in files:
        check(file)
    for _ in range(min(4000, TARGETS[target].a_minute // _SHARE)):
        check(changed(chance.choice(files), chance)[: TARGETS[target].most_bytes])


def moved(plan: OperationPlan) -> OperationPlan:
    """Its first site, a push of one byte, moved to the midst of the next instruction."""
    first, *rest = plan.probes
    return replace(plan, probes=(replace(first, offset=first.offset + 2, address=first.address + 2), *rest))


def outside(plan: OperationPlan) -> OperationPlan:
    """Its first site where no function is."""
    first, *rest = plan.probes
    return replace(plan, probes=(replace(first, offset=first.offset - plan.address + 64, address=64), *rest))


@pytest.mark.parametrize("spoil", [moved, outside])
def test_a_planner_that_errs_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[OperationPlan], OperationPlan]
) -> None:
    """The second opinion leaves such operations out; without it the invariants object."""
    programs.needed(*seeds.TOOLS)
    plan = Planner.plan
    monkeypatch.setattr(Planner, "plan", lambda *arguments: spoil(plan(*arguments)))
    file = seeds.libraries(tmp_path)[0]
    reasons = {one.operation: one.reason for one in planner.plan_image(invariants.image_of(file)).missing}
    assert all("its site at" in reasons[name] for name in ("SSL_read", "SSL_do_handshake"))
    monkeypatch.setattr(planner.CodeEvidence, "add", lambda *_: None)
    with pytest.raises((AssertionError, invariants.FieldError)):
        invariants.check_plan(file)


def test_a_kept_plan_with_a_site_outside_of_its_code_is_refused(tmp_path: Path) -> None:
    programs.needed(*seeds.TOOLS)
    values: Any = json.loads(seeds.kept(tmp_path)[0])
    values["code"] = values["code"][1:]
    with pytest.raises(invariants.FieldError):
        invariants.codec.from_values(values, file_size=1 << 20)
