# SPDX-License-Identifier: Apache-2.0
"""What holds for all pure tests; the ELF files that tests of several rooms share, built once a run; and assembling."""

from __future__ import annotations

import errno
import gc
import platform
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests import programs, slow
from tests.fixtures import build
from tests.fixtures.assembled import Assembled, assemble

from ssllatency.engines import hit_cost
from ssllatency.tracing import hit_costs

# Thousands of tests stay until the end, and so does all that was imported for them: a search for garbage need not walk through
# them again and again, which took a seventh of the time.
gc.set_threshold(20_000, 20, 20)


def pytest_collection_finish() -> None:
    """Takes what is there by then out of the search for garbage."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves what takes most out of the inner loop."""
    slow.mark(items)


@pytest.fixture(autouse=True)
def nothing_attached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is measured on the kernel, as for a user who may not attach."""

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "not in a pure test")

    monkeypatch.setattr(hit_cost, "measure", refused)
    hit_costs.of_this_machine.cache_clear()


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    """A command that traces blocks the signals that end it until its process ends. Run within a test it would leave them
    blocked for the tests after it, and for every child that those start."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the files are built."""
    if platform.machine() != "x86_64":
        pytest.skip("the fixtures are built with the machine's own gcc and checked as x86-64 code")
    programs.needed(*build.TOOLS)
    return tmp_path_factory.mktemp("elf")


@pytest.fixture(scope="session")
def shapes(folder: Path) -> Path:
    """The shapes library with its symbol table."""
    return build.library(folder, "libshapes.so", build.SHAPES)


@pytest.fixture(scope="session")
def methods(folder: Path) -> Path:
    """The method tables, as a shared library with its symbol table."""
    return build.library(folder, "libmethods.so", ["methods.c"])


@pytest.fixture(scope="session")
def provider(folder: Path) -> Path:
    """The providers, as a shared library with its symbol table."""
    return build.library(folder, "libprovider.so", ["provider.c"])


@pytest.fixture
def assembled(tmp_path: Path) -> Callable[[str], Assembled]:
    """Turns assembly text into a library."""
    if platform.machine() != "x86_64":
        pytest.skip("the functions are x86-64 code for the machine's own assembler")
    programs.needed(*build.TOOLS)
    return lambda text: assemble(tmp_path, text)
