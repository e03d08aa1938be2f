# SPDX-License-Identifier: Apache-2.0
"""A library on a file system in user space (FUSE) whose server doesn't answer: a look at all processes doesn't wait for it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.commands.trace import PROGRAM, Trace, count
from tests.live.servers.file_systems import needs_file_system, openssl_in
from tests.live.servers.late import Late, late
from tests.live.servers.user_space import in_user_space

pytestmark = pytest.mark.usefixtures("tracing")
TIMES = 5


@pytest.fixture
def served(certificates: Path, tmp_path: Path) -> Iterator[tuple[Late, subprocess.Popen[str]]]:
    """A server whose libssl is on such a file system, and who answers for that."""
    needs_file_system("fuse")
    openssl_in(tmp_path / "own")
    folder = tmp_path / "mounted"
    with in_user_space(tmp_path / "own", folder) as answering, late(certificates, "env", f"LD_LIBRARY_PATH={folder}") as server:
        server.do("load")
        server.do("serve 1", 1)
        yield server, answering


def test_a_process_that_is_named_is_traced(served: tuple[Late, subprocess.Popen[str]]) -> None:
    server, _ = served
    with Trace(server.process.pid) as trace:
        server.do(f"serve {TIMES}", TIMES)
    assert count(trace.document, "SSL_do_handshake") == TIMES


def test_nobody_waits_for_a_server_that_does_not_answer(served: tuple[Late, subprocess.Popen[str]]) -> None:
    server, answering = served
    answering.send_signal(signal.SIGSTOP)
    try:
        with Trace(options=("--all",)) as trace:
            trace.wait_until_said(f"name the process (-p {server.process.pid})")
        shown = subprocess.run([PROGRAM, "targets"], capture_output=True, text=True, timeout=60, check=False)
    finally:
        answering.send_signal(signal.SIGCONT)
    assert shown.returncode == 0
