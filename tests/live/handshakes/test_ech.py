# SPDX-License-Identifier: Apache-2.0
"""Encrypted Client Hello, as OpenSSL has it since 4.0: each handshake is one, whether the server has the key or not, and the
name is the one that the server has gone by."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import foreign, machine
from tests.live.commands.handshakes import Shakes, assert_books, endings, labels_of
from tests.live.commands.trace import Trace, count, losses
from tests.live.servers.nginx import Certificate
from tests.live.servers.s_server import SServer, s_server
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("tracing")

TIMES = 5
INNER, OUTER = "inner.example", "public.example"
REQUEST = b"GET / HTTP/1.0\r\n\r\n"
ECH = 0xFE0D  # the number of its extension
# Of these groups the server takes the second alone, for which it asks.
ASKS_AGAIN = ("-groups", "P-521:X25519")
SERVED = ("-groups", "X25519:P-256", "-www")


@dataclass(frozen=True)
class OpenSsl4:
    """Its program and libraries in a folder of Debian 13's root, whose C library they need."""

    root: Path
    folder: Path

    @property
    def program(self) -> tuple[str, ...]:
        """The words by which it is started in the root."""
        inside = f"/{self.folder.relative_to(self.root)}"
        return "env", f"LD_LIBRARY_PATH={inside}", f"{inside}/openssl"

    @property
    def library(self) -> Path:
        return self.folder / "libssl.so.4"

    @property
    def pair(self) -> Certificate:
        """One for both names, which clients trust."""
        return Certificate(self.folder / "crt", self.folder / "key")

    def make_pair(self) -> None:
        names = f"subjectAltName=DNS:{INNER},DNS:{OUTER}"
        make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-addext", names]
        subprocess.run([*make, "-keyout", self.pair.key, "-out", self.pair.certificate], check=True, capture_output=True)

    def run(self, *words: str, given: bytes = b"") -> str:
        """What it writes."""
        command = ["chroot", str(self.root), *self.program, *words]
        done = subprocess.run(command, input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
        return done.stdout.decode(errors="replace")

    def keys(self, name: str) -> tuple[str, str]:
        """A new key pair: the file within the root, and what clients are told of it."""
        file = self.folder / name
        self.run("ech", "-public_name", OUTER, "-out", f"/{file.relative_to(self.root)}")
        _, _, after = file.read_text().partition("-----BEGIN ECHCONFIG-----")
        return f"/{file.relative_to(self.root)}", "".join(after.partition("-----END")[0].split())

    def ask(self, port: int, *words: str) -> str:
        """What a client says that makes a request for the name, over a connection of which no more is known."""
        trusted = f"/{self.pair.certificate.relative_to(self.root)}"
        always = ("-connect", f"127.0.0.1:{port}", "-servername", INNER, "-CAfile", trusted, "-ign_eof")
        return self.run("s_client", *always, *words, given=REQUEST)


@pytest.fixture(scope="module")
def openssl() -> Iterator[OpenSsl4]:
    machine.needs_architecture("x86_64", "for which OpenSSL 4 was fetched")
    root = foreign.needed(foreign.second_root()).resolve()
    files = [foreign.needed(foreign.find(name)) for name in ("openssl-4", "libssl-4-x86-64", "libcrypto-4-x86-64")]
    with tempfile.TemporaryDirectory(dir=root / "tmp", prefix="ssllatency-ech-") as folder:
        for file in files:
            shutil.copy(file, folder)
        made = OpenSsl4(root, Path(folder))
        made.make_pair()
        yield made


@pytest.fixture
def server(openssl: OpenSsl4, current: tuple[str, str]) -> Iterator[SServer]:
    words = ("-ech_key", current[0], *SERVED)
    with s_server(openssl.pair, *words, root=openssl.root, program=openssl.program) as running:
        yield running


@pytest.fixture(scope="module")
def current(openssl: OpenSsl4) -> tuple[str, str]:
    """The key that the server has."""
    return openssl.keys("current.pem")


@pytest.fixture(scope="module")
def outdated(openssl: OpenSsl4) -> tuple[str, str]:
    """One that it has no longer."""
    return openssl.keys("outdated.pem")


def accepted(openssl: OpenSsl4, port: int, config: str, *words: str) -> None:
    said = openssl.ask(port, "-ech_config_list", config, *words)
    assert "ECH: success: 1" in said
    assert f"ECH: inner: {INNER}" in said
    assert f"ECH: outer: {OUTER}" in said
    assert " 200 ok" in said


def refused(openssl: OpenSsl4, server: SServer, config: str) -> None:
    """The client breaks off, and the server has read why."""
    before = alerts(server)
    assert "ECH: failed+retry-configs" in openssl.ask(server.port, "-ech_config_list", config)
    wait_for(lambda: alerts(server) == before + 1)


def alerts(server: SServer) -> int:
    """How often it says that it was sent the alert of ECH."""
    return server.output.read_text(errors="replace").count("SSL alert number 121")


def test_a_server_of_encrypted_hellos(
    openssl: OpenSsl4, server: SServer, current: tuple[str, str], outdated: tuple[str, str]
) -> None:
    with Trace(server.pid) as trace, Shakes(server.pid, options=("--by", "sni")) as shakes:
        for _ in range(TIMES):
            accepted(openssl, server.port, current[1])
            accepted(openssl, server.port, current[1], *ASKS_AGAIN)
            refused(openssl, server, outdated[1])
            assert "ECH: GREASE" in openssl.ask(server.port, "-ech_grease")
            assert "ECH: NOT CONFIGURED" in openssl.ask(server.port)
            assert " 200 ok" in openssl.ask(server.port, "-tls1_2")
    assert endings(shakes.document) == {"success": 5 * TIMES, "failure": TIMES}
    assert Counter(labels_of(shakes.ended("success"), "sni", "version")) == {
        (INNER, "TLSv1.3"): 4 * TIMES,
        (INNER, "TLSv1.2"): TIMES,
    }
    assert labels_of(shakes.ended("failure"), "sni", "version") == [(OUTER, "TLSv1.3")] * TIMES
    [cause] = shakes.document["handshakes"]["causes"]
    said = {"reason": "alert ECH required", "alert": "ECH required", "sent": False, "count": TIMES}
    assert cause.items() >= said.items()
    assert_books(shakes)
    served = shakes.document["handshakes"]["certificates"]
    assert {each["server_name"]: each["count"] for each in served} == {INNER: 5 * TIMES, OUTER: TIMES}
    assert {each["certificate"]["name"] for each in served} == {INNER}
    assert count(trace.document, "rsa_ossl_private_encrypt") == 6 * TIMES
    assert losses(trace.document) == {}


def test_a_session_that_an_encrypted_hello_resumes(openssl: OpenSsl4, server: SServer, current: tuple[str, str]) -> None:
    session = f"{Path(current[0]).parent}/session"
    with Shakes(server.pid, options=("--by", "sni")) as shakes:
        accepted(openssl, server.port, current[1], "-sess_out", session)
        for _ in range(TIMES):
            accepted(openssl, server.port, current[1], "-sess_in", session)
    assert endings(shakes.document) == {"success": 1 + TIMES}
    assert Counter(labels_of(shakes.singles, "sni", "resumed")) == {(INNER, "no"): 1, (INNER, "yes"): TIMES}
    assert_books(shakes)


def test_clients_that_encrypt_their_hellos(
    openssl: OpenSsl4, server: SServer, current: tuple[str, str], outdated: tuple[str, str]
) -> None:
    options = ("--library", str(openssl.library), "--role", "client", "--by", "sni")
    with Shakes(options=options) as shakes:
        for _ in range(TIMES):
            accepted(openssl, server.port, current[1])
            refused(openssl, server, outdated[1])
            openssl.ask(server.port, "-ech_grease")
    assert labels_of(shakes.ended("success"), "sni") == [(INNER,)] * 2 * TIMES
    assert labels_of(shakes.ended("failure"), "sni") == [(OUTER,)] * TIMES
    [cause] = shakes.document["handshakes"]["causes"]
    assert cause.items() >= {"reason": "ech required", "alert": "ECH required", "sent": True, "count": TIMES}.items()
    assert_books(shakes)


def test_an_encrypted_hello_that_cannot_be_read(openssl: OpenSsl4, server: SServer, current: tuple[str, str]) -> None:
    """An extension of no kind that there is."""
    hello = bytearray(hello_of(openssl, current[1]))
    hello[content_of(hello, ECH)] = 7
    with Shakes(server.pid, options=("--by", "sni")) as shakes:
        for _ in range(TIMES):
            with socket.create_connection(("127.0.0.1", server.port), timeout=20) as peer:
                peer.sendall(hello)
                while peer.recv(4096):
                    pass
    assert endings(shakes.document) == {"failure": TIMES}
    [cause] = shakes.document["handshakes"]["causes"]
    assert cause.items() >= {"reason": "bad extension", "alert": "illegal parameter", "sent": True, "count": TIMES}.items()
    assert_books(shakes)


def hello_of(openssl: OpenSsl4, config: str) -> bytes:
    """The first ClientHello of a client that has this key."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        words = ("s_client", "-connect", f"127.0.0.1:{port}", "-servername", INNER, "-ech_config_list", config)
        command = ["chroot", str(openssl.root), *openssl.program, *words]
        listening.settimeout(20)
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as client:
            try:
                peer, _ = listening.accept()
                peer.settimeout(20)
                with peer, peer.makefile("rb") as stream:
                    head = stream.read(5)
                    content = stream.read(int.from_bytes(head[3:5], "big"))
            finally:
                client.kill()
    return head + content


def content_of(hello: bytes, wanted: int) -> int:
    """Where in the record of a ClientHello the content of that extension begins: RFC 8446, 4.1.2."""
    at = 5 + 4 + 2 + 32  # record, message, version, random
    for size in (1, 2, 1):  # of the lengths of session ID, cipher suites, compression methods
        at += size + int.from_bytes(hello[at : at + size], "big")
    at += 2
    while int.from_bytes(hello[at : at + 2], "big") != wanted:
        assert at < len(hello)
        at += 4 + int.from_bytes(hello[at + 2 : at + 4], "big")
    return at + 4
