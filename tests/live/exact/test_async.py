# SPDX-License-Identifier: Apache-2.0
"""Servers whose key operations run in ASYNC jobs, and a program with stacks of its own: none dies, all calls count once."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from ssllatency.engines.base import Request
from ssllatency.engines.sessions.libbpf_engine import LibbpfEngine
from ssllatency.targets import Selection
from ssllatency.tracing.resolve import resolve
from tests import machine
from tests.live.commands.test_command import start
from tests.live.commands.trace import Document, Trace, count, losses, reasons
from tests.live.servers.jobs import AsyncServer, AsyncSettings, Counts, SteadyLoad, load, offload, offloading
from tests.live.victims.fibers import Fibers, build_fibers

pytestmark = pytest.mark.usefixtures("tracing")
# How long each soak lasts.
SOAK_S = float(os.environ.get("SSLLATENCY_SOAK_S", "8"))
WAITS = {"want_read": "WANT_READ", "want_write": "WANT_WRITE", "want_async": "WANT_ASYNC"}
PRIVATE_KEY = {"rsa": "rsa_ossl_private_encrypt", "ecdsa": "ossl_ecdsa_sign"}


def assert_told_like(document: Document, final: Counts) -> None:
    """The report has each call that the server counted itself, under the same outcome and reason."""
    for function, calls in final["calls"].items():
        assert count(document, function) == calls["success"], function
        waits = Counter({WAITS[name]: number for name, number in calls.items() if name in WAITS and number})
        assert reasons(document, function, "retry") == waits, function
        assert count(document, function, "failure") == calls["failure"], function
        assert count(document, function, "closed") == calls["closed"], function
    assert losses(document) == {}


def key_operations(final: Counts) -> int:
    """The signatures that the engine or provider has counted."""
    return sum(final["engine"].get(name, 0) for name in ("rsa_private_encrypt", "rsa_sign", "ecdsa_sign", "ecdsa_sign_sig"))


@pytest.mark.parametrize("how", ["engine", "provider"])
@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_every_call_of_an_async_server_counts_once(certificates: Path, kind: str, version: str, how: str) -> None:
    settings = offloading(how, kind=kind, version=version, threads=8, delay_us=2000)
    with AsyncServer(certificates, settings) as server:
        with Trace(server.pid) as trace:
            completed = load(server, connections=600, parallel=60)
            server.wait_idle()
        final = server.stop()
    document = trace.document
    assert completed == final["handshakes"] == 600
    assert_told_like(document, final)
    assert count(document, PRIVATE_KEY[kind]) == key_operations(final) == 600
    # One that is woken before its work is done pauses again, so the engine counts pauses and not operations.
    assert count(document, "ASYNC_pause_job") == final["engine"]["pauses"]


@pytest.mark.parametrize("how", ["engine", "provider"])
def test_a_paused_operation_shows_its_whole_time(certificates: Path, how: str) -> None:
    """The delay is in ASYNC_pause_job, and in what was called around it; SSL_do_handshake's time is its calls' alone, some of
    which are shorter. An operation that is woken before its work is done pauses again, so its pauses count together."""
    delay_us = 20000
    with AsyncServer(certificates, offloading(how, threads=64, delay_us=delay_us)) as server:
        with Trace(server.pid) as trace:
            load(server, connections=50, parallel=5)
            server.wait_idle()
        final = server.stop()
    rows = {(row["function"], row["outcome"]): row for row in trace.document["functions"]}
    pauses, delays_ns = rows["ASYNC_pause_job", "success"], key_operations(final) * delay_us * 1000
    assert pauses["max_ns"] >= delay_us * 1000
    assert pauses["total_ns"] > 0.9 * delays_ns
    for outcome in ("success", "retry"):
        assert rows["SSL_do_handshake", outcome]["min_ns"] < delay_us * 1000


def test_a_stock_return_probe_kills_the_same_server(certificates: Path) -> None:
    """The control: what the tests above would catch. The server is this test's own child, and so is the tracer."""
    libraries = machine.LIBRARIES
    with AsyncServer(certificates, AsyncSettings(kind="rsa", engine=offload(threads=8, delay_us=2000))) as server:
        script = f"uretprobe:{libraries}/libcrypto.so.3:EVP_DigestSign {{ @signed = count(); }} "
        script += f"uretprobe:{libraries}/libssl.so.3:SSL_do_handshake {{ @shaken = count(); }}"
        command = ["bpftrace", "-p", str(server.pid), "-e", script]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as stock:
            assert stock.stdout
            assert "Attaching" in stock.stdout.readline()
            time.sleep(1)
            client = ["h2load", "--h1", "-n", "200", "-c", "20", f"https://127.0.0.1:{server.port}/"]
            subprocess.run(client, capture_output=True, timeout=30, check=False)
            deadline = time.monotonic() + 10
            while server.status() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            died = server.status()
            stock.send_signal(signal.SIGINT)
            stock.communicate(timeout=20)
        server.kill()
        # The block would ask a dead server for its counts.
        server.final = {"dead": True}
    assert died is not None
    assert died < 0, "the server survived a return probe inside its jobs: the control no longer shows anything"


@contextmanager
def planned(pid: int) -> Iterator[Request]:
    """The whole catalogue on one process, for the engine itself, which attaches faster than the command."""
    arguments = argparse.Namespace(no_return_probes=False, no_cache=False)
    with ExitStack() as stack:
        resolved = resolve(Selection((pid,)), arguments, stack)
        yield Request(resolved.images, resolved.targets)


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_a_soak_under_full_load(certificates: Path, kind: str) -> None:
    with AsyncServer(certificates, AsyncSettings(kind=kind, threads=2, engine=offload(threads=16, delay_us=500))) as server:
        with Trace(server.pid) as trace:
            with SteadyLoad(server, parallel=100) as steady:
                time.sleep(SOAK_S)
            server.wait_idle()
        final = server.stop()
    assert steady.completed == final["handshakes"] > 0
    assert_told_like(trace.document, final)
    assert count(trace.document, PRIVATE_KEY[kind]) == key_operations(final)


@pytest.mark.parametrize("how", ["engine", "provider"])
def test_attached_and_detached_fifty_times_under_load(certificates: Path, how: str) -> None:
    with AsyncServer(certificates, offloading(how, threads=8, delay_us=1000)) as server:
        with planned(server.pid) as request, SteadyLoad(server, parallel=50) as steady:
            seen = 0
            for _ in range(50):
                with closing(LibbpfEngine().attach(request)) as session:
                    time.sleep(0.05)
                    session.detach()
                    seen += sum(one.count for one in session.read().series)
        server.wait_idle()
        final = server.stop()
    assert seen > 0
    assert steady.completed == final["handshakes"]
    assert final["failed"] == 0


def breakpoints(pid: int, library: str = "libssl") -> int:
    """How many int3 stand in a library's code in memory that aren't in its file."""
    line = next(line for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if library in line and " r-xp " in line)
    span, _, offset, *_, path = line.split()
    start, end = (int(part, 16) for part in span.split("-"))
    with Path(f"/proc/{pid}/mem").open("rb") as memory, Path(path).open("rb") as file:
        memory.seek(start)
        file.seek(int(offset, 16))
        now, then = memory.read(end - start), file.read(end - start)
    return sum(1 for new, old in zip(now, then, strict=False) if new != old)


def test_a_tracer_killed_under_load_leaves_the_server_alone(certificates: Path) -> None:
    with AsyncServer(certificates, AsyncSettings(kind="rsa", engine=offload(threads=8, delay_us=1000))) as server:
        with SteadyLoad(server, parallel=50) as steady:
            for _ in range(3):
                tracer = start("-p", server.pid, "--exact")  # else this load has them removed at once
                assert breakpoints(server.pid)
                time.sleep(0.3)
                tracer.kill()
                tracer.communicate(timeout=20)
                time.sleep(0.3)
        server.wait_idle()
        assert breakpoints(server.pid) == breakpoints(server.pid, "libcrypto") == 0
        final = server.stop()
    assert steady.completed == final["handshakes"]
    assert final["failed"] == 0


# ---- A program with stacks of its own ----


@pytest.fixture(scope="session")
def fibers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_fibers(tmp_path_factory.mktemp("fibers"))


@pytest.mark.parametrize("order", ["fifo", "lifo"])
@pytest.mark.parametrize("stacks", ["below", "above", "mixed"])
@pytest.mark.parametrize("handshake", ["outside", "inside"])
@pytest.mark.parametrize("on", ["main", "thread"])
def test_fibers_paused_in_any_order(fibers: Path, order: str, stacks: str, handshake: str, on: str) -> None:
    options = ("--order", order, "--stacks", stacks, "--handshake", handshake, "--on", on)
    assert_exact(fibers, *options, "--jobs", "50", "--depth", "4", "--pauses", "3", "--rounds", "20")


def test_a_thousand_jobs_in_flight(fibers: Path) -> None:
    assert_exact(fibers, "--jobs", "1000", "--depth", "3", "--rounds", "5")


def test_threads_with_fibers_of_their_own(fibers: Path) -> None:
    assert_exact(fibers, "--on", "thread", "--threads", "4", "--jobs", "100", "--stacks", "mixed", "--rounds", "10")


@pytest.mark.parametrize("options", [("--jumps", "50"), ("--exits", "50"), ("--jumps", "20", "--exits", "20", "--jobs", "100")])
def test_calls_that_never_return_are_counted_as_lost(fibers: Path, options: tuple[str, ...]) -> None:
    assert_exact(fibers, *options)


def assert_exact(program: Path, *options: str) -> None:
    """The program ends well, its values right, and the report has its own counts; calls that never returned are lost ones."""
    with Fibers(program, *options) as running:
        with Trace(running.pid, options=("--role", "any")) as trace:
            truth = running.go()
        document = trace.document
    for function, calls in truth.items():
        found = {outcome: count(document, function, outcome) for outcome in ("success", "failure", "retry")}
        assert sum(found.values()) == calls["completed"], function
        assert found["success"] == calls["success"], function
    missing = sum(calls["entries"] - calls["completed"] for calls in truth.values())
    assert document["losses"]["unmatched_entries"] + document["in_flight"] == missing
    assert {name for name, number in losses(document).items() if number} <= {"unmatched_entries"}
