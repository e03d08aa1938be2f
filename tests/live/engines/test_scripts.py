# SPDX-License-Identifier: Apache-2.0
"""The stand-alone scripts, what `ssllatency script` prints, and the bpftrace engine, on real servers: counts are exact."""

from __future__ import annotations

import argparse
import contextlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from ssllatency.engines.base import Request
from ssllatency.engines.bpftrace.engine import BpftraceEngine
from ssllatency.model.snapshot import Losses, Outcome, Snapshot
from ssllatency.targets import Selection
from ssllatency.tracing.resolve import resolve
from tests import bpftraces, machine
from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client, server_calls
from tests.live.exact.test_async import key_operations
from tests.live.servers.jobs import AsyncServer, AsyncSettings, load, offload
from tests.live.servers.nginx import Nginx
from tests.live.victims.lanes import BATCHES, build_lanes
from tests.live.victims.obedient import obedient

pytestmark = pytest.mark.usefixtures("tracing", "bpftrace")
# For what doesn't depend on bpftrace's version.
BY_ONE_BPFTRACE = pytest.mark.parametrize("bpftrace", [bpftraces.OWN], indirect=True)
TOP = Path(__file__).resolve().parents[3]
TOOLS = TOP / "tools"
CONNECTIONS, REQUESTS = 12, 3
LIBSSL = machine.LIBRARIES / "libssl.so.3"
# Runs a command where another file has taken the place of a library.
IN_ITS_PLACE = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
# A line begins as many handshakes, all of which wait for the server.
CLIENT = """
import contextlib, ssl, sys
context = ssl.create_default_context()
print("ready", flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        with contextlib.suppress(ssl.SSLWantReadError):
            context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="localhost").do_handshake()
    print("done", flush=True)
"""
# Calls ASYNC_pause_job, for each line "THREADS KNOWN" in as many threads one after another: where KNOWN is 1 between two calls
# for a connection, which fail.
PAUSES = """
import ctypes, ssl, sys, threading
libssl, libcrypto = ctypes.CDLL("libssl.so.3"), ctypes.CDLL("libcrypto.so.3")
pointer = ctypes.c_void_p
for function in (libssl.TLS_method, libssl.SSL_CTX_new, libssl.SSL_new):
    function.restype = pointer
context = pointer(libssl.SSL_CTX_new(pointer(libssl.TLS_method())))
libcrypto.ASYNC_get_current_job()  # makes the thread-local variable in which ASYNC_pause_job looks, else it has another's
def pause_once(known):
    if not known:
        return libcrypto.ASYNC_pause_job()
    connection = pointer(libssl.SSL_new(context))
    libssl.SSL_do_handshake(connection)
    libcrypto.ASYNC_pause_job()
    libssl.SSL_do_handshake(connection)
    libssl.SSL_free(connection)
print("ready", flush=True)
for line in sys.stdin:
    count, known = map(int, line.split())
    for _ in range(count):
        thread = threading.Thread(target=pause_once, args=(known,))
        thread.start()
        thread.join()
    print("done", flush=True)
"""


class Script:
    """A script that runs from `with` to the end of the block; `output` is there then. It must end with status 0 at SIGINT."""

    def __init__(self, *command: object) -> None:
        self._command = [str(word) for word in command]
        self._is_to_end = False
        self.output = ""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        guard = threading.Timer(60, self._process.kill)
        guard.start()
        assert self._process.stdout is not None
        said = ""
        while "Tracing" not in said and (line := self._process.stdout.readline()):
            said += line
        guard.cancel()
        if "Tracing" not in said:
            raise RuntimeError(f"the script did not start: {said} {self._process.communicate()[1]}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            self._process.kill()
        self.output = self._interrupted()
        if error is None:
            assert self._process.returncode == 0
            assert "helper: " not in self.output, "0.21 and later complain of what a map hasn't"

    def interrupt(self) -> None:
        """Has it end. The block's end waits for that: to remove its probes takes seconds."""
        self._process.send_signal(signal.SIGINT)
        self._is_to_end = True

    def _interrupted(self) -> str:
        """bpftrace 0.17 may miss a signal that comes just before it goes to wait for events."""
        for _ in range(3):
            if not self._is_to_end:
                self.interrupt()
            self._is_to_end = False
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._process.communicate(timeout=20)[0]
        self._process.kill()
        raise RuntimeError("the script did not end")

    def counts(self, name: str) -> dict[str, int]:
        """The counts of a map of stats, by function."""
        found = re.findall(rf"^@{name}\[(?:\S*:)?(\w+)\]: count (\d+)", self.output, re.MULTILINE)
        return {function: int(count) for function, count in found}

    def value(self, name: str) -> int:
        """A counter."""
        found = re.search(rf"^@{re.escape(name)}: (\d+)", self.output, re.MULTILINE)
        return int(found[1]) if found else 0

    def histogram(self, name: str) -> int:
        """How many values a histogram without a key holds."""
        rows = re.search(rf"^@{name}:\s*\n((?:[\[(].*\n)+)", self.output, re.MULTILINE)
        return sum(int(count) for count in re.findall(r"^\S+(?: \S+)?\s+(\d+) \|", rows[1], re.MULTILINE)) if rows else 0


def ssl_calls(calls: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in calls.items() if name.startswith("SSL_") and count}


def test_ssllatency_bt(certificates: Path) -> None:
    with Nginx(certificates) as server:
        (worker,) = server.worker_pids()
        with Script("bpftrace", TOOLS / "ssllatency.bt", worker) as script:
            exchanges = Client(server.port["rsa"], TLS_1_3).connect_times(CONNECTIONS, requests=REQUESTS)
            server.wait_idle()
        assert server.worker_pids() == [worker]
    assert script.counts("stat") == ssl_calls(server_calls(exchanges, "rsa"))
    waits, closes = script.value("error[read or write, 2]"), script.value("error[read or write, 6]")
    assert waits + closes == script.counts("statF")["SSL_read"]
    assert closes == CONNECTIONS
    assert script.value("error[handshake, 2]") == script.counts("statF").get("SSL_do_handshake", 0)
    assert int(re.findall(r"^@key\[\S+:RSA_private_encrypt\]: (\d+)", script.output, re.MULTILINE)[0]) == CONNECTIONS
    assert "@lost" not in script.output


@BY_ONE_BPFTRACE
def test_ssllatency_bt_takes_200_and_256_bytes_for_success(certificates: Path) -> None:
    """What the script of bpftrace itself doesn't: it looks at the lowest byte alone."""
    with Nginx(certificates) as server, Script("bpftrace", TOOLS / "ssllatency.bt") as script:
        for size in (200, 256):
            Client(server.port["ecdsa"], TLS_1_3).connect_times(4, request_size=size)
        server.wait_idle()
    assert script.counts("stat")["SSL_read"] >= 8
    assert script.value("error[read or write, 6]") >= 8


def test_sslsnoop_bt(certificates: Path) -> None:
    with Nginx(certificates) as server:
        (worker,) = server.worker_pids()
        with Script("bpftrace", TOOLS / "sslsnoop.bt", worker) as script:
            exchanges = Client(server.port["ecdsa"], TLS_1_2).connect_times(CONNECTIONS)
            server.wait_idle()
            time.sleep(1)  # lines that bpftrace has yet to read when Ctrl-C comes are lost
        assert server.worker_pids() == [worker]
    lines = [line.split() for line in script.output.splitlines() if re.match(r"\d+ ", line)]
    assert {(line[1], line[3]) for line in lines} == {(str(worker), "nginx")}
    good = [
        line[-1] for line in lines if int(line[5]) > (0 if line[-1] != "SSL_shutdown" else -1) and line[-1] != "SSL_get_error"
    ]
    assert {name: good.count(name) for name in set(good)} == ssl_calls(server_calls(exchanges, "ecdsa"))
    failed = [line for line in lines if line[-1] != "SSL_get_error" and int(line[5]) < 0]
    told = [line for line in lines if line[-1] == "SSL_get_error" and line[5] == "2"]
    assert len(told) == len(failed) > 0


def test_sslasync_bt_on_a_server_with_jobs(certificates: Path) -> None:
    with AsyncServer(certificates, AsyncSettings(engine=offload(threads=8, delay_us=2000))) as server:
        with Script("bpftrace", TOOLS / "sslasync.bt", "libcrypto", server.pid) as script:
            load(server, connections=200, parallel=20)
            server.wait_idle()
        assert server.status() is None
        final = server.stop()
    assert script.value("pauses") == final["engine"]["pauses"] == script.histogram("wait_us")
    assert script.value("started") >= script.value("pauses")
    assert "@paused[" not in script.output


@BY_ONE_BPFTRACE
def test_sslasync_bt_loses_no_wait_of_many_threads() -> None:
    with (
        obedient(sys.executable, "-c", PAUSES) as (pid, do),
        Script("bpftrace", TOOLS / "sslasync.bt", "libcrypto", pid) as script,
    ):
        do("5000 1")
        do("3 0")
    assert script.value("pauses") == 5003
    assert script.histogram("wait_us") == 5000
    assert script.value("lost[pauses whose connection isn't known]") == 3
    assert "@paused[" not in script.output


@BY_ONE_BPFTRACE
def test_sslasync_bt_counts_lanes(tmp_path: Path) -> None:
    library = build_lanes(tmp_path)
    script = Script("bpftrace", TOOLS / "sslasync.bt", library)
    with obedient(sys.executable, "-c", BATCHES, library) as (_, do), script:
        for sizes in ("1 1 1", "8 8 3"):
            do(f"mbx_rsa_private_crt_ssl_mb8 {sizes}")
            do(f"mbx_rsa_public_ssl_mb8 {sizes}")
        do("mbx_x25519_mb8 5")
    found = re.findall(r"^\[(\d), (\d)\)\s+(\d+) \|", script.output, re.MULTILINE)
    assert {int(used): int(count) for used, _, count in found if count != "0"} == {1: 3, 3: 1, 5: 1, 8: 2}


@BY_ONE_BPFTRACE
def test_a_printed_script_refuses_another_build(tmp_path: Path) -> None:
    library = tmp_path / "libssl.so.3"
    shutil.copy(LIBSSL, library)
    subprocess.run([TOOLS / "ssllatency", "script", library, "-o", tmp_path / "one.bt"], check=True)
    library.write_bytes(library.read_bytes() + b"\0")
    done = subprocess.run(["sh", tmp_path / "one.bt"], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"{library} isn't the file that this script was made for" in done.stderr


@BY_ONE_BPFTRACE
def test_a_printed_script_traces_the_file_of_another_mount_namespace(tmp_path: Path) -> None:
    """Not the one that has its path here."""
    file, library = tmp_path / "one.bt", tmp_path / LIBSSL.name
    library.write_bytes(LIBSSL.read_bytes() + b"\0")
    command = ("unshare", "--mount", "sh", "-c", IN_ITS_PLACE, "sh", library, LIBSSL, sys.executable, "-c", CLIENT)
    with obedient(*command) as (pid, do), obedient(sys.executable, "-c", CLIENT) as (_, do_here):
        place = f"/proc/{pid}/root{LIBSSL}"
        subprocess.run([TOOLS / "ssllatency", "script", "--role", "any", place, "-o", file], check=True)
        assert {line.split(":")[1] for line in file.read_text().splitlines() if line.startswith("uprobe:")} == {
            f"/proc/{pid}/./root{LIBSSL}"
        }
        with Script("sh", file) as script:
            do("5")
            do_here("3")
    assert script.counts("statF") == {"SSL_do_handshake": 5}


def engine_snapshot(pid: int, drive: object) -> Snapshot:
    arguments = argparse.Namespace(no_return_probes=False, no_cache=False)
    with ExitStack() as stack:
        resolved = resolve(Selection((pid,)), arguments, stack)
        session = BpftraceEngine().attach(Request(resolved.images, resolved.targets))
        stack.callback(session.close)
        assert callable(drive)
        drive()
        session.detach()
        return session.read()


def successes(snapshot: Snapshot) -> dict[str, int]:
    return {one.function: one.count for one in snapshot.series if one.outcome is Outcome.SUCCESS}


@pytest.mark.smoke
def test_the_engine_and_a_printed_script_count_exactly(certificates: Path, tmp_path: Path) -> None:
    """Both at once, which remove their probes at the same time."""
    file, exchanges = tmp_path / "nginx.bt", []
    with Nginx(certificates) as server:
        workers = server.worker_pids()
        subprocess.run([TOOLS / "ssllatency", "script", "-p", str(server.master_pid), "-o", file], check=True)
        with Script("sh", file) as script:

            def drive() -> None:
                for version in (TLS_1_2, TLS_1_3):
                    exchanges.extend(Client(server.port["rsa"], version).connect_times(CONNECTIONS, requests=REQUESTS))
                server.wait_idle()
                script.interrupt()

            snapshot = engine_snapshot(server.master_pid, drive)
        assert server.worker_pids() == workers
    expected = {name: count for name, count in server_calls(exchanges, "rsa").items() if count}
    assert script.counts("stat") == expected
    assert script.value("why[SSL_read, closed ZERO_RETURN]") == 2 * CONNECTIONS
    assert script.value("why[SSL_read, retry WANT_READ]") == script.counts("statF")["SSL_read"] - 2 * CONNECTIONS
    assert "@lost" not in script.output
    assert {name: successes(snapshot).get(name) for name in expected} == expected
    assert snapshot.losses == Losses()
    assert snapshot.in_flight == 0
    assert all(one.linear.count == one.count for one in snapshot.series)


@BY_ONE_BPFTRACE
def test_the_engine_on_a_server_with_jobs(certificates: Path) -> None:
    with AsyncServer(certificates, AsyncSettings(engine=offload(threads=8, delay_us=2000))) as server:

        def drive() -> None:
            load(server, connections=200, parallel=20)
            server.wait_idle()

        snapshot = engine_snapshot(server.pid, drive)
        final = server.stop()
    found = successes(snapshot)
    assert {name: found.get(name, 0) for name in final["calls"]} == {n: c["success"] for n, c in final["calls"].items()}
    assert found["rsa_ossl_private_encrypt"] == key_operations(final)
    assert found["ASYNC_pause_job"] == final["engine"]["pauses"]
    assert snapshot.losses == Losses()
    waits = [one.reasons for one in snapshot.series if one.function == "SSL_do_handshake" and one.outcome is Outcome.RETRY]
    assert waits == [{"WANT_READ": final["calls"]["SSL_do_handshake"]["want_read"], "WANT_ASYNC": final["engine"]["pauses"]}]


@BY_ONE_BPFTRACE
def test_the_engine_on_another_openssl(certificates: Path) -> None:
    """OpenSSL 3.5 in a root of its own, where an SSL * begins with its type."""
    root = TOP / "build" / "trixie"
    if not (root / "etc" / "ssllatency-root").exists():
        pytest.skip("no second root: tools/for-tests/second-root makes it")
    settings = AsyncSettings(kind="ecdsa", asynchronous=False, groups="P-256")
    with AsyncServer(certificates, settings, root=root) as server:

        def drive() -> None:
            load(server, connections=100, parallel=10)
            server.wait_idle()

        snapshot = engine_snapshot(server.pid, drive)
        final = server.stop()
    found = successes(snapshot)
    assert {name: found[name] for name in final["calls"]} == {n: c["success"] for n, c in final["calls"].items()}
    assert found["ossl_ecdsa_sign"] == found["ECDH_compute_key"] == final["handshakes"]
    waits = {one.function: one.reasons for one in snapshot.series if one.outcome is Outcome.RETRY}
    assert waits == {n: {"WANT_READ": c["want_read"]} for n, c in final["calls"].items() if c["want_read"]}
    assert snapshot.losses == Losses()


@BY_ONE_BPFTRACE
def test_no_file_stays(tmp_path: Path) -> None:
    """The printed script's own folder is gone a moment after it has ended."""
    file, place = tmp_path / "one.bt", tmp_path / "place"
    place.mkdir()
    subprocess.run([TOOLS / "ssllatency", "script", LIBSSL, "-o", file], check=True)
    with Script("env", f"TMPDIR={place}", "sh", file):
        assert list(place.iterdir())
    deadline = time.monotonic() + 20
    while list(place.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
