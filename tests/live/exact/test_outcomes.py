# SPDX-License-Identifier: Apache-2.0
"""What isn't a success: each under its own name, retries apart from failures, the server's side from the client's."""

from __future__ import annotations

import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client
from tests.live.commands.trace import Trace, count, losses, reasons
from tests.live.servers.nginx import Nginx, Settings

pytestmark = pytest.mark.usefixtures("tracing")
TIMES = 7


def plain(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def read_to_end(connection: socket.socket) -> None:
    try:
        while connection.recv(4096):
            pass
    except ConnectionError:
        pass  # the server has closed with our bytes unread


def speak_nonsense(port: int) -> None:
    """A handshake record that holds no handshake message. (Plain HTTP wouldn't do: nginx answers it without OpenSSL.)"""
    with plain(port) as connection:
        connection.sendall(b"\x16\x03\x01\x00\x08nonsense")
        read_to_end(connection)


def reset_in_the_middle(port: int) -> None:
    """A record's header and no more, then a reset."""
    with plain(port) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def refuse_the_certificate(port: int) -> None:
    """The client trusts nobody and sends an alert."""
    context = ssl.create_default_context()
    context.maximum_version = TLS_1_2
    with plain(port) as connection, pytest.raises(ssl.SSLCertVerificationError):
        context.wrap_socket(connection, server_hostname="localhost")


def offer_an_old_version(port: int) -> None:
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=10)
    assert done.returncode != 0


@pytest.mark.parametrize(
    ("act", "reason"),
    [(speak_nonsense, "SSL"), (reset_in_the_middle, "SYSCALL"), (refuse_the_certificate, "SSL"), (offer_an_old_version, "SSL")],
    ids=["nonsense", "reset", "refused certificate", "old version"],
)
def test_failed_handshakes_have_their_reason(certificates: Path, act: Callable[[int], None], reason: str) -> None:
    with Nginx(certificates) as server, Trace(server.master_pid) as trace:
        for _ in range(TIMES):
            act(server.port["rsa"])
        good = Client(server.port["rsa"], TLS_1_3).connect_times(3)
        server.wait_idle()
    document = trace.document
    assert reasons(document, "SSL_do_handshake", "failure") == {reason: TIMES}
    assert count(document, "SSL_do_handshake", "failure") == TIMES
    assert count(document, "SSL_do_handshake") == len(good)
    assert set(reasons(document, "SSL_do_handshake", "retry")) <= {"WANT_READ"}
    assert losses(document) == {}


@pytest.mark.smoke
def test_waits_are_retries_and_a_close_is_a_close(certificates: Path) -> None:
    """nginx reads until it would block: each request leaves one WANT_READ at least, each close_notify one ZERO_RETURN."""
    with Nginx(certificates) as server, Trace(server.master_pid) as trace:
        Client(server.port["ecdsa"], TLS_1_3).connect_times(TIMES, requests=5)
        server.wait_idle()
    document = trace.document
    assert reasons(document, "SSL_read", "closed") == {"ZERO_RETURN": TIMES}
    assert count(document, "SSL_read", "failure") == 0
    waits = reasons(document, "SSL_read", "retry")
    assert set(waits) == {"WANT_READ"}
    assert waits["WANT_READ"] >= 5 * TIMES
    assert count(document, "SSL_read") == 5 * TIMES


def test_a_full_socket_is_a_want_write(certificates: Path) -> None:
    """The client asks for more than the socket's buffers hold and reads it late."""
    with Nginx(certificates, Settings(exact=(4000,))) as server, Trace(server.master_pid) as trace:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(20)
            connection.connect(("127.0.0.1", server.port["ecdsa"]))
            with context.wrap_socket(connection) as tls:
                asked = 2000
                tls.sendall(b"GET /4000 HTTP/1.1\r\nHost: x\r\n\r\n" * asked)
                time.sleep(0.5)  # a machine may be quick enough to read it all as it comes
                left = asked * 4000
                while left:
                    left -= len(tls.recv(16384))
        server.wait_idle()
    document = trace.document
    assert set(reasons(document, "SSL_write", "retry")) == {"WANT_WRITE"}
    assert count(document, "SSL_write", "failure") == 0
    assert losses(document) == {}


PAIRS = 100
BOTH_SIDES = """
import ssl, sys
certificate, key, times = sys.argv[1:]
server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
server.load_cert_chain(certificate, key)
client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
client.check_hostname, client.verify_mode = False, ssl.CERT_NONE

def until_done(*actions):
    while actions:
        left = []
        for action in actions:
            try:
                action()
            except ssl.SSLWantReadError:
                left.append(action)
        actions = left

def talk(number):
    # Now one side is made first and now the other, so that an address comes back as the other side's; every second pair
    # shakes hands within its first write and read.
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    made = {}
    for name in ("client", "server") if number % 4 < 2 else ("server", "client"):
        if name == "client":
            made[name] = client.wrap_bio(to_client, to_server)
        else:
            made[name] = server.wrap_bio(to_server, to_client, server_side=True)
    if number % 2:
        until_done(made["client"].do_handshake, made["server"].do_handshake)
    received = []
    until_done(lambda: made["client"].write(b"x" * 256), lambda: received.append(made["server"].read(1000)))
    assert received == [b"x" * 256]

print("ready", flush=True)
sys.stdin.readline()
for number in range(int(times)):
    talk(number)
print("done", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize(("role", "shares"), [("server", (1, 2, 0)), ("client", (1, 0, 2)), ("any", (2, 2, 2))])
def test_server_and_client_in_one_process(certificates: Path, role: str, shares: tuple[int, int, int]) -> None:
    """Python's ssl module: SSL_do_handshake in every second pair, and the _ex forms of read and write."""
    command = [sys.executable, "-c", BOTH_SIDES, certificates / "ecdsa.crt", certificates / "ecdsa.key", str(2 * PAIRS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as both:
        assert both.stdin
        assert both.stdout
        assert both.stdout.readline() == "ready\n"
        with Trace(both.pid, options=("--role", role)) as trace:
            both.stdin.write("go\n")
            both.stdin.flush()
            assert both.stdout.readline() == "done\n"
        both.communicate()
    document = trace.document
    found = [count(document, function) for function in ("SSL_do_handshake", "SSL_read_ex", "SSL_write_ex")]
    assert found == [PAIRS * share for share in shares]
    assert count(document, "ossl_ecdsa_sign") == 2 * PAIRS
    assert losses(document) == {}
