# SPDX-License-Identifier: Apache-2.0
"""Each guest is booted once, when the first test asks what it found."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kernels import guests
from tests.kernels.guests import Ended
from tests.kernels.images import make_checkout
from tests.kernels.machine import FOLDER, native_architecture, why_not
from tests.kernels.plans import Plan, plans

ARCHITECTURE = os.environ.get("SSLLATENCY_GUEST", native_architecture())
CHOSEN = plans(os.environ.get("SSLLATENCY_KERNELS", "ci"), ARCHITECTURE, os.environ.get("SSLLATENCY_CHECKS", ""))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each check of each guest, and one for each guest as a whole."""
    if "check" in metafunc.fixturenames:
        pairs = [pytest.param(plan, check, id=f"{plan.name} {check}") for plan in CHOSEN for check in plan.checks]
        metafunc.parametrize(("plan", "check"), pairs)
    elif "plan" in metafunc.fixturenames:
        metafunc.parametrize("plan", [pytest.param(plan, id=plan.name) for plan in CHOSEN])


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image of this checkout, for every guest."""
    if reason := why_not(ARCHITECTURE):
        pytest.skip(reason)
    image = tmp_path_factory.mktemp("checkout") / "checkout.ext4"
    make_checkout(ARCHITECTURE, FOLDER / ARCHITECTURE / "site", image)
    return image


@pytest.fixture(scope="session")
def booted(checkout: Path) -> Callable[[Plan], Ended]:
    """Boots the guest of a plan; what it found."""

    @functools.cache
    def boot(plan: Plan) -> Ended:
        if not plan.kernel.release:
            pytest.fail(f"there is no kernel {plan.kernel.name}: run tools/setup-kernels {plan.kernel.name}")
        ended = guests.boot(plan, checkout)
        guests.keep(plan, ended)
        return ended

    return boot
