# SPDX-License-Identifier: Apache-2.0
"""A trace that waits: nobody who does TLS is there when it begins, and each handshake is counted from the first one on, or what
was missed is counted."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import machine
from tests.live.clients.bad import context
from tests.live.clients.counted import TLS_1_3
from tests.live.commands.trace import PROGRAM, Trace, count, losses
from tests.live.following.test_follow import TraceHandshakes
from tests.live.servers import debian as programs
from tests.live.servers.debian import Running
from tests.live.servers.late import late
from tests.live.servers.nginx import make_certificate
from tests.live.servers.roots import future_cgroup, within_cgroup
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("tracing")
CONNECTIONS = 40


@pytest.fixture
def dovecot(certificates: Path) -> Iterator[Running]:
    with programs.dovecot(make_certificate("ecdsa", certificates)) as running:
        yield running


def log_out(port: int, number: int) -> None:
    """So many connections, one after the other, each with one command and seen to its very end."""
    for _ in range(number):
        with context(TLS_1_3).wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=20)) as tls:
            assert tls.recv(4096).startswith(b"* OK")
            tls.sendall(b"a LOGOUT\r\n")
            while tls.recv(4096):
                pass


@pytest.mark.parametrize("by", ["pid", "comm"])
def test_the_first_handshake_of_a_process_for_each_connection_counts(dovecot: Running, by: str) -> None:
    """Attached by what the master, or this host, has for libraries."""
    targets, options = ((dovecot.pid,), ()) if by == "pid" else ((), ("--comm", "imap-login"))
    with Trace(*targets, options=(*options, "--wait", "--by-process")) as trace:
        log_out(dovecot.port, CONNECTIONS)
        wait_for(lambda: dovecot.told() == {"handshakes": CONNECTIONS})
    assert count(trace.document, "SSL_do_handshake") == CONNECTIONS
    assert losses(trace.document) == {}
    assert [note for note in trace.document["notes"] if "The probes cost " not in note] == []
    served = {row["pid"] for row in trace.document["functions"] if row["function"] == "SSL_do_handshake"}
    assert len(served) == CONNECTIONS
    assert {one["comm"] for one in trace.document["targets"] if one["pid"] in served} == {"imap-login"}


def test_handshakes_name_processes_that_are_gone(dovecot: Running) -> None:
    with TraceHandshakes(dovecot.pid, options=("--wait", "--by", "process")) as trace:
        log_out(dovecot.port, CONNECTIONS)
        wait_for(lambda: dovecot.told() == {"handshakes": CONNECTIONS})
    groups = trace.document["handshakes"]["groups"]
    assert [group["parts"]["wall"]["count"] for group in groups] == [1] * CONNECTIONS
    assert {group["labels"]["process"].partition("(")[0] for group in groups} == {"imap-login"}


@pytest.mark.parametrize("target", [("-p", "{pid}"), ("--comm", "imap-login")])
def test_who_may_come_later_is_said_to_be_waited_for(dovecot: Running, target: tuple[str, str]) -> None:
    command = [PROGRAM, "trace", *(word.format(pid=dovecot.pid) for word in target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "--wait" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    """A folder with copies of OpenSSL, which no other process maps."""
    for name in ("libssl.so.3", "libcrypto.so.3"):
        if not (machine.LIBRARIES / name).exists():
            pytest.skip(f"no {name} where Debian has it")
        shutil.copy(machine.LIBRARIES / name, tmp_path)
    return tmp_path


def test_who_ended_before_its_library_could_be_traced_is_a_loss(copies: Path) -> None:
    """Each of the programs is gone some milliseconds after it has mapped what nobody could expect."""
    script = f"read go; for i in 1 2 3 4 5; do LD_LIBRARY_PATH={copies} openssl version; done; read end"
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
        with Trace(shell.pid, options=("--wait",)) as trace:
            assert shell.stdin
            assert shell.stdout
            shell.stdin.write("go\n")
            shell.stdin.flush()
            for _ in range(5):
                assert shell.stdout.readline().startswith("OpenSSL")
            time.sleep(1)  # several looks: what was mapped is looked into after its process has ended
        shell.communicate("end\n")
    assert set(losses(trace.document)) == {"late_processes"}
    assert 1 <= losses(trace.document)["late_processes"] <= 5


def test_a_library_that_nobody_maps_yet(certificates: Path, copies: Path) -> None:
    with Trace(options=("--library", str(copies / "libssl.so.3"), "--wait")) as trace:
        for number in (3, 2):
            with late(certificates, "env", f"LD_LIBRARY_PATH={copies}") as server:
                server.do("load")
                server.do(f"serve {number}", number)
    assert count(trace.document, "SSL_do_handshake") == 5
    assert losses(trace.document) == {}


def test_the_time_begins_with_the_first_arrival(certificates: Path, copies: Path) -> None:
    """It ends by itself, and not before what comes later than it would have lasted."""
    with Trace(options=("--library", str(copies / "libssl.so.3"), "--wait", "-d", "1.5")) as trace:
        time.sleep(3)
        assert trace.is_running
        with late(certificates, "env", f"LD_LIBRARY_PATH={copies}") as server:
            server.do("load")
            server.do("serve 1", 1)
            wait_for(lambda: not trace.is_running)
    assert count(trace.document, "SSL_do_handshake") == 1


@pytest.fixture
def place() -> Iterator[Path]:
    """Where a cgroup may be made, whose name is that of a container."""
    with future_cgroup(f"docker-{os.urandom(32).hex()}.scope") as folder:
        yield folder


def test_a_cgroup_that_is_made_later(certificates: Path, place: Path) -> None:
    with late(certificates) as outside, Trace(options=("--cgroup", str(place), "--wait")) as trace:
        outside.do("load")
        outside.do("serve 2", 2)
        place.mkdir()
        time.sleep(0.5)  # it is seen that it is there
        for number in (3, 4):
            with late(certificates, *within_cgroup(place)) as server:
                server.do("load")
                server.do(f"serve {number}", number)
    assert count(trace.document, "SSL_do_handshake") == 7
    assert losses(trace.document) == {}


def test_a_container_that_starts_later(certificates: Path, place: Path) -> None:
    """Who was found by looking, which takes up to a second, may have called before: that is told as a loss."""
    container = place.name.removeprefix("docker-").removesuffix(".scope")
    with Trace(options=("--container", container[:12], "--wait")) as trace:
        place.mkdir()
        with late(certificates, *within_cgroup(place)) as server:
            server.do("load")
            trace.wait_until_said("libssl")
            server.do("serve 3", 3)
            server.do("fork 2", 2)
    assert count(trace.document, "SSL_do_handshake") == 5
    assert losses(trace.document) == {"late_processes": 1}
