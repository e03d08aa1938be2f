# SPDX-License-Identifier: Apache-2.0
"""The ELF files that tests of several rooms share, built once a run; and assembling."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import programs
from tests.fixtures import build
from tests.fixtures.assembled import Assembled, assemble


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
