# SPDX-License-Identifier: Apache-2.0
"""A library on a file system in user space (FUSE) whose server doesn't answer: a look at all processes doesn't wait for it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copy

import pytest

from ssllatency.elf.image import Image
from tests.live.commands.trace import PROGRAM, Trace, count
from tests.live.servers.file_systems import host_libraries, needs_file_system, openssl_in
from tests.live.servers.late import Late, late
from tests.live.servers.user_space import in_user_space

pytestmark = pytest.mark.usefixtures("tracing")
TIMES = 5


@contextmanager
def lying(certificates: Path, folder: Path, lie: str) -> Iterator[Late]:
    """A server whose libssl is on such a file system, of which ssllatency is told something else."""
    needs_file_system("fuse")
    openssl_in(folder / "own")
    with (
        in_user_space(folder / "own", folder / "mounted", lie),
        late(certificates, "env", f"LD_LIBRARY_PATH={folder}/mounted") as server,
    ):
        server.do("load")
        server.do("serve 1", 1)
        yield server


def with_another_end(library: Path, folder: Path) -> None:
    """A copy in the folder in which SSL_read returns where an instruction of the library isn't over."""
    folder.mkdir()
    content = bytearray(library.read_bytes())
    function = Image.open(library).own_function("SSL_read")
    assert function
    code = slice(function.address, function.address + function.size)
    assert content[code].startswith(bytes.fromhex("4883ec18")), "sub $0x18,%rsp"
    content[code] = bytes.fromhex("90c3").ljust(function.size, b"\x90")  # nop; ret
    (folder / library.name).write_bytes(content)


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


@pytest.mark.parametrize("lie", ["fickle", "shrinking", "short", "failing"])
def test_a_file_that_answers_differently_each_time_is_a_sentence(certificates: Path, tmp_path: Path, lie: str) -> None:
    with lying(certificates, tmp_path, lie) as server:
        done = subprocess.run(
            [PROGRAM, "handshakes", "-p", str(server.process.pid), "-d", "1", "--no-cache"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    assert done.stderr.strip()
    assert "Traceback" not in done.stderr
    assert "defect" not in done.stderr
    if lie != "shrinking":  # a size isn't told to one reader alone
        assert server.process.returncode == 0  # who runs the file was told the truth, and came to no harm


def test_no_probe_is_set_inside_an_instruction_of_who_is_told_other_code(certificates: Path, tmp_path: Path) -> None:
    with_another_end(host_libraries()[0], tmp_path / "told")
    copy(host_libraries()[1], tmp_path / "told")
    with lying(certificates, tmp_path, str(tmp_path / "told")) as server:
        done = subprocess.run(
            [PROGRAM, "trace", "-p", str(server.process.pid), "-d", "2", "--no-cache"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        server.do(f"serve {TIMES}", TIMES)
    assert done.returncode == 1
    assert "was overwritten" in done.stderr
