# SPDX-License-Identifier: Apache-2.0
"""BoringSSL and AWS-LC, linked into a program that isn't stripped: each call is counted as the server itself counts it, by what
SSL_get_error says, and waits have the names that these libraries give them."""

from __future__ import annotations

import json
import ssl
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.foreign import needed, rust_server
from tests.live.clients import bad
from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client, Exchange
from tests.live.commands.handshakes import Shake, Shakes, assert_books, endings, labels_of
from tests.live.commands.trace import Document, Trace, count, losses, reasons
from tests.live.servers.named_certificates import bytes_of, certify, make_named_certificate
from tests.live.servers.nginx import make_certificate
from tests.live.servers.programs import started

pytestmark = pytest.mark.usefixtures("tracing")

VERSIONS = (TLS_1_2, TLS_1_3)
NAMES = {
    "1": "SSL",
    "2": "WANT_READ",
    "3": "WANT_WRITE",
    "4": "WANT_X509_LOOKUP",
    "5": "SYSCALL",
    "6": "ZERO_RETURN",
    "12": "PENDING_CERTIFICATE",
    "13": "WANT_PRIVATE_KEY_OPERATION",
    "16": "WANT_CERTIFICATE_VERIFY",
}
SIGNATURES = {"rsa": "rsa_pss_rsae_sha256", "ecdsa": "ecdsa_secp256r1_sha256"}
OUTCOMES = {"SSL": "failure", "SYSCALL": "failure", "ZERO_RETURN": "closed"}  # of all others "retry"
SOURCES = ("127.0.0.1", "127.1.2.3", "127.1.2.4", "127.1.2.3")
FUNCTIONS = ("SSL_accept", "SSL_read", "SSL_write", "SSL_shutdown")


@dataclass
class Server:
    """A running server of the two; `calls()` is how its calls ended so far, once no connection is open."""

    process: subprocess.Popen[str]

    @property
    def pid(self) -> int:
        return self.process.pid

    def calls(self) -> dict[str, Counter[str]]:
        """For each function how many calls ended how, by names: "success", or what SSL_get_error's number is called."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        told = json.loads(self.process.stdout.readline())
        return {name: Counter({NAMES.get(code, code): n for code, n in calls.items()}) for name, calls in told.items()}


@pytest.fixture(params=["boringssl", "aws-lc"])
def program(request: pytest.FixtureRequest) -> Path:
    """The server's file."""
    return needed(rust_server(request.param))


@contextmanager
def serving(*words: object) -> Iterator[tuple[Server, int]]:
    """The server and its port, until the end of the block."""
    with started(*words) as (process, port):
        yield Server(process), port


def ask(
    port: int,
    made: ssl.SSLContext,
    session: ssl.SSLSession | None = None,
    name: str | None = None,
    source: str = "127.0.0.1",
) -> ssl.SSLSession | None:
    """One connection from this address with one request and its response; the session."""
    with bad.plain(port, source) as plain, made.wrap_socket(plain.dup(), server_hostname=name, session=session) as tls:
        tls.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert tls.recv(65536)
        session = tls.session
        tls.unwrap()
    return session


def assert_told_like(document: Document, calls: dict[str, Counter[str]]) -> None:
    """The report has each call that the server counted, under the same outcome and reason, and no other."""
    for function in FUNCTIONS:
        told = calls.get(function, Counter())
        assert count(document, function) == told.pop("success", 0), function
        for outcome in ("failure", "closed", "retry"):
            due = {name: number for name, number in told.items() if OUTCOMES.get(name, "retry") == outcome}
            assert reasons(document, function, outcome) == due, function
    assert losses(document) == {}
    assert document["in_flight"] == 0


def assert_labelled_like(singles: list[Shake], exchanges: list[Exchange]) -> None:
    """Each handshake has the labels that its client has negotiated; before TLS 1.3 a resumed one agrees on no group."""
    assert labels_of(singles, "version", "cipher", "resumed", "group") == [
        (
            exchange.version,
            exchange.cipher,
            "yes" if exchange.resumed else "no",
            "none" if exchange.resumed and exchange.version == "TLSv1.2" else "x25519",
        )
        for exchange in exchanges
    ]


def phases_of(singles: list[Shake]) -> list[set[str]]:
    """What each was seen to do."""
    return [single["parts_ns"].keys() & {"private_key", "key_exchange", "peer_verification"} for single in singles]


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_every_call(certificates: Path, program: Path, kind: str) -> None:
    pair = make_certificate(kind, certificates)
    with serving(program, pair.certificate, pair.key) as (server, port):
        with Trace(server.pid) as trace, Shakes(server.pid) as shakes:
            exchanges = [made for version in VERSIONS for made in Client(port, version).connect_times(5, requests=4)]
            calls = server.calls()
        later = Client(port, TLS_1_3).connect()
        assert later.responses
    assert (calls["SSL_accept"]["success"], calls["SSL_read"]["success"], calls["SSL_write"]["success"]) == (10, 40, 40)
    assert_told_like(trace.document, calls)
    assert endings(shakes.document) == {"success": 10}
    assert phases_of(shakes.singles) == 10 * [{"private_key", "key_exchange"}]
    assert_labelled_like(shakes.singles, exchanges)
    assert labels_of(shakes.singles, "signature", "client_certificate") == 10 * [(SIGNATURES[kind], "not asked")]
    assert_books(shakes)


@pytest.mark.parametrize(
    ("program", "engine"),
    [("boringssl", "libbpf"), ("boringssl", "bcc"), ("boringssl", "bpftrace"), ("aws-lc", "libbpf")],
    indirect=["program"],
)
def test_what_is_put_off(certificates: Path, tmp_path: Path, program: Path, engine: str) -> None:
    """A certificate that isn't chosen at once, a key elsewhere, and a client's certificate that is checked elsewhere."""
    pair, own = make_certificate("ecdsa", certificates), make_certificate("rsa", tmp_path)
    with (
        serving(program, pair.certificate, pair.key, "later", own.certificate) as (server, port),
        Trace(server.pid, options=("--engine", engine)) as trace,
        Shakes(server.pid) as shakes,
    ):
        for version in VERSIONS:
            Client(port, version, certificate=own).connect_times(5)
        calls = server.calls()
    put_off = ("PENDING_CERTIFICATE", "WANT_X509_LOOKUP", "WANT_PRIVATE_KEY_OPERATION", "WANT_CERTIFICATE_VERIFY")
    assert {name: calls["SSL_accept"][name] for name in ("success", *put_off)} == dict.fromkeys(("success", *put_off), 10)
    assert_told_like(trace.document, calls)
    assert endings(shakes.document) == {"success": 10}
    assert all("wait_application" in single["parts_ns"] for single in shakes.singles)
    assert labels_of(shakes.singles, "signature", "client_certificate") == 10 * [(SIGNATURES["ecdsa"], "given")]
    # The key is elsewhere, so that nothing is signed within a call.
    assert phases_of(shakes.singles) == 10 * [{"key_exchange", "peer_verification"}]
    assert_books(shakes)


def test_handshakes_that_fail(certificates: Path, program: Path) -> None:
    pair = make_certificate("rsa", certificates)
    clients = (bad.no_shared_cipher, bad.nonsense, bad.http, bad.end_of_file, bad.reset, bad.unknown_ca)
    with (
        serving(program, pair.certificate, pair.key) as (server, port),
        Trace(server.pid) as trace,
        Shakes(server.pid) as shakes,
    ):
        for client in (*clients, partial(bad.flipped_bit, TLS_1_3)):
            client(port)
        calls = server.calls()
    assert calls["SSL_accept"]["SSL"] >= 4
    assert_told_like(trace.document, calls)
    ends = endings(shakes.document)
    assert ends.keys() == {"failure", "abandoned"}
    assert sum(ends.values()) == len(clients) + 1
    reasons_told = {cause["reason"] for cause in shakes.document["handshakes"]["causes"]}
    due = {"no shared cipher", "wrong version number", "http request", "decryption failed or bad record mac"}
    assert reasons_told >= due
    assert_books(shakes)


@pytest.fixture(params=["symbols", "stripped"])
def either(request: pytest.FixtureRequest, tmp_path: Path, program: Path) -> Path:
    """The server's file, with its symbols or without."""
    if request.param == "symbols":
        return program
    bare = tmp_path / "bare"
    subprocess.run(["strip", "-o", bare, program], check=True)
    return bare


def test_certificates_of_clients(certificates: Path, tmp_path: Path, either: Path) -> None:
    """Clients that have one when they are asked, and others that have none."""
    pair, own = make_certificate("ecdsa", certificates), make_certificate("rsa", tmp_path)
    with (
        serving(either, pair.certificate, pair.key, "later", own.certificate) as (server, port),
        Shakes(server.pid) as shakes,
    ):
        for version in VERSIONS:
            for client in (Client(port, version, certificate=own), Client(port, version)):
                client.connect_times(2)
        assert server.calls()["SSL_accept"]["success"] == 8
    assert labels_of(shakes.singles, "client_certificate") == 2 * [("given",), ("given",), ("not given",), ("not given",)]
    assert_books(shakes)


@pytest.mark.parametrize("version", VERSIONS)
def test_names_that_clients_ask_for(certificates: Path, either: Path, version: ssl.TLSVersion) -> None:
    """This program has no function that returns the name. It is told of what is resumed as well."""
    pair = make_certificate("rsa", certificates)
    long = f"{'long.' * 8}example"
    with (
        serving(either, pair.certificate, pair.key) as (server, port),
        Shakes(server.pid, options=("--by", "sni")) as shakes,
    ):
        session = ask(port, made := bad.context(version), name="one.example")
        ask(port, made, session, name="one.example")
        ask(port, bad.context(version), name=long)
        ask(port, bad.context(version))
        server.calls()
    assert labels_of(shakes.singles, "version", "resumed", "sni") == [
        (version.name.replace("_", "."), resumed, name)
        for resumed, name in (("no", "one.example"), ("yes", "one.example"), ("no", long), ("no", "none"))
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_ports_and_peers_of_clients(certificates: Path, either: Path, version: ssl.TLSVersion) -> None:
    """Where its BIOs keep a socket isn't known: the kernel tells from which one a handshake's calls read, but for the first."""
    pair = make_certificate("ecdsa", certificates)
    with (
        serving(either, pair.certificate, pair.key) as (server, port),
        Shakes(server.pid, options=("--by", "port,peer", "--peer-prefix", "32,128")) as shakes,
    ):
        shakes.learn_port(port, lambda: ask(port, bad.context(version)))
        for source in SOURCES:
            ask(port, bad.context(version), source=source)
        server.calls()
    shown = labels_of(shakes.singles, "port", "peer")
    assert shown[-len(SOURCES) :] == [(str(port), f"{source}/32") for source in SOURCES]
    assert {*shown[: -len(SOURCES)]} <= {(None, None), (str(port), "127.0.0.1/32")}
    assert shakes.document["handshakes"]["unknown_labels"].keys().isdisjoint(("port", "peer"))


@pytest.mark.parametrize(("version", "kind"), [(TLS_1_2, "rsa"), (TLS_1_3, "ecdsa")])
def test_the_certificate_that_it_serves(tmp_path: Path, either: Path, version: ssl.TLSVersion, kind: str) -> None:
    """Of two full handshakes, one that is refused and one that fails before; resumed ones have none. AWS-LC has one slot for
    RSA's keys and another for those on curves."""
    key = {"rsa": "RSA-2048", "ecdsa": "ECDSA-P-256"}[kind]
    others = [make_named_certificate("RSA-4096", tmp_path, name, 9) for name in ("authority", "root")]
    facts = certify(tmp_path, "boring.example", key, 12, *others)
    with (
        serving(either, tmp_path / "boring.example.crt", tmp_path / "boring.example.key") as (server, port),
        Shakes(server.pid) as shakes,
    ):
        session = ask(port, made := bad.context(version))
        ask(port, made, session)
        ask(port, bad.context(version))
        bad.unknown_ca(port)
        bad.nonsense(port)
        server.calls()
    served = shakes.document["handshakes"]["certificates"]
    assert labels_of(shakes.ended("success"), "resumed") == [("no",), ("yes",), ("no",)]
    assert (sum(one["count"] for one in served), sum(one["unsuccessful"] for one in served)) == (3, 1)
    refused = [single for single in shakes.singles if single["ending"] != "success"]
    assert labels_of(refused, "signature") == [(SIGNATURES[kind],), ("none",)]
    # Where its BIOs keep a socket isn't known: the port is once what threads read is watched.
    assert {one.get("port") for one in served} <= {None, port}
    due = {**facts, "key": key.replace("ECDSA-", "ECDSA "), "issued_by": "itself", "names": 0}
    assert all(due.items() <= one["certificate"].items() for one in served)
    assert {(one["chain"], one["chain_bytes"]) for one in served} == {(2, bytes_of(tmp_path / "boring.example.crt"))}
    assert shakes.document["handshakes"]["certificates_untold"] == 0
    assert_books(shakes)


@pytest.mark.parametrize("memory", ["tickets", "cache"])
def test_callbacks_and_what_looks_sessions_up(certificates: Path, either: Path, memory: str) -> None:
    """Each callback takes 4 ms, as the program says: so a handshake's parts tell how many it had at least. The one for a
    ticket's keys interrupts the look-up of the session; the one that looks into the application's cache is such a look-up."""
    pair, each_ns = make_certificate("ecdsa", certificates), 4_000_000
    names = ("select_certificate_cb", "servername_cb", "alpn_select_cb", "cert_cb", "new_session_cb", "ticket_key_cb sealing")
    cached = memory == "cache"
    with serving(either, pair.certificate, pair.key, "slow", memory) as (server, port), Shakes(server.pid) as shakes:
        before: Counter[str] = Counter()
        due, resumed = [], []
        for version in VERSIONS:
            made = bad.context(version)
            made.set_alpn_protocols(["h2"])
            session = None
            for again in (False, True):
                session = ask(port, made, session, name="one.example")
                called = Counter({name: ends["success"] for name, ends in server.calls().items() if name not in FUNCTIONS})
                now, before = called - before, called
                due.append((sum(now[name] for name in (*names, "ticket_key_cb opening")), now["get_session_cb"]))
                resumed.append("yes" if again and not (cached and version == TLS_1_3) else "no")
    assert labels_of(shakes.singles, "resumed") == [(each,) for each in resumed]
    parts = [single["parts_ns"] for single in shakes.singles]
    for part, (callbacks, lookups) in zip(parts, due, strict=True):
        assert part["callbacks"] >= callbacks * each_ns
        assert part.get("session_lookup", 0) >= lookups * each_ns
    assert [number > 0 for _, number in due] == [cached and each == "yes" for each in resumed]
    looked_up = ["session_lookup" in part for part in parts]
    assert looked_up == [each == "yes" for each in resumed]
    assert {before[name] for name in ("select_certificate_cb", "servername_cb", "alpn_select_cb")} == {4}
    assert_books(shakes)


def test_clients(certificates: Path, tmp_path: Path, either: Path) -> None:
    """The server's side, which is the same program, isn't counted. A client that has a certificate signs."""
    pair, own = make_certificate("ecdsa", certificates), make_certificate("rsa", tmp_path)
    with (
        serving(either, pair.certificate, pair.key, "later", own.certificate) as (_, port),
        Shakes(options=("--library", str(either), "--role", "client")) as shakes,
    ):
        for words in ((), (own.certificate, own.key)):
            command = [either, "connect", str(port), "5", *words]
            told = subprocess.run(command, check=True, timeout=60, capture_output=True, text=True).stdout
            assert json.loads(told)["SSL_connect"]["success"] == 5
    assert endings(shakes.document) == {"success": 10}
    assert labels_of(shakes.singles, "version", "role", "resumed") == 10 * [("TLSv1.3", "client", "no")]
    assert labels_of(shakes.singles, "signature") == 5 * [("none",)] + 5 * [(SIGNATURES["rsa"],)]
    checked = {"key_exchange", "peer_verification"}
    assert phases_of(shakes.singles) == 5 * [checked] + 5 * [checked | {"private_key"}]
    assert not shakes.document["handshakes"].get("certificates")
    assert_books(shakes)


def test_rsa_decrypts_the_key(certificates: Path, program: Path) -> None:
    """TLS 1.2 without Diffie-Hellman: nothing is signed."""
    pair = make_certificate("rsa", certificates)
    with serving(program, pair.certificate, pair.key) as (server, port), Shakes(server.pid) as shakes:
        exchanges = Client(port, TLS_1_2, "AES128-GCM-SHA256").connect_times(5)
        assert server.calls()["SSL_accept"]["success"] == 5
    assert {exchange.cipher for exchange in exchanges} == {"AES128-GCM-SHA256"}
    assert labels_of(shakes.singles, "signature") == 5 * [("none",)]
    assert endings(shakes.document) == {"success": 5}
    assert phases_of(shakes.singles) == 5 * [{"private_key"}]
    assert [(use["operation"], use["key"], use["count"]) for use in shakes.document["handshakes"]["keys"]] == [
        ("decrypt", "RSA-2048", 5)
    ]
    assert_books(shakes)


def test_stripped(certificates: Path, tmp_path: Path, program: Path) -> None:
    """Its functions are found by the errors that they raise: all is counted as with symbols."""
    bare, pair = tmp_path / "bare", make_certificate("rsa", certificates)
    subprocess.run(["strip", "-o", bare, program], check=True)
    with (
        serving(bare, pair.certificate, pair.key) as (server, port),
        Trace(server.pid) as trace,
        Shakes(server.pid) as shakes,
    ):
        exchanges = []
        for version in VERSIONS:
            client = Client(port, version)
            exchanges.append(client.connect(requests=4))
            exchanges += client.connect_times(4, requests=4, session=exchanges[-1].session)
        bad.no_shared_cipher(port)
        calls = server.calls()
    assert (calls["SSL_accept"]["success"], calls["SSL_read"]["success"], calls["SSL_write"]["success"]) == (10, 40, 40)
    assert_told_like(trace.document, calls)
    assert endings(shakes.document) == {"success": 10, "failure": 1}
    assert [cause["reason"] for cause in shakes.document["handshakes"]["causes"]] == ["no shared cipher"]
    assert [exchange.resumed for exchange in exchanges] == 2 * [False, True, True, True, True]
    assert_labelled_like(shakes.ended("success"), exchanges)
    assert labels_of(shakes.ended("success"), "signature", "client_certificate") == [
        ("none" if exchange.resumed else SIGNATURES["rsa"], "not asked") for exchange in exchanges
    ]
    resumed = {"TLSv1.2": set[str](), "TLSv1.3": {"key_exchange"}}
    assert phases_of(shakes.ended("success")) == [
        resumed[exchange.version] if exchange.resumed else {"private_key", "key_exchange"} for exchange in exchanges
    ]
    assert_books(shakes)
