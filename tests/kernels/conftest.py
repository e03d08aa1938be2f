# SPDX-License-Identifier: Apache-2.0
"""Each guest is booted once, when the first test asks what one found; as many run at the same time as there are processors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.kernels import guests
from tests.kernels.guests import Ended
from tests.kernels.images import make_checkout
from tests.kernels.machine import FOLDER, guest_architecture, why_not
from tests.kernels.plans import Plan, plans

ARCHITECTURE = guest_architecture()
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
def booted(checkout: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[Plan], Ended]]:
    """What the guest of a plan found. All guests that this run asks for are booted; an emulated one takes one processor."""
    asked = [plan for plan in CHOSEN if any(_parameters(item).get("plan") is plan for item in request.session.items)]

    def boot(plan: Plan) -> Ended:
        ended = guests.boot(plan, checkout)
        guests.keep(plan, ended)
        return ended

    pool = ThreadPoolExecutor(os.cpu_count())
    running = {plan: pool.submit(boot, plan) for plan in asked if plan.kernel.release}

    def wait_for(plan: Plan) -> Ended:
        if plan not in running:
            pytest.fail(f"there is no kernel {plan.kernel.name}: run tools/for-tests/setup-kernels {plan.kernel.name}")
        return running[plan].result()

    yield wait_for
    pool.shutdown(cancel_futures=True)


def _parameters(item: pytest.Item) -> dict[str, object]:
    return item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
