# SPDX-License-Identifier: Apache-2.0
"""The ELF files that the tests of the elf room share, built once a run."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
from tests import programs
from tests.fixtures import build


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
