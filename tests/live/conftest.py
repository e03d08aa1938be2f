# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the live tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import programs
from tests.live.commands.trace import why_not
from tests.live.servers.nginx import KEYS, make_certificate

PROGRAMS = ("nginx", "openssl", "h2load", "wrk", "ab")


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the session's certificates, and a skip where a program of these tests is missing."""
    programs.needed(*PROGRAMS)
    directory = tmp_path_factory.mktemp("certificates")
    for kind in KEYS:
        make_certificate(kind, directory)
    return directory


@pytest.fixture(scope="session")
def tracing() -> None:
    """Skips where this machine can't trace, and says why."""
    if reason := why_not():
        pytest.skip(reason)


@pytest.fixture
def folder() -> Iterator[Path]:
    """For temporary files, where other users may go; empty again in the end."""
    with tempfile.TemporaryDirectory(prefix="ssllatency-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)
        assert list(Path(name).iterdir()) == []
