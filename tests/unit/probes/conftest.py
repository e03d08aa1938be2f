# SPDX-License-Identifier: Apache-2.0
"""A library to plan, and this machine's own OpenSSL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fixtures.assembled import Assembled, function

from ssllatency.elf.image import Image

FOLDER = Path("/usr/lib/x86_64-linux-gnu")


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
