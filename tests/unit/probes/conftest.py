# SPDX-License-Identifier: Apache-2.0
"""Assembling for the tests of the probes room, and this machine's own OpenSSL."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import programs
from tests.fixtures import build
from tests.unit.probes.assembled import Assembled, assemble, function

from ssllatency.elf.image import Image

FOLDER = Path("/usr/lib/x86_64-linux-gnu")


@pytest.fixture
def assembled(tmp_path: Path) -> Callable[[str], Assembled]:
    """Turns assembly text into a library."""
    if platform.machine() != "x86_64":
        pytest.skip("the functions are x86-64 code for the machine's own assembler")
    programs.needed(*build.TOOLS)
    return lambda text: assemble(tmp_path, text)


@pytest.fixture
def library(assembled: Callable[[str], Assembled]) -> Path:
    """A library with two functions of libssl."""
    body = "push %rbx\ncall other@PLT\npop %rbx\nret\n"
    return assembled("".join(function(name, body) for name in ("SSL_do_handshake", "SSL_read"))).path


def _system_image(name: str) -> Image:
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"needs {path} (Debian: apt-get install libssl3)")
    return Image.open(path)


@pytest.fixture(scope="session")
def libssl() -> Image:
    return _system_image("libssl.so.3")


@pytest.fixture(scope="session")
def libcrypto() -> Image:
    return _system_image("libcrypto.so.3")
