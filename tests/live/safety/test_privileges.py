# SPDX-License-Identifier: Apache-2.0
"""Tracing without root: another user with no more than the capabilities that privileges.md names, and what is said where
one of them is missing."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import foreign
from tests.deploy import rights
from tests.live.clients.counted import TLS_1_3, Client
from tests.live.commands.trace import PROGRAM, Trace, count
from tests.live.following.test_follow import TraceHandshakes
from tests.live.following.test_targets import LIBRARIES, TIMES, assert_exact, copies, nginx_with, replace
from tests.live.servers.nginx import Nginx
from tests.live.servers.roots import nginx_of
from tests.waiting import wait_for

__all__ = ["copies"]

pytestmark = pytest.mark.usefixtures("tracing")

# Finds its own queue full as often as it is told, and starts somebody who isn't traced and listens as well.
FULL = """
import socket, ssl, subprocess, sys
listening = socket.create_server(("127.0.0.1", 4433), backlog=1)
kept = [socket.create_connection(("127.0.0.1", 4433)) for _ in range(2)]
other = None
print("ready", flush=True)
for line in sys.stdin:
    if line == "other\\n":
        wait = "import socket, sys; kept = socket.create_server(('', 9090)); print('there', flush=True); sys.stdin.read()"
        other = subprocess.Popen([sys.executable, "-c", wait], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        other.stdout.readline()
    else:
        for _ in range(int(line)):
            with socket.socket() as client:
                client.setblocking(False)
                client.connect_ex(("127.0.0.1", 4433))
    print("done", flush=True)
"""
NOBODY = "65533"  # a user whom no server runs as
THREE = ("bpf", "perfmon", "sys_ptrace")
ALL = (*THREE, "checkpoint_restore", "dac_read_search")
# A tracefs that no other process sees, as systemd mounts it for all.
_MOUNT = "grep -q ' /sys/kernel/tracing tracefs ' /proc/mounts || mount -t tracefs tracefs /sys/kernel/tracing"
WITH_TRACEFS = ("unshare", "--mount", "sh", "-ec", f'{_MOUNT}; exec "$@"', "sh")


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home, for the cache, of a user who is nobody."""
    if os.geteuid():
        pytest.skip("only root can drop privileges: run the tests as root")
    folder = Path("/tmp", tmp_path_factory.mktemp("home").name + f"-{os.getpid()}")
    folder.mkdir()
    os.chown(folder, int(NOBODY), int(NOBODY))
    yield folder
    shutil.rmtree(folder)


def dropped(home: Path, *capabilities: str) -> tuple[str, ...]:
    """The command that runs another as nobody with these capabilities. A checkout in a folder of root's own asks for one more,
    which has nothing to do with tracing."""
    needed = {*capabilities, *(() if readable_by_all(PROGRAM) else ("dac_read_search",))}
    kept = ",".join(["-all", *(f"+{name}" for name in sorted(needed))])
    user = ("--reuid", NOBODY, "--regid", NOBODY, "--clear-groups")
    limits = ("--inh-caps", kept, "--ambient-caps", kept, "--bounding-set", kept)
    return ("setpriv", *user, *limits, "env", f"HOME={home}", f"XDG_CACHE_HOME={home}")


def readable_by_all(path: Path) -> bool:
    return all(folder.stat().st_mode & 0o005 == 0o005 for folder in path.parents)


@pytest.mark.parametrize("method", [pytest.param("auto", marks=pytest.mark.smoke), "multi"])
def test_three_capabilities_trace_a_server_of_root(certificates: Path, home: Path, method: str) -> None:
    options = ("--attach", method)
    with Nginx(certificates) as server, Trace(server.master_pid, options=options, prefix=dropped(home, *THREE)) as trace:
        exchanges = Client(server.port["ecdsa"], TLS_1_3).connect_times(TIMES)
        server.wait_idle()
    assert_exact(trace.document, exchanges)


def test_three_capabilities_trace_a_container(certificates: Path, home: Path) -> None:
    root = foreign.needed(foreign.second_root()).resolve()
    with (
        nginx_of(root, certificates, "ecdsa", "X25519", contained=True) as (pid, port),
        Trace(pid, prefix=dropped(home, *THREE)) as trace,
    ):
        exchanges = Client(port, TLS_1_3).connect_times(TIMES)
    assert_exact(trace.document, exchanges)


@pytest.mark.parametrize("others", [False, True])
def test_accept_queues_in_other_network_namespaces_with_what_the_unit_has(home: Path, others: bool) -> None:
    """Which may not enter them: the sum is known, and whose it is as long as nobody else listens there."""
    server = ["unshare", "--net", "sh", "-c", 'ip link set lo up; exec "$0" -c "$1"', sys.executable, FULL]
    with subprocess.Popen(server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        said = iter(process.stdout)
        assert next(said) == "ready\n"

        def ask(words: str) -> None:
            print(words, file=process.stdin, flush=True)
            assert next(said) == "done\n"

        network = Path("/proc", str(process.pid), "ns", "net").stat().st_ino
        if others:
            ask("other")
        ask("3")
        prefix = dropped(home, *rights.of_unit())
        with TraceHandshakes(process.pid, prefix=prefix) as trace:
            ask("5")
        process.stdin.close()
    handshakes = trace.document["handshakes"]
    queue = {"port": 4433, "address": "127.0.0.1", "overflows": 0 if others else 5, "network": network}
    assert handshakes["accept_queues"] == [queue]
    assert handshakes["overflows_untold"] == (5 if others else 0)


def test_two_more_trace_libraries_that_are_gone(certificates: Path, home: Path, copies: Path) -> None:
    with nginx_with(copies, certificates) as server:
        replace(copies, "deleted")
        refused = run(home, THREE, "trace", "-p", server.master_pid, "-d", "1")
        with Trace(server.master_pid, prefix=dropped(home, *ALL)) as trace:
            exchanges = Client(server.port["ecdsa"], TLS_1_3).connect_times(TIMES)
            server.wait_idle()
    assert_exact(trace.document, exchanges)
    assert refused.returncode == 1
    assert any(f"not permitted to open {copies}/{name} as process" in refused.stderr for name in LIBRARIES)
    assert "with CAP_CHECKPOINT_RESTORE and CAP_DAC_READ_SEARCH" in refused.stderr


def run(home: Path, capabilities: tuple[str, ...], *words: object) -> subprocess.CompletedProcess[str]:
    command = [*dropped(home, *capabilities), str(PROGRAM), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@contextmanager
def own_server(certificates: Path, home: Path) -> Iterator[tuple[int, int]]:
    """A server that the user started themselves: its process and its port."""
    for name in ("ecdsa.crt", "ecdsa.key"):
        os.chown(shutil.copy(certificates / name, home / name), int(NOBODY), int(NOBODY))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serving = ("openssl", "s_server", "-quiet", "-accept", f"127.0.0.1:{port}")
    command = [*dropped(home), *serving, "-cert", home / "ecdsa.crt", "-key", home / "ecdsa.key", "-www"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(lambda: f":{port:04X} 00000000" in Path("/proc/net/tcp").read_text())
            yield process.pid, port
        finally:
            process.kill()


def test_two_capabilities_trace_ones_own_processes_and_no_others(certificates: Path, home: Path) -> None:
    with own_server(certificates, home) as (pid, port):
        with Trace(pid, prefix=dropped(home, "bpf", "perfmon")) as trace:
            for _ in range(TIMES):
                subprocess.run(
                    ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-ign_eof"],
                    input=b"GET / HTTP/1.0\r\n\r\n",
                    capture_output=True,
                    check=True,
                    timeout=30,
                )
        assert count(trace.document, "ossl_ecdsa_sign") == TIMES
    with Nginx(certificates) as server:
        refused = [run(home, ("bpf", "perfmon"), "trace", "-p", pid, "-d", "1") for pid in (1, server.worker_pids()[0])]
    assert [done.returncode for done in refused] == [1, 1]
    assert all("with CAP_SYS_PTRACE" in done.stderr for done in refused)


@pytest.mark.parametrize("missing", ["bpf", "perfmon"])
def test_the_doctor_names_what_is_missing(home: Path, missing: str) -> None:
    held = tuple(name for name in ALL if name != missing)
    done = run(home, held, "doctor", "--quiet")
    assert done.returncode == 1
    assert done.stdout.startswith(f"This machine can't trace: user {NOBODY} lacks CAP_{missing.upper()}, or CAP_SYS_ADMIN")
    assert done.stdout.count("\n") == 1
    assert run(home, held, "trace", "--all", "-d", "1").returncode == 1


@pytest.mark.parametrize(
    ("missing", "words"), [("sys_ptrace", "CAP_SYS_PTRACE"), ("checkpoint_restore", "CAP_CHECKPOINT_RESTORE")]
)
def test_the_doctor_names_what_would_help(home: Path, missing: str, words: str) -> None:
    done = run(home, tuple(name for name in ALL if name != missing), "doctor")
    assert done.returncode == 0
    assert any(line.startswith("MISSING") and words in line for line in done.stdout.splitlines())


def test_perf_events_ask_for_sys_admin_or_work(certificates: Path, home: Path) -> None:
    """Which of them depends on the kernel: either all is counted, or the sentence names the capability."""
    with Nginx(certificates) as server:
        done = run(home, THREE, "trace", "-p", server.master_pid, "-d", "1", "--attach", "perf")
        options = ("--attach", "perf")
        with Trace(server.master_pid, options=options, prefix=dropped(home, *THREE, "sys_admin")) as trace:
            exchanges = Client(server.port["ecdsa"], TLS_1_3).connect_times(TIMES)
            server.wait_idle()
    assert_exact(trace.document, exchanges)
    assert done.returncode == 0 or "CAP_SYS_ADMIN" in done.stderr


def test_events_of_tracefs_serve_without_sys_admin(certificates: Path, home: Path) -> None:
    """As on Linux 5.15 to 6.5, which attach by perf events alone."""
    prefix = (*WITH_TRACEFS, *dropped(home, *THREE, "dac_override"))
    with Nginx(certificates) as server, Trace(server.master_pid, options=("--attach", "perf"), prefix=prefix) as trace:
        exchanges = Client(server.port["ecdsa"], TLS_1_3).connect_times(TIMES)
        server.wait_idle()
    assert_exact(trace.document, exchanges)


def test_without_any_right_targets_says_what_it_could_not_see(certificates: Path, home: Path) -> None:
    with Nginx(certificates) as server:
        done = run(home, (), "targets", "-p", server.master_pid)
        seen = run(home, ("sys_ptrace",), "targets", "-p", server.master_pid)
        ports = run(home, ("sys_ptrace", "dac_read_search"), "targets", "-p", server.master_pid)
    assert done.returncode == seen.returncode == 0
    assert "Not permitted to inspect nginx (2 processes)." in done.stdout
    assert "OpenSSL" in seen.stdout
    assert ports.stdout.count(str(server.port["ecdsa"])) == 1
    assert "Not permitted" not in seen.stdout
