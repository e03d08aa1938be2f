# SPDX-License-Identifier: Apache-2.0
"""Handshakes that aren't made as usual: by SSL_read, by SSL_accept, on both sides of one process, again, never to the end, in
calls that sleep, more of them than there is room for, begun before they were looked at."""

from __future__ import annotations

import contextlib
import resource
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .async_servers import Fibers, build_fibers
from .bad_clients import HALF_A_HELLO, hello
from .clients import TLS_1_2, TLS_1_3, Client, h2load
from .servers import Nginx, Settings, make_certificate
from .shakes import Shakes, assert_books, endings, labels_of
from .test_outcomes import BOTH_SIDES
from .tls_servers import TlsServer, TlsSettings

pytestmark = pytest.mark.usefixtures("tracing")
TIMES = 10


@pytest.fixture(scope="session")
def shaker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of shaker.c."""
    program = tmp_path_factory.mktemp("shaker") / "shaker"
    flags = ["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-o", program]
    subprocess.run(["cc", *flags, Path(__file__).with_name("shaker.c"), "-lssl", "-lcrypto"], check=True)
    return program


@contextlib.contextmanager
def obedient(*command: object) -> Iterator[tuple[int, Callable[[str], None]]]:
    """A program that says "ready", then "done" for each line: its PID, and what gives it one."""
    with subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "ready\n"

        def do(line: str) -> None:
            assert process.stdin
            assert process.stdout
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n"

        yield process.pid, do
        process.communicate()


@contextlib.contextmanager
def shaking(program: Path, certificates: Path) -> Iterator[tuple[int, Callable[[str], None]]]:
    """The program of shaker.c, with its certificate."""
    pair = make_certificate("ecdsa", certificates)
    with obedient(program, pair.certificate, pair.key) as found:
        yield found


@pytest.mark.parametrize(("role", "sides"), [("server", 1), ("client", 1), ("any", 2)])
@pytest.mark.parametrize("how", ["accept", "io", "again", "update"])
def test_ways_to_shake_hands(certificates: Path, shaker: Path, how: str, role: str, sides: int) -> None:
    """Once each, on each side that is asked for; new keys for an old connection are no handshake."""
    with shaking(shaker, certificates) as (pid, do), Shakes(pid, options=("--role", role)) as shakes:
        do(f"{how} {TIMES}")
    times = TIMES * (2 if how == "again" else 1)
    assert endings(shakes.document) == {"success": times * sides}
    roles = ["server", "client"] if role == "any" else [role]
    assert Counter(labels_of(shakes.singles, "role")) == {(one,): times for one in roles}
    assert shakes.document["handshakes"]["in_flight"] == 0
    assert_books(shakes)
