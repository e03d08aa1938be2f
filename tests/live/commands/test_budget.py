# SPDX-License-Identifier: Apache-2.0
"""The budget on a server at full speed: what tracing costs, what stays exact, and what is estimated."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.clients.counted import TLS_1_3, Client
from tests.live.commands.handshakes import Shakes, assert_books, endings
from tests.live.commands.snoop import Snoop
from tests.live.commands.trace import PROGRAM, Trace, count, losses
from tests.live.servers.nginx import Nginx, Settings
from tests.live.servers.python_ssl import TlsServer, TlsSettings

pytestmark = pytest.mark.usefixtures("tracing")

BUDGET = 0.02
FULL_COST = 0.2  # and more, of the CPU time of an nginx that does nothing else
HANDSHAKES = 15


@contextmanager
def full_speed(nginx: Nginx, key: str = "rsa", *, anew: bool = False) -> Iterator[None]:
    """Clients that ask and ask, over connections that they keep, or over a new one each time."""
    load = [
        "wrk",
        "-t1",
        "-c8",
        "-d60",
        *(["-H", "Connection: close"] if anew else []),
        f"https://127.0.0.1:{nginx.port[key]}/",
    ]
    with subprocess.Popen(load, stdout=subprocess.DEVNULL) as wrk:
        time.sleep(1)  # the handshakes of connections that are kept are over
        try:
            yield
        finally:
            wrk.kill()


def test_reads_and_writes_go_into_windows_and_handshakes_stay_exact(certificates: Path) -> None:
    """A server at full speed, whose own counters tell how much it does meanwhile."""
    options = ("--budget", "5%")
    with Nginx(certificates) as nginx, full_speed(nginx), Trace(nginx.master_pid, options=options) as trace:
        before = nginx.status()
        Client(nginx.port["ecdsa"], TLS_1_3).connect_times(HANDSHAKES)
        time.sleep(10)
        after = nginx.status()
    document = trace.document
    requests = after.requests - before.requests
    assert count(document, "SSL_do_handshake") == HANDSHAKES
    sampled = next(part for part in document["sampling"] if "SSL_write" in part["functions"])
    assert set(sampled["functions"]) <= {"SSL_read", "SSL_write", "SSL_shutdown"}
    assert sampled["windows"] >= 1  # each some seconds after the last where hits are dear
    assert sampled["scaled_by"] == "system calls"
    assert sampled["watched_s"] < sampled["duration_s"] / 2
    estimates = {(row["function"], row["outcome"]): row for row in sampled["estimates"]}
    estimate = estimates["SSL_write", "success"]["count"]
    assert requests / 3 < estimate["value"] < requests * 3
    assert estimate["low"] is None or estimate["low"] < estimate["value"] < estimate["high"]
    assert count(document, "SSL_write") < requests / 2
    assert document["cost"]["share"] < FULL_COST / 2
    assert losses(document) in ({}, {"unmatched_exits": 1})  # of the call that the worker may be in when probes are set


def test_a_light_load_is_counted_wholly(certificates: Path) -> None:
    with Nginx(certificates) as nginx, Trace(options=("-p", str(nginx.master_pid), "--budget", "50%")) as trace:
        for _ in range(5):
            subprocess.run(
                ["curl", "-ksS", f"https://127.0.0.1:{nginx.port['rsa']}/"], check=True, capture_output=True, timeout=30
            )
        nginx.wait_idle()
    assert "sampling" not in trace.document
    assert count(trace.document, "SSL_do_handshake") == 5
    assert trace.document["cost"]["share"] < 0.5


def test_handshakes_alone_keep_the_budget_at_full_speed(certificates: Path) -> None:
    """Reads and writes aren't watched, so there is nothing to go into windows."""
    options = ("--budget", f"{BUDGET:.0%}")
    with Nginx(certificates) as nginx, full_speed(nginx), Shakes(nginx.master_pid, options=options) as shakes:
        Client(nginx.port["ecdsa"], TLS_1_3).connect_times(HANDSHAKES)
        time.sleep(5)
    assert endings(shakes.document) == {"success": HANDSHAKES}
    assert_books(shakes)
    assert not any("budget" in note for note in shakes.document["notes"])
    assert shakes.document["cost"]["share"] < BUDGET


def test_a_recording_keeps_the_budget_and_its_intervals_add_up(certificates: Path, tmp_path: Path) -> None:
    file = tmp_path / "recording.jsonl"
    with Nginx(certificates) as nginx, full_speed(nginx):
        words = [PROGRAM, "record", "-p", str(nginx.master_pid), "--budget", "2%", "-d", "10", "-i", "3", "-o", str(file)]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as record:
            assert record.stderr is not None
            while not (line := record.stderr.readline()).startswith("Tracing"):
                assert line, "it ended before it was attached"
            Client(nginx.port["ecdsa"], TLS_1_3).connect_times(HANDSHAKES)
            record.stderr.read()
    assert record.returncode == 0
    report = subprocess.run([PROGRAM, "report", str(file), "--json"], capture_output=True, text=True, check=True, timeout=60)
    document = json.loads(report.stdout)
    assert endings(document) == {"success": HANDSHAKES}
    assert count(document, "SSL_do_handshake") == HANDSHAKES
    intervals = [json.loads(line) for line in file.read_text().splitlines()[1:-1]]
    sampled = next(part for part in document["sampling"] if "SSL_write" in part["functions"])
    parts = [part for interval in intervals for part in interval.get("sampling", []) if "SSL_write" in part["functions"]]
    strata = [one for part in parts for chain in part["strata"] for one in chain]
    assert sampled["windows"] == sum(0 < one["watched_s"] < one["length_s"] for one in strata)
    seen = sum(sum(calls["counts"]) for one in strata for calls in one["calls"] if calls["function"] == "SSL_write")
    assert 0 < seen <= count(document, "SSL_write")
    assert document["cost"]["share"] < FULL_COST / 2


def test_handshakes_within_reads_are_counted_whatever_the_budget(certificates: Path) -> None:
    """Where they take place is watched, and not the reads, even with a budget that anything exceeds."""
    with (
        TlsServer(certificates, TlsSettings(lazy=True)) as server,
        Shakes(server.pid, options=("--budget", "0.01%")) as shakes,
    ):
        Client(server.port, TLS_1_3).connect_times(HANDSHAKES)
        assert server.ends() == {"": HANDSHAKES}
    assert endings(shakes.document) == {"success": HANDSHAKES}
    assert not any("reads and writes" in note for note in shakes.document["notes"])


def test_without_an_option_the_server_and_others_are_spared(certificates: Path) -> None:
    """wrk maps the same libraries, isn't traced, and makes as many calls as the server."""
    with Nginx(certificates) as nginx, full_speed(nginx), Trace(nginx.master_pid, exact=False) as trace:
        Client(nginx.port["ecdsa"], TLS_1_3).connect_times(HANDSHAKES)
        time.sleep(8)
    document = trace.document
    assert count(document, "SSL_do_handshake") == HANDSHAKES
    sampled = next(part for part in document["sampling"] if "SSL_write" in part["functions"])
    assert sampled["watched_s"] < sampled["duration_s"] / 2
    assert sampled["exact_share"] > 0.1
    cost = document["cost"]
    assert cost["share"] < 0.08
    assert cost["other_hits"] > 0
    assert cost["other_ns"] < 0.08 * 1e9 * document["duration_s"]


def test_exact_lifts_the_budget(certificates: Path) -> None:
    with Nginx(certificates) as nginx, full_speed(nginx), Trace(nginx.master_pid) as trace:
        time.sleep(3)
    assert "sampling" not in trace.document
    assert trace.document["cost"]["share"] > 0.08


def test_snoop_keeps_the_budget_and_says_so(certificates: Path) -> None:
    with Nginx(certificates) as nginx, full_speed(nginx), Snoop(nginx.master_pid, options=("--json",), exact=False) as snoop:
        time.sleep(6)
    assert snoop.status == 0
    assert snoop.output.count('"SSL_write"') > 100
    said = next(line for line in snoop.said.splitlines() if "calls were watched" in line)
    assert "SSL_write" in said
    assert "--exact watches all the time, for" in said


def test_perf_events_are_given_up_where_they_cost_too_much(certificates: Path) -> None:
    """As on kernels that have nothing else."""
    with (
        Nginx(certificates) as nginx,
        full_speed(nginx),
        Trace(nginx.master_pid, options=("--attach", "perf"), exact=False) as trace,
    ):
        time.sleep(8)
        before = nginx.status()
        Client(nginx.port["ecdsa"], TLS_1_3).connect_times(HANDSHAKES)
        time.sleep(2)
        after = nginx.status()
    document = trace.document
    assert any("was given up" in note for note in document["notes"])
    assert count(document, "SSL_do_handshake") >= HANDSHAKES
    sampled = next(part for part in document["sampling"] if "SSL_write" in part["functions"])
    assert sampled["watched_s"] < sampled["duration_s"] / 2
    assert after.requests > before.requests


def test_bpftrace_is_refused_where_it_would_cost_too_much(certificates: Path) -> None:
    words = [PROGRAM, "trace", "--engine", "bpftrace", "-d", "1"]
    with Nginx(certificates) as nginx:
        target = ["-p", str(nginx.master_pid)]
        idle = subprocess.run([*words, *target], capture_output=True, text=True, check=False, timeout=60)
        with full_speed(nginx):
            busy = subprocess.run([*words, *target], capture_output=True, text=True, check=False, timeout=60)
    assert idle.returncode == 0, idle.stderr
    assert busy.returncode == 1
    assert busy.stderr.startswith("ssllatency: bpftrace can't remove probes while it runs, and would take about ")
    assert "--exact lifts it." in busy.stderr


def test_phases_go_into_windows_and_handshakes_stay_exact(certificates: Path) -> None:
    """At full speed with a new connection for each request. Each of these handshakes exchanges keys and signs: so each that is
    said to have been watched has that phase, none of the others has, and all of them have the private key's."""
    with (
        Nginx(certificates, Settings(tickets=False)) as nginx,
        full_speed(nginx, "ecdsa", anew=True),
        Shakes(nginx.master_pid, options=("--budget", "1%")) as shakes,
    ):
        time.sleep(8)
    handshakes = shakes.document["handshakes"]
    [group] = [group for group in handshakes["groups"] if group["ending"] == "success"]
    parts, count, unphased = group["parts"], group["count"], group["facts"]["unphased"]
    assert 0 < unphased < count
    assert parts["private_key"]["count"] == count
    assert parts["key_exchange"]["count"] == count - unphased
    assert handshakes["exact_share"] > 0.01
    by_itself = [single for single in shakes.ended("success") if single.get("unphased")]
    assert len(by_itself) == unphased
    assert not any(single["parts_ns"].keys() & {"key_exchange", "session_lookup", "callbacks"} for single in by_itself)
    assert_books(shakes)


def test_phases_of_few_handshakes_are_all_watched(certificates: Path) -> None:
    with Nginx(certificates) as nginx, Shakes(nginx.master_pid, exact=False) as shakes:
        Client(nginx.port["ecdsa"], TLS_1_3).connect_times(HANDSHAKES)
        nginx.wait_idle()
    [group] = shakes.document["handshakes"]["groups"]
    assert group["parts"]["key_exchange"]["count"] == group["count"] == HANDSHAKES
    assert "unphased" not in group["facts"]


def test_a_recording_has_phases_in_windows_as_well(certificates: Path, tmp_path: Path) -> None:
    """wrk resumes its sessions: each was offered, and that counts where the session's lookup was watched."""
    file = tmp_path / "recording.jsonl"
    with Nginx(certificates) as nginx, full_speed(nginx, "ecdsa", anew=True):
        words = [PROGRAM, "record", "-p", str(nginx.master_pid), "--budget", "1%", "-d", "9", "-i", "3", "-o", str(file)]
        subprocess.run(words, check=True, capture_output=True, timeout=60)
    report = subprocess.run([PROGRAM, "report", str(file), "--json"], capture_output=True, text=True, check=True, timeout=60)
    [group] = [group for group in json.loads(report.stdout)["handshakes"]["groups"] if group["ending"] == "success"]
    parts, count, unphased = group["parts"], group["count"], group["facts"]["unphased"]
    assert 0 < unphased < count
    assert parts["key_exchange"]["count"] == count - unphased
    assert 0 < group["facts"]["offered"] == parts["session_lookup"]["count"] < group["resumed"]
    text = subprocess.run([PROGRAM, "report", str(file)], capture_output=True, text=True, check=True, timeout=60).stdout
    assert "Phases but the private key's were watched" in " ".join(text.split())
