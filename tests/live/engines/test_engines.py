# SPDX-License-Identifier: Apache-2.0
"""The engines agree: two at once on the same calls, and each alone on the same number of them (bpftrace: test_scripts.py).

Counts, outcomes and reasons are equal exactly. Times cannot be: both probe the same instructions, so what one engine does
between the two stamps of a call is part of what the other measures. Two things hold all the same, without any figure for that:
a call of one engine lies between the stamps that the other took of the call around it; and what separates two stamps of one hit
is no more than the quickest call takes by either engine's measure, for its measure contains such separations too.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client, Exchange, h2load, s_time, server_calls
from tests.live.commands.trace import PROGRAM, Document, Trace, counts, losses
from tests.live.exact.test_outcomes import reset_in_the_middle, speak_nonsense
from tests.live.following.test_follow import children
from tests.live.servers.nginx import Nginx, Settings
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("tracing")
ENGINES = ("libbpf", "bcc", "bpftrace")
PAIRS = [("libbpf", engine) for engine in ENGINES[1:]]
# Every one of them is called within a call of SSL_do_handshake, and none within another of them.
WITHIN_HANDSHAKES = ("rsa_ossl_private_encrypt", "ossl_ecdsa_sign", "EVP_PKEY_keygen", "ecx_derive")


def why_not(engine: str) -> str:
    """Why this machine can't trace by the engine, in the command's own words; "" where it can."""
    command = [PROGRAM, "trace", "-p", "1", "--engine", engine, "--hist", "0:1:1", "-d", "0.1"]
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stderr
    return said.strip() if "can't trace" in said else ""


@pytest.fixture(scope="session")
def lacking() -> dict[str, str]:
    """What each engine lacks here."""
    return {engine: why_not(engine) for engine in ENGINES}


def skip_without(lacking: dict[str, str], *engines: str) -> None:
    for engine in engines:
        if lacking[engine]:
            pytest.skip(lacking[engine])


def traced_by(engine: str, server: Nginx) -> Trace:
    return Trace(server.master_pid, options=("--engine", engine))


def mixed_load(server: Nginx) -> None:
    """Handshakes of all kinds, some that fail, reads and writes; over when this returns."""
    h2load(server.port["ecdsa"], 200, parallel=8)
    s_time(server.port["rsa"], 1, "-tls1_2")
    client = Client(server.port["rsa"], TLS_1_3)
    client.connect_times(10, session=client.connect(requests=20).session)
    for _ in range(5):
        speak_nonsense(server.port["rsa"])
        reset_in_the_middle(server.port["ecdsa"])
    server.wait_idle()


def tallies(document: Document) -> dict[tuple[str, str], tuple[int, Counter[str]]]:
    """Calls and their reasons by function and outcome."""
    found = {}
    for row in document["functions"]:
        found[row["function"], row["outcome"]] = (row["count"], Counter(row["reasons"]))
    return found


def total_ns(document: Document, *functions: str) -> int:
    return sum(row["total_ns"] for row in document["functions"] if row["function"] in functions)


def medians_ns(document: Document) -> dict[tuple[str, str], int]:
    return {(row["function"], row["outcome"]): row["p50_ns"] for row in document["functions"]}


def assert_nested(inner: Document, outer: Document) -> None:
    """What one engine saw within handshakes fits into the handshakes that the other saw, and these into the run."""
    assert total_ns(inner, *WITHIN_HANDSHAKES) < total_ns(outer, "SSL_do_handshake")
    for function in WITHIN_HANDSHAKES:
        longest = max(row["max_ns"] for row in outer["functions"] if row["function"] == "SSL_do_handshake")
        assert all(row["max_ns"] < longest for row in inner["functions"] if row["function"] == function)


def assert_medians_agree(one: Document, other: Document) -> None:
    """They differ by no more than the quickest call takes, beside the width of a bucket of the histogram (2^(1/16))."""
    first, second = medians_ns(one), medians_ns(other)
    apart = min(first.values()) + min(second.values())
    for row, median in first.items():
        if tallies(one)[row][0] >= 100:
            assert abs(median - second[row]) <= apart + 0.05 * max(median, second[row]), row


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_two_engines_at_once(certificates: Path, lacking: dict[str, str], pair: tuple[str, str]) -> None:
    skip_without(lacking, *pair)
    # bpftrace's counters may lose a call where two workers count at the same time; the others' may not.
    settings = Settings(workers=1 if "bpftrace" in pair else 2, reuseport=True)
    with Nginx(certificates, settings) as server, traced_by(pair[0], server) as one, traced_by(pair[1], server) as other:
        mixed_load(server)
    documents = one.document, other.document
    assert [document["engine"] for document in documents] == list(pair)
    assert tallies(documents[0]) == tallies(documents[1])
    assert {outcome for _, outcome in tallies(documents[0])} >= {"success", "closed", "retry"}
    for document in documents:
        assert (losses(document), document["in_flight"]) == ({}, 0)
    assert_nested(documents[0], documents[1])
    assert_nested(documents[1], documents[0])
    assert_medians_agree(*documents)


@pytest.mark.parametrize("engine", ENGINES[:2])
def test_each_engine_alone_counts_the_same(certificates: Path, lacking: dict[str, str], engine: str) -> None:
    skip_without(lacking, engine)
    with Nginx(certificates) as server, traced_by(engine, server) as trace:
        exchanges: dict[str, list[Exchange]] = {"rsa": [], "ecdsa": []}
        for key, made in exchanges.items():
            for version in (TLS_1_2, TLS_1_3):
                made += Client(server.port[key], version).connect_times(10, requests=3)
        server.wait_idle()
    expected = Counter(server_calls(exchanges["rsa"], "rsa")) + Counter(server_calls(exchanges["ecdsa"], "ecdsa"))
    assert counts(trace.document, list(expected)) == dict(expected)
    assert losses(trace.document) == {}


def test_a_killed_bcc_engine_leaves_nothing(certificates: Path, lacking: dict[str, str], tmp_path: Path) -> None:
    """No link, no program, no temporary file; the server serves on."""
    skip_without(lacking, "bcc")
    assert shutil.which("bpftool")
    before = kernel_objects()
    with Nginx(certificates) as server:
        command = [PROGRAM, "trace", "-p", str(server.master_pid), "--engine", "bcc"]
        environment = {"TMPDIR": str(tmp_path), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as traced:
            assert traced.stderr
            assert traced.stderr.readline().startswith("Tracing ")
            assert kernel_objects() > before
            Client(server.port["ecdsa"], TLS_1_3).connect()
            traced.send_signal(signal.SIGKILL)
        Client(server.port["ecdsa"], TLS_1_3).connect()
        server.wait_idle()
        assert settles_at(before)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "interval"), [(signal.SIGKILL, ()), (signal.SIGTERM, ("-i", "0.2"))], ids=["killed", "ended, in intervals"]
)
def test_a_bpftrace_that_ends_by_itself_is_an_error(
    certificates: Path, lacking: dict[str, str], interval: tuple[str, ...], number: signal.Signals
) -> None:
    """Nothing is counted from then on, so what it had counted is no report of the run."""
    skip_without(lacking, "bpftrace")
    with Nginx(certificates) as server:
        command = [PROGRAM, "trace", "-p", str(server.master_pid), "--engine", "bpftrace", "-d", "60", *interval]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as traced:
            assert traced.stderr
            assert traced.stderr.readline().startswith("Tracing ")
            (bpftrace,) = children(traced.pid)
            os.kill(bpftrace, number)
            wait_for(lambda: has_ended(bpftrace), 60)  # a tenth of a second for each probe, on an idle machine
            traced.send_signal(signal.SIGINT)
            said = traced.stderr.read()
        assert traced.returncode == 1
        assert said.startswith("ssllatency: bpftrace ended during the run")
        assert said.count("\n") == 1


def has_ended(pid: int) -> bool:
    """Whether a process is over, though nobody may have asked for its status yet."""
    with suppress(OSError):
        return not Path(f"/proc/{pid}/cmdline").read_bytes()
    return True


def kernel_objects() -> set[tuple[str, int]]:
    """The numbers of all links and programs that trace, as the kernel has them."""
    found = set()
    for kind in ("link", "prog"):
        shown = subprocess.run(["bpftool", "-j", kind, "show"], check=True, capture_output=True, text=True).stdout
        found |= {(kind, each["id"]) for each in json.loads(shown or "[]") if kind == "link" or each["type"] == "kprobe"}
    return found


def settles_at(wanted: set[tuple[str, int]]) -> bool:
    """Whether nothing else is left; the kernel frees programs some time after their last user."""
    deadline = time.monotonic() + 10
    while kernel_objects() != wanted and time.monotonic() < deadline:
        time.sleep(0.05)
    return kernel_objects() == wanted
