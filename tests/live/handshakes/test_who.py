# SPDX-License-Identifier: Apache-2.0
"""Who shook hands: server names, protocols, listeners and networks of real servers' clients, against what the clients did."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from ssllatency.load.matrix.servers.process import free_ports
from tests import foreign
from tests.live.clients.counted import TIMEOUT_S, TLS_1_2, TLS_1_3
from tests.live.commands.handshakes import Shakes, assert_books, labels_of
from tests.live.commands.snoop import Snoop
from tests.live.servers import debian
from tests.live.servers.named_certificates import bytes_of, certify, make_named_certificate
from tests.live.servers.nginx import Nginx, Settings, make_certificate
from tests.live.victims.obedient import obedient
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("tracing")

SETTINGS = Settings(kinds=("rsa", "ecdsa"), session_cache="shared:sessions:4m", tickets=False)
WHO = ("sni", "alpn", "port", "peer")
BY = ("--by", ",".join(WHO))


@pytest.fixture(params=["host", "debian 13"])
def root(request: pytest.FixtureRequest) -> Path | None:
    """Whose nginx and OpenSSL."""
    return None if request.param == "host" else foreign.needed(foreign.second_root()).resolve()


@functools.cache
def context_for(version: ssl.TLSVersion, ciphers: str, protocols: tuple[str, ...]) -> ssl.SSLContext:
    """The same for the same, as a session is resumed in its own only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    if ciphers:
        context.set_ciphers(ciphers)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


def shake(
    port: int, name: str = "", protocols: tuple[str, ...] = (), source: str = "127.0.0.1", *,
    version: ssl.TLSVersion = TLS_1_3, ciphers: str = "", session: ssl.SSLSession | None = None,
) -> ssl.SSLSession | None:  # fmt: skip
    """One connection from this address; its session."""
    context = context_for(version, ciphers, protocols)
    with (
        socket.create_connection(("127.0.0.1", port), TIMEOUT_S, (source, 0)) as plain,
        context.wrap_socket(plain, server_hostname=name or None, session=session) as tls,
    ):
        tls.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        while tls.recv(4096):
            pass
        return tls.session


def told(shakes: Shakes) -> list[tuple[str | None, ...]]:
    return labels_of(shakes.singles, *WHO)


@pytest.mark.smoke
def test_names_protocols_listeners_and_networks(certificates: Path, root: Path | None) -> None:
    with Nginx(certificates, SETTINGS, root) as server, Shakes(server.master_pid, options=BY) as shakes:
        rsa, ecdsa = server.port["rsa"], server.port["ecdsa"]
        for version in (TLS_1_2, TLS_1_3):
            session = shake(rsa, "a.example", ("http/1.1",), "127.0.1.5", version=version)
            shake(rsa, "a.example", ("http/1.1",), "127.0.1.6", version=version, session=session)
            shake(ecdsa, "b.example", ("other/1", "http/1.1"), "127.0.2.5", version=version)
            shake(ecdsa, "", (), "127.0.3.5", version=version)
        server.wait_idle()
    due = {
        ("a.example", "http/1.1", str(rsa), "127.0.1.0/24"): 4,
        ("b.example", "http/1.1", str(ecdsa), "127.0.2.0/24"): 2,
        ("none", "none", str(ecdsa), "127.0.3.0/24"): 2,
    }
    assert Counter(told(shakes)) == due
    assert Counter(labels_of(shakes.singles, "resumed")) == {("yes",): 2, ("no",): 6}
    groups = shakes.document["handshakes"]["groups"]
    assert {tuple(group["labels"][label] for label in WHO): group["count"] for group in groups} == due
    assert shakes.document["handshakes"]["unknown_labels"].keys().isdisjoint(WHO)
    assert_books(shakes)


def test_nothing_of_it_is_there_unless_it_is_asked_for(certificates: Path) -> None:
    with Nginx(certificates, SETTINGS) as server, Shakes(server.master_pid, options=("--by", "version,port")) as shakes:
        shake(server.port["rsa"], "secret.example", ("http/1.1",), "127.0.77.5")
        server.wait_idle()
    text = str(shakes.document) + str(shakes.singles)
    assert "127.0.77" not in text
    assert "secret.example" not in text
    assert labels_of(shakes.singles, "port") == [(str(server.port["rsa"]),)]


def test_hostile_names_are_harmless(certificates: Path) -> None:
    names = {
        b"\x1b[2J\xff\xfe": r"\x1b[2J\xff\xfe",
        b"<b>&'x": "<b>&'x",
        b"none": '"none"',
        b"n" * 200: "n" * 64 + "…",
        b"n" * 64 + b"m": "n" * 64 + "…",
    }
    with Nginx(certificates, SETTINGS) as server, Shakes(server.master_pid, options=("--by", "sni")) as shakes:
        for name in names:
            command = [b"openssl", b"s_client", b"-connect", b"127.0.0.1:%d" % server.port["ecdsa"], b"-servername", name]
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False)
        server.wait_idle()
    assert [name for (name,) in labels_of(shakes.singles, "sni")] == list(names.values())
    assert len(shakes.document["handshakes"]["groups"]) == len(names) - 1


@pytest.mark.parametrize("most", [1, 3])
def test_names_are_bounded(certificates: Path, most: int) -> None:
    """The first that come have a row of their own; all others count under "other"."""
    options = ("--by", "sni", "--max-groups", str(most))
    with Nginx(certificates, SETTINGS) as server, Shakes(server.master_pid, options=options) as shakes:
        for number in (*range(6), *range(6)):
            shake(server.port["ecdsa"], f"{number}.example")
        server.wait_idle()
    groups = shakes.document["handshakes"]["groups"]
    assert {group["labels"]["sni"]: group["count"] for group in groups if not group.get("other")} == {
        f"{number}.example": 2 for number in range(most)
    }
    assert [group["count"] for group in groups if group.get("other")] == [2 * (6 - most)]


def test_handshakes_that_fail(certificates: Path) -> None:
    """What was there before is told; the protocol isn't known, as none was chosen yet."""
    with Nginx(certificates, SETTINGS) as server, Shakes(server.master_pid, options=BY) as shakes:
        port = server.port["ecdsa"]
        with pytest.raises(ssl.SSLError):
            shake(port, "a.example", ("http/1.1",), "127.0.1.5", version=TLS_1_2, ciphers="ECDHE-RSA-AES128-GCM-SHA256")
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_S, ("127.0.2.5", 0)) as plain:
            plain.sendall(b"\x16\x03\x01\x00\x05hello")
            plain.recv(100)
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_S, ("127.0.3.5", 0)) as plain:
            plain.sendall(b"\x16\x03\x01\x02\x00\x01")
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        server.wait_idle()
    assert sorted(told(shakes), key=str) == [
        ("a.example", None, str(port), "127.0.1.0/24"),
        (None, None, str(port), "127.0.2.0/24"),
        (None, None, str(port), "127.0.3.0/24"),
    ]
    assert {single["ending"] for single in shakes.singles} <= {"failure", "abandoned"}
    assert_books(shakes)


def test_a_handshake_that_the_server_gives_up(certificates: Path) -> None:
    settings = replace(SETTINGS, directives="client_header_timeout 1s;")
    with Nginx(certificates, settings) as server, Shakes(server.master_pid, options=BY) as shakes:
        with socket.create_connection(("127.0.0.1", server.port["rsa"]), TIMEOUT_S, ("127.0.2.5", 0)) as plain:
            plain.sendall(b"\x16\x03\x01")
            assert plain.recv(1) == b""
        server.wait_idle()
    assert [(single["ending"], single["reason"]) for single in shakes.singles] == [("abandoned", "freed")]
    assert told(shakes) == [(None, None, str(server.port["rsa"]), "127.0.2.0/24")]


def test_snoop_tells_it_of_calls_that_end_a_handshake(certificates: Path) -> None:
    with Nginx(certificates, SETTINGS) as server, Snoop(server.master_pid, options=("--json", *BY)) as snoop:
        port = server.port["ecdsa"]
        shake(port, "a.example", ("http/1.1",), "127.0.1.5")
        with pytest.raises(ssl.SSLError):
            shake(port, "b.example", version=TLS_1_2, ciphers="ECDHE-RSA-AES128-GCM-SHA256")
        server.wait_idle()
    ends = [call for call in snoop.calls() if "labels" in call]
    assert [(call["function"], call["outcome"]) for call in ends] == [
        ("SSL_do_handshake", "success"),
        ("SSL_do_handshake", "failure"),
    ]
    due = dict(zip(WHO, ("a.example", "http/1.1", str(port), "127.0.1.0/24"), strict=True))
    assert [call["labels"] for call in ends] == [due, {**due, "sni": "b.example", "alpn": None, "peer": "127.0.0.0/24"}]


SERVED = ("server_name", "port", "chain", "chain_bytes", "count", "unsuccessful")
_NAMED = """server {{
    listen 127.0.0.1:{port} ssl; server_name {name};
    ssl_certificate {folder}/{name}.crt; ssl_certificate_key {folder}/{name}.key;
}}"""


def test_certificates_by_name_and_after_a_reload(certificates: Path, tmp_path: Path, root: Path | None) -> None:
    """Of two names with one certificate each, one of which is replaced; a resumed handshake serves none."""
    folder = Path(tempfile.mkdtemp(dir=root / "tmp")) if root else tmp_path
    inside = Path("/") / folder.relative_to(root) if root else folder
    authority, root_of_it = (make_named_certificate(kind, folder, kind, 400) for kind in ("ECDSA-P-256", "RSA-4096"))
    a = certify(folder, "a.example", "RSA-2048", 12, authority, root_of_it)
    b = certify(folder, "b.example", "ECDSA-P-256", 3)
    (port,) = free_ports(1)
    named = "".join(_NAMED.format(port=port, name=name, folder=inside) for name in ("a.example", "b.example"))
    with (
        Nginx(certificates, replace(SETTINGS, directives=named), root) as server,
        Shakes(server.master_pid, options=("--by", "sni")) as shakes,
    ):
        session = shake(port, "a.example", version=TLS_1_2)
        shake(port, "a.example", version=TLS_1_2, session=session)
        shake(port, "b.example")
        shake(port, "b.example", version=TLS_1_2)
        renewed = certify(folder, "b.example", "Ed25519", 90)
        before = server.worker_pids()
        os.kill(server.master_pid, signal.SIGHUP)
        wait_for(lambda: server.worker_pids() and not {*server.worker_pids()} & {*before})
        shake(port, "b.example")
        server.wait_idle()
    told_ones = [
        (*(one.get(name) for name in SERVED), one["certificate"]) for one in shakes.document["handshakes"]["certificates"]
    ]
    due = [
        ("b.example", port, 0, b["size"], 2, 0, {**b, "key": "ECDSA P-256"}),
        ("a.example", port, 2, bytes_of(folder / "a.example.crt"), 1, 0, {**a, "key": "RSA-2048"}),
        ("b.example", port, 0, renewed["size"], 1, 0, {**renewed, "key": "Ed25519"}),
    ]
    for told_one, expected in zip(told_ones, due, strict=True):
        assert told_one[:-1] == expected[:-1]
        assert expected[-1].items() <= told_one[-1].items()
        assert told_one[-1]["issued_by"] == "itself"
    assert shakes.document["handshakes"]["certificates_untold"] == 0
    assert labels_of(shakes.singles, "resumed").count(("yes",)) == 1
    if root:
        shutil.rmtree(folder)


def encrypted(plain: socket.socket) -> None:
    """Asks PostgreSQL for TLS on this connection."""
    plain.sendall(struct.pack("!II", 8, 80877103))
    assert plain.recv(1) == b"S"


def reset(port: int, source: str, ask: Callable[[socket.socket], None]) -> None:
    """A connection that is reset in the middle of its handshake, once the server has answered."""
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S, (source, 0)) as plain:
        ask(plain)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        with contextlib.suppress(ssl.SSLWantReadError):
            context_for(TLS_1_3, "", ()).wrap_bio(incoming, outgoing).do_handshake()
        plain.sendall(outgoing.read())
        assert plain.recv(1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


SOURCES = ("127.0.0.1", "127.1.2.3", "127.1.2.4", "127.9.9.9")


@pytest.mark.parametrize(
    ("server", "ask"),
    [(debian.haproxy, lambda _: None), (debian.apache, lambda _: None), (debian.postgresql, encrypted)],
    ids=["haproxy", "apache", "postgresql"],
)
def test_a_library_that_shows_no_socket_is_seen_to_read_one(
    server: Callable[..., AbstractContextManager[debian.Running]], ask: Callable[[socket.socket], None], certificates: Path
) -> None:
    """Its BIO is the server's own, and reads in the handshake's calls."""
    made: list[str] = []
    with (
        server(make_certificate("ecdsa", certificates)) as running,
        Shakes(running.pid, options=("--by", "port,peer", "--peer-prefix", "32,128")) as shakes,
    ):

        def shake_from(source: str) -> None:
            made.append(source)
            with socket.create_connection(("127.0.0.1", running.port), TIMEOUT_S, (source, 0)) as plain:
                ask(plain)
                context_for(TLS_1_2, "", ()).wrap_socket(plain).close()

        shakes.learn_port(running.port, lambda: shake_from("127.0.0.1"))
        for source in SOURCES * 3:
            shake_from(source)
        for source in SOURCES[2:]:
            reset(running.port, source, ask)
        wait_for(lambda: shakes.printed('"ended_s"') == len(made) + 2)
    done = labels_of(shakes.ended("success"), "port", "peer")
    assert Counter(done[-3 * len(SOURCES) :]) == {(str(running.port), f"{source}/32"): 3 for source in SOURCES}
    assert {*done[: -3 * len(SOURCES)]} <= {(None, None), (str(running.port), "127.0.0.1/32")}
    left = [*labels_of(shakes.ended("abandoned"), "port", "peer"), *labels_of(shakes.ended("failure"), "port", "peer")]
    assert Counter(left) == {(str(running.port), f"{source}/32"): 1 for source in SOURCES[2:]}


# A server that moves the bytes itself: the library has no socket.
_MEMORY = """
import asyncio, ssl, sys
async def answer(reader, writer):
    writer.write(await reader.read(1)); await writer.drain(); writer.close()
async def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    context.set_alpn_protocols(["http/1.1"])
    await asyncio.start_server(answer, "127.0.0.1", int(sys.argv[3]), ssl=context)
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
asyncio.run(main())
"""


def test_without_a_socket_port_and_peer_are_unknown(certificates: Path) -> None:
    pair = make_certificate("ecdsa", certificates)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = (sys.executable, "-c", _MEMORY, pair.certificate, pair.key, port)
    with obedient(*command) as (pid, _), Shakes(pid, options=BY) as shakes:
        shake(port, "a.example", ("http/1.1",))
    assert told(shakes) == [("a.example", "http/1.1", None, None)]
