# SPDX-License-Identifier: Apache-2.0
"""Clients that link wolfSSL: every call and handshake, what it was like, and why those failed that the client says did."""

from __future__ import annotations

import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.live.clients.accepting import accepting
from tests.live.clients.slow import PAUSE_S
from tests.live.commands.handshakes import Shake, Shakes, assert_books, endings, for_peer_ns, labels_of
from tests.live.commands.trace import Trace, losses
from tests.live.servers.nginx import Certificate, make_certificate
from tests.live.servers.python_ssl import TlsServer, TlsSettings
from tests.live.servers.s_server import s_server
from tests.live.stacks.wolfssl_programs import WolfProgram, wolfssl_client
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("tracing")
TIMES = 3
VERSIONS = ("TLSv1_2", "TLSv1_3")
WAYS = ((), ("nonblocking",), ("writing",), ("nonblocking", "writing"))
AS_CLIENT = ("--role", "client")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of all certificates."""
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """The clients' certificate."""
    return make_certificate("ecdsa", tmp_path_factory.mktemp("own"))


def of_client(shakes: Shakes, client: WolfProgram) -> list[Shake]:
    """Its handshakes, in their order."""
    return [single for single in shakes.singles if single["pid"] == client.pid]


def calls_of(trace: Trace, client: WolfProgram) -> dict[tuple[str, str], int]:
    """How often which function ended how in this client."""
    rows = [row for row in trace.document["functions"] if row["pid"] == client.pid]
    return {(row["function"], row["outcome"]): row["count"] for row in rows}


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_each_handshake_and_call_of_clients_counts(kind: str, folder: Path, own: Certificate, tmp_path: Path) -> None:
    trusted = make_certificate(kind, folder).certificate
    with ExitStack() as started:
        servers = {version: started.enter_context(TlsServer(folder, TlsSettings(kind, version))) for version in VERSIONS}
        clients = {
            (version, *way): started.enter_context(wolfssl_client(own, trusted, servers[version].port, tmp_path, *way))
            for version in VERSIONS
            for way in WAYS
        }
        pids = [client.pid for client in clients.values()]
        options = (*AS_CLIENT, "--by", "version,group,port,role")
        with Trace(*pids, options=(*AS_CLIENT, "--by-process")) as trace, Shakes(*pids, options=options) as shakes:
            told = {words: client.connect(TIMES) for words, client in clients.items()}
            assert [server.ends() for server in servers.values()] == [{"": TIMES * len(WAYS)}] * len(VERSIONS)
    assert endings(shakes.document) == {"success": TIMES * len(clients)}
    assert losses(trace.document) == {}
    assert_books(shakes)
    for (version, *way), client in clients.items():
        singles, again = of_client(shakes, client), [int(words[4]) for words in told[version, *way]]
        assert [single["calls"] for single in singles] == [number + 1 for number in again]
        assert_calls(calls_of(trace, client), sum(again), writing="writing" in way)
        expected = (version.replace("_", "."), "no", "client", str(servers[version].port))
        assert set(labels_of(singles, "version", "resumed", "role", "port")) == {expected}
        for single in singles:
            assert single["labels"]["group"] in {"x25519", "secp256r1"}
            assert single["labels"]["cipher"].startswith("TLS_")
            assert single["parts_ns"]["key_exchange"] > 0
            assert "private_key" not in single["parts_ns"]
            # Where TLS 1.2 has a signature by RSA, the function that has it checked can't be followed in every build.
            assert single["parts_ns"].get("peer_verification", 0) > 0 or (kind, version) == ("rsa", "TLSv1_2")


def assert_calls(calls: dict[tuple[str, str], int], again: int, *, writing: bool) -> None:
    """Those of a client that has made so many of its handshakes' calls again, which were writes or not."""
    assert calls.get(("wolfSSL_write" if writing else "wolfSSL_connect", "retry"), 0) == again
    for function in ("wolfSSL_connect", "wolfSSL_write", "wolfSSL_read"):
        assert calls[function, "success"] == TIMES, function
    assert calls.get(("wolfSSL_negotiate", "success"), 0) == (TIMES if writing else 0)
    assert calls["wolfSSL_read", "closed"] == TIMES


def test_clients_wait_for_slow_servers(folder: Path, own: Certificate, tmp_path: Path) -> None:
    """Within a call that blocks as well, once a few handshakes were seen to sleep."""
    trusted = make_certificate("ecdsa", folder).certificate
    with TlsServer(folder, TlsSettings("ecdsa", sleep_s=PAUSE_S)) as server, ExitStack() as started:
        clients = [started.enter_context(wolfssl_client(own, trusted, server.port, tmp_path, *way)) for way in WAYS]
        with Shakes(*(client.pid for client in clients), options=AS_CLIENT) as shakes:
            wait_for(lambda: clients[0].connect(1) and shakes.printed('"wait_peer"'))
            for client in clients:
                client.connect(1)
    last = [of_client(shakes, client)[-1] for client in clients]
    assert [for_peer_ns(single) > PAUSE_S * 1e9 / 2 for single in last] == [True] * len(WAYS)
    assert_books(shakes)


def test_clients_resume_their_sessions(folder: Path, own: Certificate, tmp_path: Path) -> None:
    trusted = make_certificate("ecdsa", folder).certificate
    with ExitStack() as started:
        servers = [started.enter_context(TlsServer(folder, TlsSettings("ecdsa", version))) for version in VERSIONS]
        clients = [started.enter_context(wolfssl_client(own, trusted, server.port, tmp_path, "resuming")) for server in servers]
        with Shakes(*(client.pid for client in clients), options=AS_CLIENT) as shakes:
            told = [client.connect(TIMES) for client in clients]
            assert [server.ends() for server in servers] == [{"": TIMES}] * len(servers)
    for client, lines in zip(clients, told, strict=True):
        singles = of_client(shakes, client)
        assert [words[3] for words in lines] == ["0", *["1"] * (TIMES - 1)]
        assert labels_of(singles, "resumed") == [("no",), *[("yes",)] * (TIMES - 1)]
        assert ["peer_verification" in single["parts_ns"] for single in singles] == [True, *[False] * (TIMES - 1)]
    assert_books(shakes)


def expired(issuer: Certificate, folder: Path) -> Certificate:
    """A certificate by this issuer that was valid until yesterday."""
    made, request = Certificate(folder / "expired.crt", folder / "expired.key"), folder / "expired.csr"
    asking = ["req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", made.key, "-out", request]
    signing = ["x509", "-req", "-in", request, "-CA", issuer.certificate, "-CAkey", issuer.key, "-set_serial", "2"]
    for words in (asking, [*signing, "-days", "-1", "-out", made.certificate]):
        subprocess.run(["openssl", *words], check=True, capture_output=True)
    return made


def test_clients_say_why_they_refuse_a_certificate(folder: Path, own: Certificate, tmp_path: Path) -> None:
    """One that nobody vouches for, and one that the clients' own vouches for, but which has expired."""
    outdated = expired(own, tmp_path)
    for version in ("-tls1_2", "-tls1_3"):
        with (
            s_server(make_certificate("rsa", folder), "-rev", version) as unknown,
            s_server(outdated, "-rev", version) as late,
            wolfssl_client(own, own.certificate, unknown.port, tmp_path) as strict,
            wolfssl_client(own, own.certificate, late.port, tmp_path, "nonblocking") as careful,
            Shakes(strict.pid, careful.pid, options=AS_CLIENT) as shakes,
        ):
            assert strict.connect(TIMES) == [["failure", "-275"]] * TIMES
            assert careful.connect(TIMES) == [["failure", "-151"]] * TIMES
        for client, how in (
            (strict, ("failure", "ASN self signed", "bad certificate")),
            (careful, ("failure", "ASN after date", "certificate expired")),
        ):
            ended = [(single["ending"], single["reason"], single["alert"]) for single in of_client(shakes, client)]
            assert ended == [how] * TIMES
        assert all(single["parts_ns"]["peer_verification"] > 0 for single in of_client(shakes, careful))
        assert_books(shakes)


def test_clients_show_certificates_and_are_refused(folder: Path, own: Certificate, tmp_path: Path) -> None:
    rsa = make_certificate("rsa", folder)
    with (
        TlsServer(folder, TlsSettings(client_ca=str(own.certificate))) as pleased,
        TlsServer(folder, TlsSettings(version="TLSv1_2", client_ca=str(rsa.certificate))) as displeased,
        wolfssl_client(own, rsa.certificate, pleased.port, tmp_path) as known,
        wolfssl_client(own, rsa.certificate, displeased.port, tmp_path) as stranger,
        Shakes(known.pid, stranger.pid, options=AS_CLIENT) as shakes,
    ):
        assert [words[0] for words in known.connect(TIMES)] == ["success"] * TIMES
        assert stranger.connect(1) == [["failure", "-313"]]
        assert pleased.ends() == {"": TIMES}
        assert list(displeased.ends().values()) == [1]
    assert endings(shakes.document) == {"success": TIMES, "failure": 1}
    assert all(single["parts_ns"]["private_key"] > 0 for single in shakes.singles)
    assert {single["reason"] for single in shakes.ended("failure")} == {"alert received: unknown CA"}
    assert_books(shakes)


@contextmanager
def asking_later(pair: Certificate, trusted: Path) -> Iterator[tuple[int, list[bool]]]:
    """A server that asks each client for its certificate after the handshake; its port, and whether each had one then."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(pair.certificate, pair.key)
    made.load_verify_locations(trusted)
    made.verify_mode, made.post_handshake_auth = ssl.CERT_REQUIRED, True
    shown: list[bool] = []

    def serve(plain: socket.socket) -> None:
        with made.wrap_socket(plain, server_side=True) as tls:
            assert tls.recv(64) == b"hello\n"
            assert not tls.getpeercert()
            tls.verify_client_post_handshake()
            tls.sendall(b"who are you?")
            assert tls.recv(64) == b"hello\n"
            shown.append(bool(tls.getpeercert()))
            with tls.unwrap():
                pass

    with accepting(serve) as port:
        yield port, shown


@pytest.mark.parametrize("way", [(), ("nonblocking",)], ids=["blocking", "nonblocking"])
def test_authentication_after_the_handshake_is_none(
    way: tuple[str, ...], folder: Path, own: Certificate, tmp_path: Path
) -> None:
    """The library makes it by the functions that make handshakes, within a read."""
    rsa = make_certificate("rsa", folder)
    with (
        asking_later(rsa, own.certificate) as (port, shown),
        wolfssl_client(own, rsa.certificate, port, tmp_path, "authenticating", *way) as client,
        Shakes(client.pid, options=AS_CLIENT) as shakes,
    ):
        told = client.connect(TIMES)
        wait_for(lambda: len(shown) == TIMES)
    assert [words[0] for words in told] == ["success"] * TIMES
    assert shown == [True] * TIMES
    assert endings(shakes.document) == {"success": TIMES}
    assert [single["calls"] for single in shakes.singles] == [int(words[4]) + 1 for words in told]
    assert not any("private_key" in single["parts_ns"] for single in shakes.singles)
    assert_books(shakes)
