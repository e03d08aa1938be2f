# SPDX-License-Identifier: Apache-2.0
"""s2n-tls in a program: each call is counted as the server itself counts it, by what s2n_errno says, and its handshakes as
those of counting clients, with their outcomes, reasons and labels."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.foreign import needed, rust_server
from tests.live.clients import bad
from tests.live.clients.counted import TIMEOUT_S, TLS_1_2, TLS_1_3, Client, Exchange
from tests.live.clients.slow import PAUSE_S, slow_to_shake_hands
from tests.live.commands.handshakes import Shakes, assert_books, endings, for_peer_ns, labels_of
from tests.live.commands.snoop import Snoop
from tests.live.commands.trace import PROGRAM, Document, Trace, count, losses, reasons
from tests.live.servers.nginx import Certificate, make_certificate
from tests.live.servers.programs import started

pytestmark = pytest.mark.usefixtures("tracing")

FUNCTIONS = ("s2n_negotiate", "s2n_recv", "s2n_send", "s2n_shutdown")
RETRIES = ("WANT_READ", "WANT_WRITE", "APPLICATION_INPUT")
TRANSPORT = ("IO", "CLOSED")  # errors after which the connection is gone
LARGE = 8 << 20  # bytes of the response of a server that was started so
SPOKEN = ("version", "cipher", "resumed", "group", "sni", "alpn")
Calls = dict[str, Counter[str]]


@dataclass
class Server:
    """A running server on `port`; `calls()` is how its calls ended so far, by function, once no connection is open."""

    process: subprocess.Popen[str]
    port: int

    @property
    def pid(self) -> int:
        return self.process.pid

    def calls(self) -> Calls:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return {name: Counter(endings) for name, endings in json.loads(self.process.stdout.readline()).items()}


@pytest.fixture(scope="module")
def program() -> Path:
    """The server's file."""
    return needed(rust_server("s2n"))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """Of the servers."""
    return make_certificate("ecdsa", tmp_path_factory.mktemp("certificates"))


@contextmanager
def serving(program: Path, pair: Certificate, kind: str) -> Iterator[Server]:
    """A server of this kind, until the end of the block."""
    with started(program, pair.certificate, pair.key, kind) as (process, port):
        yield Server(process, port)


def outcome_of(ending: str) -> tuple[str, str]:
    """The outcome and the reason that we give of what the server says."""
    if ending in RETRIES:
        return "retry", ending
    return "failure", "SYSCALL" if ending in TRANSPORT else "SSL"


def assert_told_like(document: Document, calls: Calls) -> None:
    """The report has each call that the server counted, under the same outcome and reason, and no other."""
    for function in FUNCTIONS:
        told = calls.get(function, Counter())
        assert count(document, function) == told.pop("success", 0), function
        assert count(document, function, "closed") == told.pop("closed", 0), function
        due: dict[str, Counter[str]] = {"retry": Counter(), "failure": Counter()}
        for ending, number in told.items():
            outcome, reason = outcome_of(ending)
            due[outcome][reason] += number
        for outcome, expected in due.items():
            assert reasons(document, function, outcome) == expected, (function, outcome)
    assert losses(document) == {}
    assert document["in_flight"] == 0


def fail(port: int) -> None:
    """Handshakes that fail, and that end without an error."""
    bad.old_version(port)
    bad.foreign_cipher(port)
    bad.unknown_ca(port)
    bad.end_of_file(port)
    bad.reset(port)


FAILED = Counter({"protocol version unsupported": 1, "cipher not supported": 1, "alert received: unknown CA": 1})


@pytest.mark.parametrize("kind", ["nonblocking", "blocking"])
def test_each_call_and_handshake_counts(program: Path, pair: Certificate, kind: str) -> None:
    """Resumed ones and those that fail as well. A negotiation that is made again counts as a call, not as a handshake."""
    exchanges: list[Exchange] = []
    with serving(program, pair, kind) as server, Trace(server.pid) as trace, Shakes(server.pid) as shakes:
        for version in (TLS_1_2, TLS_1_3):
            client = Client(server.port, version)
            exchanges += client.connect_times(3, requests=2)
            exchanges += client.connect_times(2, session=exchanges[-1].session)
        fail(server.port)
        calls = server.calls()
    assert [one.resumed for one in exchanges] == 2 * [False, False, False, True, True]
    assert calls["s2n_negotiate"]["success"] == 2 * len(exchanges)
    assert_told_like(trace.document, calls)
    assert endings(shakes.document) == {"success": len(exchanges), "failure": 3, "abandoned": 2}
    told = [(one.version, one.cipher, "yes" if one.resumed else "no") for one in exchanges]
    assert labels_of(shakes.ended("success"), "version", "cipher", "resumed") == told
    assert labels_of(shakes.singles, "role") == [("server",)] * (len(exchanges) + 5)
    assert Counter(single["reason"] for single in shakes.ended("failure")) == FAILED
    assert_books(shakes)


def test_labels_are_those_that_the_server_tells(program: Path, pair: Certificate) -> None:
    made = [bad.context(version) for version in (TLS_1_2, TLS_1_3)]
    made[1].set_alpn_protocols(["http/1.1"])
    with serving(program, pair, "nonblocking") as server:
        with Shakes(server.pid, options=("--by", ",".join((*SPOKEN, "port", "peer")))) as shakes:
            for context, name in ((made[0], None), (made[1], "www.example.org"), (made[1], None)):
                ask(server.port, context, name)
            told = server.calls()["handshakes"]
        described = [" ".join(spoken(single["labels"])) for single in shakes.ended("success")]
    assert Counter(described) == {without_number(text): number for text, number in told.items()}
    assert labels_of(shakes.ended("success"), "port", "peer") == 3 * [(str(server.port), "127.0.0.0/24")]


def ask(port: int, made: ssl.SSLContext, name: str | None = None) -> None:
    """One connection with one request and its response."""
    with bad.plain(port) as plain, made.wrap_socket(plain.dup(), server_hostname=name) as tls:
        tls.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert tls.recv(65536)
        tls.unwrap()


def without_number(described: str) -> str:
    """What the server says of a handshake, without the cipher suite's number."""
    version, cipher, _, *others = described.split()
    return " ".join((version, cipher, *others))


def spoken(labels: dict[str, str]) -> list[str]:
    """A handshake's labels in the server's words."""
    version = {"TLSv1.2": "33", "TLSv1.3": "34"}[labels["version"]]
    is_kem = "MLKEM" in labels["group"]
    curve, kem = ("NONE", labels["group"]) if is_kem else (labels["group"].replace("none", "NONE"), "NONE")
    resumed = "resumed" if labels["resumed"] == "yes" else "full"
    return [version, labels["cipher"], resumed, curve, kem, labels["sni"], labels["alpn"]]


def test_its_client_counts_as_one_and_agrees_by_ml_kem(program: Path, pair: Certificate) -> None:
    """Both sides are s2n's: each process has its own handshakes."""
    words = [program, "connect"]
    with (
        serving(program, pair, "nonblocking") as server,
        subprocess.Popen([*words, str(server.port), "5"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client,
    ):
        try:
            with Shakes(client.pid, options=("--role", "client")) as own, Shakes(server.pid) as served:
                said, _ = client.communicate("\n", timeout=60)
                told = server.calls()["handshakes"]
        finally:
            client.kill()
    assert json.loads(said)["s2n_negotiate"]["success"] == 5
    for shakes, role in ((own, "client"), (served, "server")):
        assert endings(shakes.document) == {"success": 5}
        assert labels_of(shakes.singles, "role", "version", "resumed") == 5 * [(role, "TLSv1.3", "no")]
    assert [single["labels"]["group"] in text for single in served.singles for text in told] == [True] * 5
    assert labels_of(own.singles, "group", "cipher") == labels_of(served.singles, "group", "cipher")
    assert "MLKEM" in own.singles[0]["labels"]["group"]


def test_a_key_that_is_used_elsewhere_is_a_wait_for_the_application(program: Path, pair: Certificate) -> None:
    with serving(program, pair, "later") as server, Trace(server.pid) as trace, Shakes(server.pid) as shakes:
        Client(server.port, TLS_1_3).connect_times(4)
        calls = server.calls()
    assert calls["s2n_negotiate"]["APPLICATION_INPUT"] == 4
    assert_told_like(trace.document, calls)
    assert endings(shakes.document) == {"success": 4}
    for single in shakes.singles:
        assert single["parts_ns"]["wait_application"] > 1_000_000  # of which the server sleeps two
    assert_books(shakes)


def test_a_slow_client_is_waited_for(program: Path, pair: Certificate) -> None:
    with serving(program, pair, "nonblocking") as server, Shakes(server.pid) as shakes:
        for _ in range(3):
            slow_to_shake_hands(TLS_1_3, server.port, lambda: time.sleep(PAUSE_S))
        server.calls()
    assert endings(shakes.document) == {"success": 3}
    assert all(for_peer_ns(single) > PAUSE_S * 1e9 / 2 for single in shakes.singles)


def read_late(port: int) -> None:
    """One connection with one request, which takes little of the response at a time."""
    with socket.socket() as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        plain.settimeout(TIMEOUT_S)
        plain.connect(("127.0.0.1", port))
        with bad.context(TLS_1_3).wrap_socket(plain) as tls:
            tls.sendall(b"GET / HTTP/1.1\r\n\r\n")
            time.sleep(PAUSE_S)
            left = LARGE
            while left:
                piece = tls.recv(min(left, 65536))
                assert piece
                left -= len(piece)
            tls.unwrap()


def test_what_a_call_waits_for_is_told_by_its_output(program: Path, pair: Certificate) -> None:
    """A client that doesn't read what comes, until the server can send no more."""
    with serving(program, pair, "large") as server, Trace(server.pid) as trace:
        read_late(server.port)
        calls = server.calls()
    assert calls["s2n_send"]["WANT_WRITE"] > 0
    assert_told_like(trace.document, calls)


def test_each_call_is_a_line_of_snoop(program: Path, pair: Certificate) -> None:
    with serving(program, pair, "nonblocking") as server, Snoop(server.pid, options=("--json",)) as shown:
        Client(server.port, TLS_1_3).connect_times(3)
        bad.unknown_ca(server.port)
        calls = server.calls()
    events = [json.loads(line) for line in shown.output.splitlines()]
    told = Counter((event["function"], event["outcome"]) for event in events)
    due: Counter[tuple[str, str]] = Counter()
    for function in FUNCTIONS:
        for ending, number in calls[function].items():
            due[function, ending if ending in ("success", "closed") else outcome_of(ending)[0]] += number
    assert told == due


def test_engines_that_know_no_threads_count_nothing(program: Path, pair: Certificate) -> None:
    with serving(program, pair, "blocking") as server:
        for engine in ("bcc", "bpftrace"):
            words = [PROGRAM, "trace", "-p", str(server.pid), "-d", "1", "--engine", engine, "--exact"]
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
            assert (done.returncode, done.stdout) == (1, "")
            assert f"none of the functions can be traced by {engine}: use another engine." in done.stderr
