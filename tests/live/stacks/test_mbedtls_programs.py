# SPDX-License-Identifier: Apache-2.0
"""Servers with Mbed TLS: one of ours that blocks, in all ways in which a program may make handshakes with it, and Debian's
lighttpd. Calls and handshakes are as many as clients made, and end as the servers themselves say."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.fixtures import mbedtls
from tests.live.clients import bad
from tests.live.clients.counted import TIMEOUT_S, TLS_1_2, TLS_1_3, Client
from tests.live.clients.slow import PAUSE_S, slow, slow_to_shake_hands
from tests.live.commands.handshakes import Shake, Shakes, assert_books, endings, for_peer_ns
from tests.live.commands.trace import Trace, count, losses, reasons
from tests.live.servers.debian import lighttpd
from tests.live.servers.nginx import Certificate, make_certificate
from tests.live.servers.s_server import s_server
from tests.live.stacks.mbedtls_programs import MbedProgram, mbed_program
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("tracing")
TIMES, REQUESTS = 3, 2
MODES = ("handshake", "step", "read", "free", "patient", "own")
OF_VERSION = {mbedtls.OWN: (TLS_1_2,), mbedtls.LATER: (TLS_1_2, TLS_1_3)}
LEFT = "connection reset or closed by the peer"
# What mbedtls/ssl.h calls the codes with which these clients' handshakes end, in both versions or in one.
WORDS = {
    0x004C: LEFT,
    0x004E: LEFT,
    0x0050: LEFT,
    0x6980: "no usable cipher suite",
    0x6E00: "handshake failure",
    0x6E80: "bad protocol version",
    0x7180: "invalid MAC",
    0x7200: "invalid record",
    0x7280: LEFT,
    0x7380: "no cipher chosen",
    0x7700: "unexpected message",
    0x7780: "alert received: unknown CA",
    0x7900: "bad ClientHello",
}
ABANDONED = {0x004C, 0x004E, 0x0050, 0x7280}
FAILING: tuple[Callable[[int], object], ...] = (
    bad.reset,  # the others wait until the server has closed the connection
    bad.no_shared_cipher,
    bad.old_version,
    bad.unknown_ca,
    bad.nonsense,
    bad.end_of_file,
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """Of the servers."""
    return make_certificate("rsa", tmp_path_factory.mktemp("certificates"))


def echo(port: int, version: ssl.TLSVersion, session: ssl.SSLSession | None = None) -> ssl.SSLSession | None:
    """One connection with some echoes, closed in good order by both; and its session, which resumes in another."""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with _context(version).wrap_socket(plain, session=session) as tls:
            assert tls.selected_alpn_protocol() == "echo"
            for number in range(REQUESTS):
                tls.sendall(b"%d" % number)
                assert tls.recv(16) == b"%d" % number
            assert tls.session_reused == (session is not None)
            made = tls.session
            with contextlib.suppress(ssl.SSLError):
                tls.unwrap()
    return made


CONTEXTS: dict[ssl.TLSVersion, ssl.SSLContext] = {}


def _context(version: ssl.TLSVersion) -> ssl.SSLContext:
    """One for all connections of a version: a session resumes in the context that it is from."""
    if version not in CONTEXTS:
        CONTEXTS[version] = bad.context(version)
        CONTEXTS[version].set_alpn_protocols(["echo"])
    return CONTEXTS[version]


def of_program(shakes: Shakes, program: MbedProgram) -> list[Shake]:
    """Its handshakes, in their order."""
    return [single for single in shakes.singles if single["pid"] == program.pid]


def assert_as_told(singles: list[Shake], codes: list[int]) -> None:
    """Each handshake has ended as its server says."""
    expected = [
        ("success", "") if not code else ("abandoned" if code in ABANDONED else "failure", WORDS[code]) for code in codes
    ]
    assert [(single["ending"], single["reason"]) for single in singles] == expected


@pytest.mark.parametrize("version", mbedtls.VERSIONS)
def test_handshakes_and_calls_are_as_many_as_servers_and_clients_say(version: str, pair: Certificate, tmp_path: Path) -> None:
    build, number = mbedtls.build(version, tmp_path), TIMES * len(OF_VERSION[version])
    with ExitStack() as started:
        servers = [started.enter_context(mbed_program(build, pair, mode, tmp_path)) for mode in MODES]
        pids = [server.pid for server in servers]
        options = ("--by", "version,cipher,alpn,port")
        with Trace(*pids, options=("--by-process",)) as trace, Shakes(*pids, options=options) as shakes:
            for server in servers:
                for each in OF_VERSION[version]:
                    for _ in range(TIMES):
                        echo(server.port, each)
                for failing in FAILING:
                    failing(server.port)
        codes = {server.mode: server.told(number + len(FAILING)) for server in servers}
    versions = [each.name.replace("_", ".") for each in OF_VERSION[version] for _ in range(TIMES)]
    for server in servers:
        singles = of_program(shakes, server)
        assert_as_told(singles, codes[server.mode])
        assert codes[server.mode][:number] == [0] * number
        good = singles[:number]
        assert [single["labels"]["version"] for single in good] == versions
        assert {single["labels"]["alpn"] for single in good} == {"echo"}
        assert all(single["labels"]["cipher"].startswith("TLS") for single in good)
        ports = {single["labels"]["port"] for single in singles}
        assert ports <= {str(server.port), None} if server.mode == "own" else ports == {str(server.port)}
        for single in good:
            assert single["parts_ns"]["private_key"] > 0
            assert single["parts_ns"]["key_exchange"] > 0
        assert {single["alert"] for single in singles if single["reason"] == "bad protocol version"} == {"protocol version"}
        assert_calls(trace, server, codes[server.mode], number)
    assert losses(trace.document) == {}
    assert_books(shakes)


def assert_calls(trace: Trace, server: MbedProgram, codes: list[int], number: int) -> None:
    """The calls of one server: of its handshakes, and of `number` connections that succeeded."""
    rows = [row for row in trace.document["functions"] if row["pid"] == server.pid]
    calls = Counter({(row["function"], row["outcome"]): row["count"] for row in rows})
    if server.mode == "step":
        assert calls["mbedtls_ssl_handshake", "success"] == 0
        assert calls["mbedtls_ssl_handshake_step", "failure"] == len(codes) - number
    else:
        assert calls["mbedtls_ssl_handshake", "success"] == number
        assert calls["mbedtls_ssl_handshake", "failure"] == len(codes) - number
    assert calls["mbedtls_ssl_read", "success"] == calls["mbedtls_ssl_write", "success"] == number * REQUESTS
    assert calls["mbedtls_ssl_read", "closed"] == calls["mbedtls_ssl_close_notify", "success"] == number


@pytest.mark.parametrize("version", mbedtls.VERSIONS)
def test_resumed_abandoned_and_slow_handshakes_in_a_program_that_has_it_built_in(
    version: str, pair: Certificate, tmp_path: Path
) -> None:
    build = mbedtls.build(version, tmp_path, built_in=True)
    with (
        mbed_program(build, pair, "handshake", tmp_path) as resuming,
        mbed_program(build, pair, "patient", tmp_path) as patient,
        mbed_program(build, pair, "impatient", tmp_path) as impatient,
    ):
        servers = (resuming, patient, impatient)
        with Shakes(*(server.pid for server in servers), options=("--by", "port")) as shakes:
            session = echo(resuming.port, TLS_1_2)
            for _ in range(TIMES):
                session = echo(resuming.port, TLS_1_2, session)
            for _ in range(TIMES):
                bad.silent_hello(impatient.port)
            slow_to_shake_hands(TLS_1_2, patient.port, lambda: time.sleep(PAUSE_S))
            # The client is done a little earlier than the server.
            assert (resuming.told(TIMES + 1), patient.told(1)) == ([0] * (TIMES + 1), [0])
            assert impatient.told(TIMES) == [0x6800] * TIMES
    assert ["private_key" in single["parts_ns"] for single in of_program(shakes, resuming)] == [True, *[False] * TIMES]
    assert endings(shakes.document) == {"success": TIMES + 2, "abandoned": TIMES}
    assert {single["ending"] for single in of_program(shakes, impatient)} == {"abandoned"}
    (slow_one,) = of_program(shakes, patient)
    assert slow_one["calls"] > 1
    assert for_peer_ns(slow_one) > PAUSE_S * 1e9 / 2
    assert_books(shakes)


def test_certificates_of_clients_are_checked(pair: Certificate, tmp_path: Path) -> None:
    build = mbedtls.build(mbedtls.LATER, tmp_path)
    with mbed_program(build, pair, "certificate", tmp_path) as server:
        with Shakes(server.pid, options=("--by", "port")) as shakes:
            for version in (TLS_1_2, TLS_1_3):
                made = bad.context(version)
                made.load_cert_chain(pair.certificate, pair.key)
                with (
                    socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT_S) as plain,
                    made.wrap_socket(plain) as tls,
                ):
                    tls.sendall(b"1")
                    assert tls.recv(16) == b"1"
                bad.no_certificate(version, server.port)
        assert server.told(4) == [0, 0x7480, 0, 0x7480]
    assert [(single["ending"], single["reason"]) for single in shakes.singles] == [
        ("success", ""),
        ("failure", "no client certificate"),
    ] * 2
    assert all(single["parts_ns"]["peer_verification"] > 0 for single in shakes.ended("success"))
    assert_books(shakes)


@pytest.mark.parametrize("version", mbedtls.VERSIONS)
def test_handshakes_of_clients_are_theirs(version: str, pair: Certificate, tmp_path: Path) -> None:
    """Those that trust nobody say so to the server. Tickets, which come later in TLS 1.3, begin no handshake."""
    build, stranger = mbedtls.build(version, tmp_path), make_certificate("ecdsa", tmp_path)
    with (
        s_server(pair, "-rev") as server,
        mbed_program(build, stranger, "any", tmp_path, server.port) as trusting,
        mbed_program(build, stranger, "strict", tmp_path, server.port) as strict,
    ):
        options = ("--role", "client", "--by", "version,port,role")
        with Shakes(trusting.pid, strict.pid, options=options) as shakes:
            for client in (trusting, strict):
                client.ask(TIMES)
                client.told(TIMES)
        assert (trusting.told(TIMES), strict.told(TIMES)) == ([0] * TIMES, [0x2700] * TIMES)
    assert endings(shakes.document) == {"success": TIMES, "failure": TIMES}
    newest = OF_VERSION[version][-1].name.replace("_", ".")
    for single in of_program(shakes, trusting):
        assert (single["ending"], single["labels"]["version"]) == ("success", newest)
    for single in of_program(shakes, strict):
        assert (single["reason"], single["alert"]) == ("X.509: certificate verification failed", "unknown CA")
        assert single["parts_ns"]["peer_verification"] > 0
    assert {(single["labels"]["port"], single["labels"]["role"]) for single in shakes.singles} == {(str(server.port), "client")}
    assert_books(shakes)


def test_handshakes_of_lighttpd_end_as_its_log_says(pair: Certificate) -> None:
    with lighttpd(pair, "mbedtls") as web:
        with Trace(web.pid) as trace, Shakes(web.pid, options=("--by", "version,port")) as shakes:
            for _ in range(TIMES):
                Client(web.port, TLS_1_2).connect(requests=REQUESTS)
            for failing in FAILING:
                failing(web.port)
            slow(TLS_1_2, web.port)
            wait_for(lambda: Counter(web.told()).total() == TIMES * REQUESTS + len(FAILING) + 1)
        told = Counter(web.told())
    assert told.pop("answered") == TIMES * REQUESTS + 1
    ended = Counter((single["ending"], single["reason"]) for single in shakes.singles if single["ending"] != "success")
    codes = [int(code, 16) for code in told.elements()]
    assert ended == Counter(("abandoned" if code in ABANDONED else "failure", WORDS[code]) for code in codes)
    good = shakes.ended("success")
    assert [single["labels"]["version"] for single in good] == ["TLSv1.2"] * (TIMES + 1)
    assert {single["labels"]["port"] for single in shakes.singles} == {str(web.port)}
    assert for_peer_ns(good[-1]) > PAUSE_S * 1e9 / 2
    document = trace.document
    assert count(document, "mbedtls_ssl_handshake") == TIMES + 1
    # Its handshakes begin by steps of its own.
    failed = sum(count(document, name, "failure") for name in ("mbedtls_ssl_handshake", "mbedtls_ssl_handshake_step"))
    within = count(document, "mbedtls_ssl_handshake", "failure")
    assert failed - within == len(FAILING)
    assert reasons(document, "mbedtls_ssl_handshake", "retry").keys() == {"WANT_READ"}
    assert count(document, "mbedtls_ssl_write") >= TIMES * REQUESTS
    assert losses(document) == {}
    assert_books(shakes)
