# SPDX-License-Identifier: Apache-2.0
"""GnuTLS' own server: every call and handshake, what it was like, and why those failed that the server says did."""

from __future__ import annotations

import contextlib
import ssl
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import programs
from tests.live.clients import bad
from tests.live.clients.counted import TIMEOUT_S, TLS_1_2, TLS_1_3
from tests.live.clients.slow import PAUSE_S, slow
from tests.live.commands.handshakes import Shakes, assert_books, endings, for_peer_ns, labels_of
from tests.live.commands.trace import PROGRAM, Trace, count, counts
from tests.live.servers.gnutls_serv import GnuTlsServ, gnutls_serv
from tests.live.servers.named_certificates import certify, make_named_certificate
from tests.live.servers.nginx import Certificate, make_certificate

pytestmark = pytest.mark.usefixtures("tracing")
TIMES = 12
# GnuTLS' sentences, as its server writes them, and the reasons that we give; "" where the connection ended without an error.
SENTENCES = {
    "Decryption has failed.": "decryption failed",
    "An unexpected TLS packet was received.": "unexpected packet",
    "No supported cipher suites have been found.": "no cipher suites",
    "A TLS fatal alert has been received.": "alert received",
    "Error decoding the received TLS packet.": "unexpected packet length",
    "The TLS connection was non-properly terminated.": "",
    "Error in the pull function.": "",
}


@pytest.fixture(scope="module", params=["rsa", "ecdsa"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GnuTlsServ]:
    """A running server with a key of this kind."""
    with gnutls_serv(make_certificate(request.param, tmp_path_factory.mktemp("certificates"))) as running:
        yield running


def ask(
    port: int, made: ssl.SSLContext, session: ssl.SSLSession | None = None, name: str | None = None
) -> ssl.SSLSession | None:
    """One connection with one request, read to its end; the session."""
    with bad.plain(port) as plain, made.wrap_socket(plain.dup(), server_hostname=name, session=session) as tls:
        tls.sendall(b"GET / HTTP/1.0\r\n\r\n")
        with contextlib.suppress(ssl.SSLError):
            while tls.recv(65536):
                pass
        return tls.session


def shake(server: GnuTlsServ, version: ssl.TLSVersion, *, resume: bool = False) -> None:
    """TIMES connections with one request each, of which all but the first resume."""
    session, made = None, bad.context(version)
    for _ in range(TIMES):
        last = ask(server.port, made, session)
        session = last if resume else None


FAILING: tuple[Callable[[int], Any], ...] = (
    bad.foreign_cipher,
    bad.unknown_ca,
    bad.nonsense,
    bad.http,
    bad.end_of_file,
    partial(bad.flipped_bit, TLS_1_2),
    partial(bad.flipped_bit, TLS_1_3),
)


def test_its_calls_are_counted(server: GnuTlsServ) -> None:
    with Trace(server.pid) as trace:
        shake(server, TLS_1_3)
        shake(server, TLS_1_2, resume=True)
    found = counts(trace.document, ["gnutls_handshake", "gnutls_privkey_sign_data2", "gnutls_bye"])
    assert found == {"gnutls_handshake": 2 * TIMES, "gnutls_privkey_sign_data2": TIMES + 1, "gnutls_bye": 2 * TIMES}
    assert count(trace.document, "gnutls_record_send") >= 2 * TIMES
    assert {name: number for name, number in trace.document["losses"].items() if number} == {}


def test_its_handshakes_have_labels(server: GnuTlsServ) -> None:
    with Shakes(server.pid) as shakes:
        shake(server, TLS_1_3)
        shake(server, TLS_1_2, resume=True)
    assert endings(shakes.document) == {"success": 2 * TIMES}
    labels = Counter(labels_of(shakes.singles, "version", "resumed", "role"))
    assert labels == {
        ("TLSv1.3", "no", "server"): TIMES,
        ("TLSv1.2", "no", "server"): 1,
        ("TLSv1.2", "yes", "server"): TIMES - 1,
    }
    assert {single["labels"]["cipher"].split("_")[0] for single in shakes.singles} == {"TLS"}
    assert {group for group, resumed in labels_of(shakes.singles, "group", "resumed") if resumed == "no"} == {"x25519"}
    signed = [single for single in shakes.singles if single["parts_ns"].get("private_key")]
    assert len(signed) == TIMES + 1
    agreed = Counter(single["labels"]["version"] for single in shakes.singles if single["parts_ns"].get("key_exchange"))
    assert agreed == {"TLSv1.3": TIMES, "TLSv1.2": 1}
    assert_books(shakes)


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_the_certificate_that_it_was_given(tmp_path: Path, version: ssl.TLSVersion) -> None:
    """Of two full handshakes, one that is refused and one that fails before; how many others are sent with it isn't known."""
    facts = certify(tmp_path, "gnutls.example", "RSA-2048", 12, make_named_certificate("RSA-4096", tmp_path, "authority", 9))
    pair = Certificate(tmp_path / "gnutls.example.crt", tmp_path / "gnutls.example.key")
    with gnutls_serv(pair) as server, Shakes(server.pid) as shakes:
        session = ask(server.port, made := bad.context(version))
        ask(server.port, made, session)
        ask(server.port, bad.context(version))
        bad.unknown_ca(server.port)
        bad.nonsense(server.port)
    [one] = shakes.document["handshakes"]["certificates"]
    full = labels_of(shakes.ended("success"), "resumed").count(("no",))
    assert full == 2
    assert (one["port"], one["count"], one["unsuccessful"]) == (server.port, full + 1, 1)
    assert {**facts, "key": "RSA-2048", "issued_by": "itself", "names": 0}.items() <= one["certificate"].items()
    assert one.keys().isdisjoint({"chain", "chain_bytes"})
    assert shakes.document["handshakes"]["certificates_untold"] == 0


def test_who_shook_hands(tmp_path: Path) -> None:
    """A name, a protocol and a certificate that came, and the absence of each; a resumed session has its own name."""
    pair, own = make_certificate("ecdsa", tmp_path), make_certificate("rsa", tmp_path)
    long = f"{'long.' * 8}example"
    with (
        gnutls_serv(pair, "--alpn", "http/1.1") as server,
        gnutls_serv(pair, "--disable-client-cert") as unasking,
        Shakes(server.pid, unasking.pid, options=("--by", "sni,alpn")) as shakes,
    ):
        for version in (TLS_1_2, TLS_1_3):
            one, other, bare = bad.context(version), bad.context(version), bad.context(version)
            one.set_alpn_protocols(["http/1.1"])
            one.load_cert_chain(own.certificate, own.key)
            other.set_alpn_protocols(["nothing/1"])
            session = ask(server.port, one, name="one.example")
            ask(server.port, one, session, name="one.example")
            ask(server.port, other, name=long)
            ask(server.port, bare)
            ask(unasking.port, one, name="one.example")
    told = [
        ("no", "one.example", "http/1.1", "given"),
        ("yes", "one.example", "http/1.1", "given"),
        ("no", long, "none", "not given"),
        ("no", "none", "none", "not given"),
        ("no", "one.example", "none", "not asked"),
    ]
    assert labels_of(shakes.singles, "version", "resumed", "sni", "alpn", "client_certificate") == [
        (version, *labels) for version in ("TLSv1.2", "TLSv1.3") for labels in told
    ]
    assert_books(shakes)


OLD = ("--priority", "NORMAL:-VERS-ALL:+VERS-TLS1.2")
# What gnutls-cli is told to do, after what it has said each time; and how many handshakes that is. New keys are none, and an
# authentication after the handshake neither.
COURSES: tuple[tuple[tuple[str, ...], dict[str, str], int], ...] = (
    ((*OLD, "--rehandshake"), {"ReHandshake was completed": "hello"}, 2),
    (("--inline-commands",), {"Handshake was completed": "^rekey^", "Rekey was completed": "hello"}, 1),
    (
        ("--post-handshake-auth", "--x509certfile", "{certificate}", "--x509keyfile", "{key}"),
        {"Handshake was completed": "**REAUTH**", "Re-auth was performed": "hello"},
        1,
    ),
    (("--resume", "--earlydata", "{certificate}"), {"This is a resumed session": "hello"}, 2),
    ((*OLD, "--resume"), {"This is a resumed session": "hello"}, 2),
)


def converse(port: int, options: tuple[str, ...], course: dict[str, str]) -> None:
    """One run of gnutls-cli, in which each of the lines is sent once what comes before it was said, and "hello" comes back."""
    command = [*programs.needed("stdbuf"), "-o0", *programs.needed("gnutls-cli"), "--insecure", *options]
    with subprocess.Popen(
        [*command, "-p", str(port), "localhost"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as client:
        guard = threading.Timer(TIMEOUT_S, client.kill)
        guard.start()
        assert client.stdin
        assert client.stdout
        for said, line in {**course, "hello": ""}.items():
            assert any(said in text for text in client.stdout), said
            client.stdin.write(f"{line}\n")
            client.stdin.flush()
        client.stdin.close()
        client.wait()
        guard.cancel()


def test_what_follows_a_handshake(tmp_path: Path) -> None:
    pair = make_certificate("ecdsa", tmp_path)
    expected = []
    with (
        gnutls_serv(pair, "--earlydata", "--maxearlydata", "16384", page="--echo") as server,
        Trace(server.pid) as trace,
        Shakes(server.pid, options=("--role", "any")) as shakes,
    ):
        for options, course, times in COURSES:
            words = tuple(word.format(certificate=pair.certificate, key=pair.key) for word in options)
            converse(server.port, words, course)
            version, last = "TLSv1.2" if OLD[1] in options else "TLSv1.3", "yes" if "--resume" in options else "no"
            expected += [("server", version, "no"), ("server", version, last)][:times]
    assert endings(shakes.document) == {"success": len(expected)}
    assert labels_of(shakes.singles, "role", "version", "resumed") == expected
    assert count(trace.document, "gnutls_handshake") == len(expected)
    assert_books(shakes)


def test_its_failures_are_those_that_it_tells(server: GnuTlsServ) -> None:
    before = server.failed()
    with Shakes(server.pid) as shakes:
        for failing in FAILING:
            failing(server.port)
        shake(server, TLS_1_3)
    told = server.failed() - before
    assert sum(told.values()) >= len(FAILING) - 1
    reasons = Counter(single["reason"].partition(":")[0] for single in shakes.singles if single["ending"] != "success")
    expected: Counter[str] = Counter()
    for sentence, number in told.items():
        expected[SENTENCES[sentence]] += number
    assert reasons == expected
    assert len(shakes.ended("success")) == TIMES


def test_a_slow_client_is_waited_for(server: GnuTlsServ) -> None:
    with Shakes(server.pid) as shakes:
        for _ in range(TIMES):
            slow(TLS_1_3, server.port)
    assert endings(shakes.document) == {"success": TIMES}
    for single in shakes.singles[-3:]:  # by then what the server sleeps for is watched
        assert for_peer_ns(single) > PAUSE_S * 1e9 / 2


def test_bcc_counts_the_same_and_bpftrace_says_that_it_can_not(server: GnuTlsServ) -> None:
    with Trace(server.pid, options=("--engine", "bcc")) as trace:
        shake(server, TLS_1_3)
    assert count(trace.document, "gnutls_handshake") == TIMES
    words = [PROGRAM, "trace", "-p", str(server.pid), "-d", "1", "--engine", "bpftrace", "--exact"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "ssllatency: none of the functions can be traced by bpftrace: use another engine.\n"
