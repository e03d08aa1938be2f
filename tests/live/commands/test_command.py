# SPDX-License-Identifier: Apache-2.0
"""The command as people use it: targets, intervals, signals, attachment methods, and what stays behind (nothing)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.live.clients.counted import TLS_1_3, Client, h2load
from tests.live.commands.trace import PROGRAM, Trace, count, links_left, links_of, losses
from tests.live.servers.nginx import Nginx, Settings, libssl_of
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("tracing")


def start(*words: object) -> subprocess.Popen[str]:
    """The trace, attached."""
    command = [PROGRAM, "trace", *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    said = []
    for line in process.stderr:
        if line.startswith("Tracing "):
            return process
        said.append(line)
    raise AssertionError("".join(said))


def children(pid: int) -> list[int]:
    """The processes that a process has started and that are still there."""
    with suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


@pytest.mark.parametrize("method", ["perf", "multi", "session"])
def test_each_way_of_attaching_counts_the_same(certificates: Path, method: str) -> None:
    with Nginx(certificates) as server, Trace(server.master_pid, options=("--attach", method)) as trace:
        Client(server.port["rsa"], TLS_1_3).connect_times(20)
        server.wait_idle()
    functions = ("SSL_do_handshake", "SSL_read", "SSL_write", "SSL_shutdown", "rsa_ossl_private_encrypt")
    assert [count(trace.document, function) for function in functions] == [20] * 5
    assert losses(trace.document) == {}


def test_return_probes_can_be_done_without(certificates: Path) -> None:
    with Nginx(certificates) as server, Trace(server.master_pid, options=("--no-return-probes",)) as trace:
        Client(server.port["rsa"], TLS_1_3).connect_times(20)
        server.wait_idle()
    missing = {one["function"] for one in trace.document["missing"]}
    for function in {"SSL_do_handshake", "SSL_read", "SSL_write", "SSL_shutdown"} - missing:
        assert count(trace.document, function) == 20
    assert {"SSL_read", "SSL_write"} & missing == set()
    assert losses(trace.document) == {}


@pytest.mark.parametrize("target", ["comm", "library", "all"])
def test_other_ways_of_naming_the_target(certificates: Path, target: str) -> None:
    with Nginx(certificates) as server:
        words = {"comm": ["--comm", "nginx"], "library": ["--library", libssl_of(server.master_pid)], "all": ["--all"]}[target]
        process = start(*words, "--json", "--by-process", "--exact")
        Client(server.port["rsa"], TLS_1_3).connect_times(10)
        server.wait_idle()
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=20)
        workers = server.worker_pids()
    document = json.loads(output)
    ours = [row for row in document["functions"] if row["pid"] in workers]
    found = {row["function"]: row["count"] for row in ours if row["outcome"] == "success"}
    assert found["SSL_do_handshake"] == found["SSL_read"] == found["SSL_write"] == 10


@pytest.mark.smoke
def test_intervals_tell_each_call_once(certificates: Path) -> None:
    with Nginx(certificates) as server:
        process = start("-p", server.master_pid, "-i", "0.5", "-d", "3", "--json", "--exact")
        began = time.monotonic()
        client, made = Client(server.port["ecdsa"], TLS_1_3), 0
        while time.monotonic() < began + 2:
            made += len(client.connect_times(5))
        server.wait_idle()
        output, _ = process.communicate(timeout=20)
    documents: list[dict[str, Any]] = [json.loads(line) for line in output.splitlines()]
    assert process.returncode == 0
    assert 1 < len(documents) <= 6  # a busy machine may be late for one
    per_interval = [count(document, "SSL_do_handshake") for document in documents]
    assert sum(per_interval) == made
    assert sum(1 for number in per_interval if number) > 1
    started = [datetime.fromisoformat(document["started"]) for document in documents]
    lengths = [document["duration_s"] for document in documents[:-1]]
    assert [(after - before).total_seconds() for before, after in pairwise(started)] == pytest.approx(lengths, abs=0.002)
    for document in documents:
        for row in document["functions"]:
            assert row["count"] > 0
            assert row["max_ns"] is None or row["max_ns"] * 1.001 >= row["p50_ns"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_the_report(certificates: Path, number: signal.Signals) -> None:
    with Nginx(certificates) as server:
        process = start("-p", server.master_pid)
        Client(server.port["ecdsa"], TLS_1_3).connect_times(3)
        server.wait_idle()
        process.send_signal(number)
        output, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert errors == ""
    assert "@hist[SSL_do_handshake]:" in output
    assert re.search(r"@stat\[SSL_do_handshake\]: count 3, average \d+, total \d+", output)
    assert "retries (WANT_READ" in output


def test_it_ends_when_all_targets_have_ended(certificates: Path) -> None:
    with Nginx(certificates) as server:
        process = start("-p", server.master_pid, "--json")
        Client(server.port["ecdsa"], TLS_1_3).connect_times(3)
        server.wait_idle()
    output, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "have ended" in errors
    document = json.loads(output)
    assert count(document, "SSL_do_handshake") == 3
    assert {target["comm"] for target in document["targets"]} == {"nginx"}


def test_nothing_stays_behind_even_when_killed(certificates: Path) -> None:
    with Nginx(certificates, Settings(workers=2)) as server:
        client = Client(server.port["ecdsa"], TLS_1_3)
        for number in (signal.SIGINT, signal.SIGKILL):
            process = start("-p", server.master_pid)
            links = links_of(process.pid)
            assert links_left(links) == links != set()
            client.connect_times(2)
            process.send_signal(number)
            process.communicate(timeout=20)
            client.connect_times(2)
            assert links_left(links) == set()


@pytest.mark.parametrize("kept", [False, True])
def test_a_signal_at_any_moment_of_the_start_ends_it_and_all_that_it_started(
    certificates: Path, tmp_path: Path, *, kept: bool
) -> None:
    """Without a report before the probes are set, with one after. `kept`: plans of the libraries are."""
    with Nginx(certificates) as server:
        client = Client(server.port["ecdsa"], TLS_1_3)
        command = [PROGRAM, "handshakes", "-p", str(server.master_pid)]
        environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "kept"), _MARK: str(tmp_path)}
        subprocess.run([*command, "-d", "0.1"], env=environment, check=True, capture_output=True)
        for number, delay_s in enumerate(step * 0.11 for step in range(8)):
            if not kept:
                environment["XDG_CACHE_HOME"] = str(tmp_path / str(number))
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
            time.sleep(delay_s)
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=20)
            if errors.startswith("Tracing "):
                assert process.returncode == 0
                assert output
            else:
                assert process.returncode in (130, -signal.SIGINT)  # the latter before Python was up
                assert (output, errors) == ("", "")
            wait_for(lambda: not marked(str(tmp_path)))
        client.connect_times(2)


_MARK = "SSLLATENCY_TEST_MARK"


def marked(value: str) -> list[str]:
    """The processes whose environment holds this mark."""
    mark, found = f"{_MARK}={value}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(folder.name)
    return found


def test_attaching_and_detaching_under_load(certificates: Path) -> None:
    with Nginx(certificates, Settings(workers=2)) as server:
        completed: list[int] = []
        enough = threading.Event()

        def ask() -> None:
            while not enough.is_set():
                completed.append(h2load(server.port["ecdsa"], 1000, parallel=20))

        load = threading.Thread(target=ask)
        load.start()
        try:
            for _ in range(4):
                process = start("-p", server.master_pid, "-d", "0.3", "--json")
                output, _ = process.communicate(timeout=20)
                assert process.returncode == 0
                assert set(losses(json.loads(output))) <= {"unmatched_exits"}  # calls that ran when the trace began
        finally:
            enough.set()
            load.join()
    assert completed
    assert set(completed) == {1000}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-p", "4194303"], "there is no process 4194303"),
        (["-p", "SLEEP"], "maps no TLS library"),
        (["--comm", "no-such-name"], "no process is named no-such-name"),
        (["--library", "/no/such/library"], "can't open the library /no/such/library"),
        (["--library", str(PROGRAM)], "no process maps"),
    ],
)
def test_a_target_that_isnt_there_is_one_sentence(words: list[str], sentence: str) -> None:
    with subprocess.Popen(["sleep", "60"]) as bare:
        named = [str(bare.pid) if word == "SLEEP" else word for word in words]
        done = subprocess.run([PROGRAM, "trace", *named], capture_output=True, text=True, check=False)
        bare.kill()
    assert done.returncode == 1
    assert done.stdout == ""
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_privileges_it_says_so_and_how_to_fix_it() -> None:
    command = [
        "setpriv",
        "--bounding-set=-all",
        "--inh-caps=-all",
        sys.executable,
        "-m",
        "ssllatency",
        "trace",
        "--all",
        "-d",
        "1",
    ]
    environment = os.environ | {"PYTHONPATH": str(PROGRAM.parents[1] / "python")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "CAP_BPF" in done.stderr
    assert done.stderr.count("\n") == 1
