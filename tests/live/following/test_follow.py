# SPDX-License-Identifier: Apache-2.0
"""Processes that come later: every handshake that clients completed is counted, whoever served it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests import machine
from tests.live.clients.counted import TLS_1_3, Client, h2load
from tests.live.commands.snoop import Snoop
from tests.live.commands.test_command import children
from tests.live.commands.trace import PROGRAM, Trace, count, counted_pids, losses
from tests.live.servers.late import late
from tests.live.servers.nginx import Nginx, Settings, libssl_of
from tests.live.servers.roots import cgroup, within_cgroup
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("tracing")
RELOADS = 10


def reload(server: Nginx) -> None:
    """Has the master start new workers, and waits until the old ones accept no more."""
    before = set(server.worker_pids())
    os.kill(server.master_pid, signal.SIGHUP)
    wait_for(lambda: len(set(server.worker_pids()) - before) >= server.settings.workers)


@dataclass
class Load:
    """Connections by several threads until the end of the block. `completed`: handshakes by the client's own word; `answered`
    those whose request was answered; `failed` those that ended before."""

    port: int
    threads: int = 4
    completed: int = 0
    answered: int = 0
    failed: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Load:
        self._running = [threading.Thread(target=self._run) for _ in range(self.threads)]
        for thread in self._running:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._running:
            thread.join()

    def _run(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # the client completes the handshake last, or not at all
        while not self._over.is_set():
            done = self._connect(context)
            with self._lock:
                self.completed += done >= 1
                self.answered += done == 2
                self.failed += done < 2

    def _connect(self, context: ssl.SSLContext) -> int:
        done = 0
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", self.port), timeout=5) as plain,
            context.wrap_socket(plain) as tls,
        ):
            done = 1
            tls.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            done = 2 if tls.recv(4096).startswith(b"HTTP/1.1 200") else 1
        return done


@pytest.mark.parametrize("by", ["trace", "handshakes", "snoop"])
def test_nothing_is_lost_while_nginx_reloads(certificates: Path, by: str) -> None:
    connections = 4000
    with Nginx(certificates, Settings(workers=2)) as server, Measured(by, server.master_pid) as measured:
        with Reloads(server) as reloads:
            completed = h2load(server.port["ecdsa"], connections, parallel=16)
        server.wait_idle()
    assert reloads.number == RELOADS
    assert completed == connections
    assert measured.handshakes == connections
    assert len(measured.pids) > 4
    assert measured.lost == {}


@pytest.mark.parametrize("how", [("--attach", "perf"), ("--engine", "bcc")], ids=["perf events", "bcc"])
def test_nothing_is_lost_by_the_other_ways_of_attaching(certificates: Path, how: tuple[str, str]) -> None:
    headers = Path("/lib/modules", os.uname().release, "build")
    if how[1] == "bcc" and not (find_spec("bcc") and headers.exists()):
        pytest.skip("bcc, or the kernel headers that it needs, aren't installed")
    with Nginx(certificates, Settings(workers=2)) as server:
        with Trace(server.master_pid, options=how) as trace, Reloads(server):
            completed = h2load(server.port["ecdsa"], 2000, parallel=16)
        assert completed == count(trace.document, "SSL_do_handshake")
    assert losses(trace.document) == {}


class Reloads:
    """Reloads one after the other beside what the block does."""

    def __init__(self, server: Nginx) -> None:
        self._server, self.number = server, 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Reloads:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def _run(self) -> None:
        for _ in range(RELOADS):
            reload(self._server)
            self.number += 1


class TraceHandshakes(Trace):
    """The other command that prints one document."""

    SUBCOMMAND = "handshakes"


class Measured:
    """The handshakes of a server by one of the commands: their number, the processes that served them, what was lost."""

    def __init__(self, by: str, pid: int) -> None:
        self._by = by
        options = ("--json", "--function", "SSL_do_handshake", "--outcome", "success")
        runs: dict[str, Callable[[], Any]] = {
            "snoop": lambda: Snoop(pid, options=options),
            "trace": lambda: Trace(pid, options=("--by-process",)),
            "handshakes": lambda: TraceHandshakes(pid, options=("--by", "process")),
        }
        self._run = runs[by]()

    def __enter__(self) -> Measured:
        self._run.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._by == "snoop" and error[0] is None:
            self._run.process.send_signal(signal.SIGINT)
            self._run.finish()
        self._run.__exit__(*error)

    @property
    def handshakes(self) -> int:
        if self._by == "snoop":
            return len(self._run.calls())
        if self._by == "trace":
            return count(self._run.document, "SSL_do_handshake")
        groups = self._run.document["handshakes"]["groups"]
        return sum(group["parts"]["wall"]["count"] for group in groups if group["ending"] == "success")

    @property
    def pids(self) -> set[Any]:
        if self._by == "snoop":
            return {one["pid"] for one in self._run.calls()}
        if self._by == "trace":
            return counted_pids(self._run.document, "SSL_do_handshake")
        return {group["labels"]["process"] for group in self._run.document["handshakes"]["groups"]}

    @property
    def lost(self) -> dict[str, int]:
        return {} if self._by == "snoop" else losses(self._run.document)


@pytest.mark.parametrize("cache", ["as it is", "empty"])
def test_later_workers_are_targets_and_earlier_ones_keep_their_numbers(
    cache: str, certificates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an empty cache, what follows them is loaded while the files are planned."""
    if cache == "empty":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with Nginx(certificates) as server, Trace(server.master_pid, options=("--by-process",)) as trace:
        client = Client(server.port["ecdsa"], TLS_1_3)
        served = {}
        for number in (3, 5):
            (worker,) = server.worker_pids()
            client.connect_times(number)
            served[worker] = number
            os.kill(server.master_pid, signal.SIGHUP)
            wait_for(lambda gone=worker: server.worker_pids() and gone not in server.worker_pids())
    rows = trace.document["functions"]
    found = {row["pid"]: row["count"] for row in rows if (row["function"], row["outcome"]) == ("SSL_do_handshake", "success")}
    assert found == served
    targets = {target["pid"]: target for target in trace.document["targets"]}
    assert served.keys() < targets.keys()
    assert all(len(targets[pid]["libraries"]) >= 2 for pid in served)
    assert {targets[pid]["comm"] for pid in served} == {"nginx"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_worker_that_dies_is_replaced_and_nothing_is_lost(certificates: Path, number: signal.Signals) -> None:
    """A handshake that was completed may have been cut off before its end was seen, one for each client and death at most."""
    deaths = 3
    with (
        Nginx(certificates, Settings(workers=2)) as server,
        Trace(server.master_pid, options=("--by-process",)) as trace,
        Load(server.port["ecdsa"]) as load,
    ):
        for _ in range(deaths):
            time.sleep(0.2)
            victim = server.worker_pids()[0]
            os.kill(victim, number)
            wait_for(lambda gone=victim: len(server.worker_pids()) == 2 and gone not in server.worker_pids())
            time.sleep(0.2)
    seen = count(trace.document, "SSL_do_handshake")
    assert load.answered > 100
    assert load.failed <= deaths * load.threads
    assert load.answered <= seen <= load.answered + load.failed
    assert len(counted_pids(trace.document, "SSL_do_handshake")) >= 2 + deaths - 1


class Upgradable(Nginx):
    """An nginx that takes the signal for a new binary: it does so only where the process that started it is gone."""

    def _launch(self, command: list[str]) -> subprocess.Popen[bytes]:
        orphaned = self.directory / "orphaned"
        launched = super()._launch(["sh", "-c", f'("$@" & sleep 0.3); : >{orphaned}; exec sleep 600', "sh", *command])
        wait_for(orphaned.exists)
        return launched

    @property
    def master_pid(self) -> int:
        with suppress(OSError, ValueError):
            return int((self.directory / "nginx.pid").read_text())
        return 0

    def worker_pids(self) -> list[int]:
        return children(self.master_pid)

    def close(self) -> None:
        for name in ("nginx.pid", "nginx.pid.oldbin"):
            with suppress(OSError, ValueError):
                pid = int((self.directory / name).read_text())
                os.kill(pid, signal.SIGTERM)
                wait_for(lambda gone=pid: not is_running(gone))
        super().close()


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_new_binary_takes_over(certificates: Path) -> None:
    with Upgradable(certificates, Settings(workers=2)) as server:
        old = server.master_pid
        with Trace(old, options=("--by-process",)) as trace:
            client = Client(server.port["ecdsa"], TLS_1_3)
            client.connect_times(4)
            with Load(server.port["ecdsa"]) as load:
                os.kill(old, signal.SIGUSR2)
                wait_for(lambda: server.master_pid not in (0, old) and len(server.worker_pids()) == 2)
                time.sleep(0.2)
                os.kill(old, signal.SIGQUIT)
                wait_for(lambda: not is_running(old))
                time.sleep(0.6)
            client.connect_times(6)
            workers = set(server.worker_pids())
    assert load.failed == 0
    assert count(trace.document, "SSL_do_handshake") == load.answered + 10
    assert workers & counted_pids(trace.document, "SSL_do_handshake")
    assert losses(trace.document) == {}


def test_a_library_that_is_loaded_late_is_traced_from_then_on(certificates: Path, copies: tuple[str, ...]) -> None:
    """It isn't where its process could be expected to load it from."""
    moved = ("sh", "-c", 'read go && exec "$@"', "sh", *copies)
    with late(certificates, *moved, held=True) as server, Trace(server.process.pid, options=("--wait",)) as trace:
        server.go()
        server.do("load")
        trace.wait_until_said("libssl")
        server.do("serve 5", 5)
        server.do("fork 3", 3)
    assert count(trace.document, "SSL_do_handshake") == 8
    (target,) = [one for one in trace.document["targets"] if one["pid"] == server.process.pid]
    assert {Path(one["path"]).name.partition(".")[0] for one in target["libraries"]} >= {"libssl", "libcrypto"}
    assert any("libssl" in note and "ms before it was traced" in note for note in trace.document["notes"])
    assert losses(trace.document) == {"late_processes": 1}


def test_without_wait_a_process_without_tls_is_refused(certificates: Path) -> None:
    with late(certificates) as server:
        done = subprocess.run([PROGRAM, "trace", "-p", str(server.process.pid)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "maps no TLS library" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_process_of_the_name_that_starts_later(certificates: Path, tmp_path: Path) -> None:
    """The second one is counted from its first handshake: it maps the same library. One of another name isn't counted."""
    program = tmp_path / "ssll-named"
    shutil.copy(os.path.realpath(sys.executable), program)
    environment = {"program": str(program)}
    with late(certificates, **environment) as first:
        first.do("load")
        with Trace(options=("--comm", "ssll-named", "--by-process")) as trace:
            first.do("serve 2", 2)
            with late(certificates, **environment) as second, late(certificates) as other:
                for server, number in ((second, 3), (other, 4)):
                    server.do("load")
                    server.do(f"serve {number}", number)
            with late(certificates, **environment) as third:
                third.do("load")
                third.do("fork 5", 5)
    assert count(trace.document, "SSL_do_handshake") == 10
    assert len(counted_pids(trace.document, "SSL_do_handshake")) == 3


@pytest.fixture
def copies(tmp_path: Path) -> tuple[str, ...]:
    """The beginning of a command that has a program map copies of OpenSSL."""
    libraries = sorted(Path("/usr/lib").glob("*/libssl.so.3")) + sorted(Path("/usr/lib").glob("*/libcrypto.so.3"))
    if not libraries:
        pytest.skip("no libssl.so.3 where Debian has it")
    for library in libraries:
        shutil.copy(library, tmp_path)
    return "env", f"LD_LIBRARY_PATH={tmp_path}"


def test_one_library_stays_the_only_one(certificates: Path, copies: tuple[str, ...]) -> None:
    """A process that maps a copy of it meanwhile isn't taken in."""
    with Nginx(certificates) as nginx:
        options = ("--library", libssl_of(nginx.master_pid), "--by-process")
        with Trace(options=options) as trace, late(certificates, *copies) as server:
            server.do("load")
            server.do("serve 3", 3)
            time.sleep(2.5)  # it is looked who is there once a second
            server.do("serve 2", 2)
            Client(nginx.port["ecdsa"], TLS_1_3).connect_times(4)
            nginx.wait_idle()
    assert count(trace.document, "SSL_do_handshake") == 4
    assert server.process.pid not in counted_pids(trace.document, "SSL_do_handshake")


def test_all_takes_in_files_that_come_later(certificates: Path, tmp_path: Path, copies: tuple[str, ...]) -> None:
    with Trace(options=("--all", "--by-process")) as trace, late(certificates, *copies) as server:
        server.do("load")
        trace.wait_until_said(f"{tmp_path}/libssl")
        server.do("serve 3", 3)
    rows = trace.document["functions"]
    found = {row["pid"]: row["count"] for row in rows if (row["function"], row["outcome"]) == ("SSL_do_handshake", "success")}
    assert found[server.process.pid] == 3


def test_a_cgroup_and_who_comes_into_it(certificates: Path) -> None:
    with (
        cgroup(f"ssllatency-test-{os.getpid()}") as folder,
        late(certificates) as outside,
        Trace(options=("--cgroup", str(folder), "--wait", "--by-process")) as trace,
    ):
        within = within_cgroup(folder)
        outside.do("load")
        outside.do("serve 2", 2)
        with late(certificates, *within) as first:
            first.do("load")
            first.do("serve 3", 3)
            with late(certificates, *within) as second:
                second.do("load")
                second.do("fork 4", 4)
    assert count(trace.document, "SSL_do_handshake") == 7
    assert outside.process.pid not in counted_pids(trace.document, "SSL_do_handshake")


@pytest.mark.parametrize("kind", ["copy", "overlay"])
def test_the_same_library_twice(certificates: Path, tmp_path: Path, kind: str) -> None:
    """A copy is another file, and traced as such; the file itself, seen through an overlay, is counted once."""
    own = machine.LIBRARIES
    if not (own / "libssl.so.3").exists() or "overlay" not in Path("/proc/filesystems").read_text():
        pytest.skip("no libssl.so.3 where Debian has it, or no overlay file system")
    program, other, empty = tmp_path / "ssll-twice", tmp_path / "other", tmp_path / "empty"
    shutil.copy(os.path.realpath(sys.executable), program)
    other.mkdir()
    empty.mkdir()
    prefix = ("env", f"LD_LIBRARY_PATH={other}")
    if kind == "copy":
        for name in ("libssl.so.3", "libcrypto.so.3"):
            shutil.copy(own / name, other)
    else:  # the mount goes with the last process of its namespace
        mount = f'mount -t overlay none -o lowerdir={own}:{empty} {other} && exec "$@"'
        prefix = ("unshare", "--mount", "sh", "-c", mount, "sh", *prefix)
    with late(certificates, program=str(program)) as first:
        first.do("load")
        with Trace(options=("--comm", program.name, "--by-process")) as trace:
            first.do("serve 2", 2)
            with late(certificates, *prefix, program=str(program)) as second:
                second.do("load")
                if kind == "copy":
                    trace.wait_until_said(f"{other}/libssl")
                second.do("serve 3", 3)
                pid = children_named(second.process.pid, program.name)
                assert str(other) in Path(f"/proc/{pid}/maps").read_text()
    assert count(trace.document, "SSL_do_handshake") == 5
    assert losses(trace.document) == ({"late_processes": 1} if kind == "copy" else {})


def test_handshakes_through_another_copy_of_the_same_library(
    certificates: Path, copies: tuple[str, ...], tmp_path: Path
) -> None:
    """Of libcrypto only what raises errors is attached there, and no operation."""
    program = tmp_path / "ssll-twice"
    shutil.copy(os.path.realpath(sys.executable), program)
    with late(certificates, program=str(program)) as first:
        first.do("load")
        with TraceHandshakes(options=("--comm", program.name, "--by", "process,version")) as trace:
            first.do("serve 2", 2)
            with late(certificates, *copies, program=str(program)) as second:
                second.do("load")
                trace.wait_until_said(f"{tmp_path}/libssl")
                second.do("serve 3", 3)
    assert sorted(group["parts"]["wall"]["count"] for group in trace.document["handshakes"]["groups"]) == [2, 3]


def children_named(pid: int, name: str) -> int:
    """The process of that name among a process and its children."""
    return next(one for one in (pid, *children(pid)) if Path(f"/proc/{one}/comm").read_text().strip() == name)


def test_links_of_their_own_come_late_and_say_so(certificates: Path) -> None:
    with Nginx(certificates) as server, Trace(server.master_pid, options=("--links", "process", "--by-process")) as trace:
        client = Client(server.port["ecdsa"], TLS_1_3)
        client.connect_times(3)
        reload(server)
        trace.wait_until_said("ms after it had started")
        wait_for(lambda: len(server.worker_pids()) == 1)
        client.connect_times(4)
    assert count(trace.document, "SSL_do_handshake") == 7
    assert any("ms after it had started" in note for note in trace.document["notes"])


def test_thousands_of_processes_neither_stop_nor_fill_it(certificates: Path) -> None:
    """A shell that starts programs as fast as it can is the target, and a server among its children is counted."""
    script = "for i in $(seq 2000); do /bin/true; done; echo over; read line"
    with (
        Nginx(certificates) as server,
        subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell,
    ):
        with Trace(server.master_pid, shell.pid) as trace:
            Client(server.port["ecdsa"], TLS_1_3).connect_times(10)
            assert shell.stdout
            assert shell.stdout.readline() == "over\n"
            server.wait_idle()
        shell.kill()
    assert count(trace.document, "SSL_do_handshake") == 10
    assert losses(trace.document) == {}
    assert len(trace.document["targets"]) < 20
