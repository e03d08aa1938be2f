# SPDX-License-Identifier: Apache-2.0
"""Servers and clients as Debian ships them: what they called is known from what was asked of them, and both commands, attached
at the same time, count just that."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from ssl import TLSVersion

import pytest

from tests.live.clients.bad import context
from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client
from tests.live.commands.handshakes import Shakes, assert_books, labels_of
from tests.live.commands.trace import Trace, counts, losses
from tests.live.servers import debian as programs
from tests.live.servers.debian import Running, Told
from tests.live.servers.nginx import Certificate, Nginx, Settings, make_certificate
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("tracing")

CONNECTIONS, REQUESTS = 4, 3
VERSIONS = (TLS_1_2, TLS_1_3)
X25519, P_256 = "x25519", "secp256r1"
KEY_OPERATIONS = {"rsa": "rsa_ossl_private_encrypt", "ecdsa": "ossl_ecdsa_sign"}
EXCHANGES = {X25519: "ecx_derive", P_256: "ossl_ecdh_compute_key"}


def https(port: int, version: TLSVersion, requests: int) -> None:
    """The connections, one after the other, each seen to its very end."""
    Client(port, version).connect_times(CONNECTIONS, requests=requests)


def psql(port: int, version: TLSVersion, requests: int) -> None:
    """The same of PostgreSQL's own client. What it sends first, and that it leaves, are messages as well."""
    where = f"host=127.0.0.1 port={port} user=postgres dbname=postgres sslmode=require"
    newest = f"ssl_max_protocol_version={version.name.replace('_', '.')}"
    command = ["psql", f"{where} {newest}", *["--command", "select 1"] * (requests - 2)]
    for _ in range(CONNECTIONS):
        subprocess.run(command, check=True, capture_output=True, timeout=20)


def hasty(port: int, version: TLSVersion, requests: int) -> None:
    """Leaves without a word. Its last request, which isn't answered with 200, comes when the others are in the books."""
    for _ in range(CONNECTIONS):
        with context(version).wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=20)) as tls:
            for path in ("/", "/", "/missing")[-requests:]:
                tls.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                response = b""
                while not response.endswith((b"hello", b"</html>")):
                    response += tls.recv(65536)


@dataclass(frozen=True)
class Due:
    """What a server does for each connection of so many requests: its calls by function, and what its statistics say of all
    connections, of which there are two times CONNECTIONS. `socket`: whether it hands its sockets to the library; `reads`: or
    reads them in the handshakes' calls, which is seen once some have ended."""

    calls: dict[str, int]
    told: Callable[[int], Told]
    group: str = X25519
    requests: int = REQUESTS
    socket: bool = False
    reads: bool = False
    client: Callable[[int, TLSVersion, int], None] = https


def _http(handshake: str, **more: int) -> dict[str, int]:
    """A call for each handshake, request, response and end."""
    return {handshake: 1, "SSL_read": REQUESTS, "SSL_write": REQUESTS, "SSL_shutdown": 1, **more}


ACCEPTS = {"SSL_do_handshake": 1}  # SSL_accept calls it
HANDSHAKES: Callable[[int], Told] = lambda connections: {"handshakes": connections}  # noqa: E731
DUE = {
    "haproxy": Due(
        _http("SSL_do_handshake"),
        lambda number: {"handshakes": number, "requests": number * REQUESTS, "responses": number * REQUESTS},
        reads=True,
    ),
    # Its statistics count the question for them before this one, too.
    "apache": Due(_http("SSL_accept", **ACCEPTS), lambda number: {"requests": number * REQUESTS + 1}, reads=True),
    "stunnel": Due(_http("SSL_accept", **ACCEPTS), HANDSHAKES, socket=True),
    # The answers: that the connection stands, and one to each command.
    "postgresql": Due(
        {**_http("SSL_accept", **ACCEPTS), "SSL_write": REQUESTS - 1}, HANDSHAKES, group=P_256, client=psql, reads=True
    ),
    # It answers one request, then says that it closes and waits for the client's word.
    "python": Due(
        {"SSL_do_handshake": 1, "SSL_read_ex": 1, "SSL_write_ex": 1, "SSL_shutdown": 2, "SSL_read": 0, "SSL_write": 0},
        HANDSHAKES,
        group=P_256,
        requests=1,
        socket=True,
    ),
    # The handshakes end within SSL_read.
    "tomcat": Due(
        {"SSL_do_handshake": 0, "SSL_read": REQUESTS}, lambda number: {"requests": number * (REQUESTS - 1)}, client=hasty
    ),
    # It shakes hands within SSL_read and SSL_write.
    "node": Due(
        _http("SSL_do_handshake", SSL_do_handshake=0), lambda number: {"handshakes": number, "requests": number * REQUESTS}
    ),
}
SERVERS: dict[str, Callable[[Certificate], AbstractContextManager[Running]]] = {name: getattr(programs, name) for name in DUE}


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
@pytest.mark.parametrize("name", DUE)
def test_a_server(certificates: Path, name: str, kind: str) -> None:
    due, number = DUE[name], CONNECTIONS * len(VERSIONS)
    with SERVERS[name](make_certificate(kind, certificates)) as server:
        before = server.told()
        with Trace(server.pid) as trace, Shakes(server.pid, options=("--by", "port,peer")) as shakes:
            for version in VERSIONS:
                due.client(server.port, version, due.requests)
            after = server.told()
    assert {name: after[name] - before[name] for name in after} == due.told(number)
    expected = {name: calls * number for name, calls in due.calls.items()}
    expected |= {KEY_OPERATIONS[kind]: number, EXCHANGES[due.group]: number, "EVP_PKEY_keygen": number}
    assert counts(trace.document, list(expected)) == expected
    assert losses(trace.document) == {}
    assert trace.document["in_flight"] == 0
    labels = [(version.name.replace("_", "."), "no", due.group, "server") for version in VERSIONS for _ in range(CONNECTIONS)]
    assert labels_of(shakes.singles, "version", "resumed", "group", "role") == labels
    known = {(str(server.port), "127.0.0.0/24")} if due.socket or due.reads else set()
    unknown = set() if due.socket else {(None, None)}
    assert set(labels_of(shakes.singles, "port", "peer")) <= known | unknown
    assert_books(shakes)


WRK = """
local answers = 0
wrk.headers["Connection"] = "close"
io.read()
function response() answers = answers + 1; if answers == {enough} then wrk.thread:stop() end end
"""


@contextmanager
def waiting(*command: object) -> Iterator[subprocess.Popen[str]]:
    """The client, which has loaded its libraries and waits for its input; it is to have ended well by the end of the block."""
    words = list(map(str, command))
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as client:
        wait_for(lambda: reads_its_input(client.pid))
        yield client
        assert client.returncode == 0


def reads_its_input(pid: int) -> bool:
    """Whether its first thread is in read(0, …)."""
    number, *arguments = Path(f"/proc/{pid}/syscall").read_text().split()
    return (number, arguments[:1]) == ("0", ["0x0"])


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
@pytest.mark.parametrize("kept", [True, False], ids=["one connection", "several"])
def test_curl(certificates: Path, version: TLSVersion, kept: bool) -> None:
    """Whether it resumes its session where it connects again it says itself."""
    number = 1 if kept else REQUESTS
    command = ["curl", "-sSkv", "--tls-max", version.name[-3:].replace("_", "."), "--config", "-"]
    with Nginx(certificates) as server, waiting(*command) as client:
        header = "" if kept else 'header = "Connection: close"\n'
        request = f'url = "https://127.0.0.1:{server.port["ecdsa"]}/"\noutput = "/dev/null"\n'
        with client_traced(client.pid) as (trace, shakes):
            said = client.communicate(header + REQUESTS * request, timeout=20)[1]
        assert server.wait_idle().handled == number
    expected = dict.fromkeys(("SSL_connect", "SSL_do_handshake", "SSL_shutdown"), number) | {"SSL_accept": 0}
    expected |= dict.fromkeys(("SSL_read", "SSL_write"), REQUESTS)
    resumed = said.count("SSL re-using session ID")
    expected["ECDSA_verify"] = number - resumed
    assert counts(trace.document, list(expected)) == expected
    assert_client_labels(shakes, version.name.replace("_", "."), number - resumed, resumed)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_wrk(certificates: Path, tmp_path: Path, version: str) -> None:
    """It resumes its session, too. With its last answer it connects once more, and leaves before the handshake."""
    enough = 20
    (tmp_path / "script.lua").write_text(WRK.format(enough=enough))
    with Nginx(certificates, Settings(protocols=version)) as server:
        command = ["wrk", "-t1", "-c1", "-d1s", "-s", tmp_path / "script.lua", f"https://127.0.0.1:{server.port['ecdsa']}/"]
        with waiting(*command) as client, client_traced(client.pid) as (trace, shakes):
            client.communicate("\n", timeout=20)
        server.wait_idle()
    expected = dict.fromkeys(("SSL_connect", "SSL_do_handshake", "SSL_read", "SSL_write"), enough) | {"ECDSA_verify": 1}
    assert counts(trace.document, list(expected)) == expected
    assert_client_labels(shakes, version, 1, enough - 1)


def assert_client_labels(shakes: Shakes, version: str, full: int, resumed: int) -> None:
    """So many full handshakes, and then so many resumed ones."""
    due = [*[(version, "no", "client")] * full, *[(version, "yes", "client")] * resumed]
    assert labels_of(shakes.singles, "version", "resumed", "role") == due


@contextmanager
def client_traced(pid: int) -> Iterator[tuple[Trace, Shakes]]:
    """Both commands on the process until it has ended, as a client; their books are in order."""
    options = ("--role", "client")
    with Trace(pid, options=options) as trace, Shakes(pid, options=options) as shakes:
        yield trace, shakes
    assert losses(trace.document) == {}
    assert trace.document["in_flight"] == 0
    assert_books(shakes)
