# SPDX-License-Identifier: Apache-2.0
"""Clients whose handshakes fail, each in its own way. Each makes one connection and returns when the server is done with it."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.live.clients.counted import TLS_1_2, TLS_1_3
from tests.live.servers.nginx import Certificate

# A record of 512 bytes whose rest never comes.
HALF_A_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


@contextlib.contextmanager
def plain(port: int, source: str = "127.0.0.1") -> Iterator[socket.socket]:
    """A connection from this address; past the block, the server has closed it."""
    with socket.create_connection(("127.0.0.1", port), 20, (source, 0)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield connection
        _to_the_end(connection)


def _to_the_end(connection: socket.socket) -> None:
    with contextlib.suppress(ConnectionError, ssl.SSLError, ValueError):
        while connection.recv(65536):
            pass


def context(version: ssl.TLSVersion = TLS_1_3) -> ssl.SSLContext:
    """One that trusts everybody."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    made.minimum_version = made.maximum_version = version
    return made


def _shake(port: int, made: ssl.SSLContext, name: str | None = None) -> str:
    """A handshake that fails: here, or by an alert that comes once our side is done. The reason, in Python's words."""
    with plain(port) as connection:
        try:
            with made.wrap_socket(connection.dup(), server_hostname=name) as tls:
                tls.recv(1)
        except ssl.SSLError as error:
            return error.reason
    return ""


def no_shared_cipher(port: int) -> None:
    """ECDSA's ciphers only; for a server with an RSA key."""
    made = context(TLS_1_2)
    made.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    _shake(port, made)


def foreign_cipher(port: int) -> None:
    """One cipher only, which GnuTLS doesn't have."""
    made = context(TLS_1_2)
    made.set_ciphers("ECDHE-ARIA128-GCM-SHA256")
    _shake(port, made)


def old_version(port: int) -> None:
    """TLS 1.1."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    made.set_ciphers("ALL:@SECLEVEL=0")
    made.minimum_version = made.maximum_version = ssl.TLSVersion.TLSv1_1
    _shake(port, made)


def nonsense(port: int) -> None:
    """No TLS at all."""
    with plain(port) as connection:
        connection.sendall(b"hello, is this the right port?")


def http(port: int) -> None:
    """HTTP."""
    with plain(port) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")


def end_of_file(port: int) -> None:
    """Half a ClientHello, then the end."""
    with plain(port) as connection:
        connection.sendall(HALF_A_HELLO)
        connection.shutdown(socket.SHUT_WR)


def reset(port: int) -> None:
    """A ClientHello, and once the server has begun to answer, a reset."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(hello(TLS_1_2))
        connection.recv(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def unknown_ca(port: int) -> None:
    """Trusts nobody, and says so."""
    _shake(port, ssl.create_default_context(), "localhost")


def wrong_name(certificate: Path, port: int) -> None:
    """Trusts the server's certificate, but looks for another name in it."""
    _shake(port, ssl.create_default_context(cafile=certificate), "elsewhere.example")


def no_certificate(version: ssl.TLSVersion, port: int) -> str:
    """Shows none. The reason that we are given."""
    return _shake(port, context(version))


def stranger(own: Certificate, port: int) -> None:
    """Shows one that the server doesn't trust."""
    made = context()
    made.load_cert_chain(own.certificate, own.key)
    _shake(port, made)


def other_curve(port: int) -> None:
    """Only P-384."""
    made = context()
    made.set_ecdh_curve("secp384r1")
    _shake(port, made)


def other_signatures(port: int) -> None:
    """Only ECDSA's; for a server with an RSA key. Python has no setting for it."""
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-tls1_3", "-sigalgs", "ECDSA+SHA256"]
    assert subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False).returncode


def other_protocol(port: int) -> None:
    """Only an application protocol that nobody speaks."""
    made = context()
    made.set_alpn_protocols(["nothing/1"])
    _shake(port, made)


def flipped_bit(version: ssl.TLSVersion, port: int) -> None:
    """The last bit of its Finished is another one."""
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context(version).wrap_bio(received, sent)
    with plain(port) as connection:
        connection.sendall(_flight(tls, sent))
        while not (ours := bytearray(_flight(tls, sent))):
            piece = connection.recv(65536)
            assert piece
            received.write(piece)
        ours[-1] ^= 1
        connection.sendall(ours)


def _flight(tls: ssl.SSLObject, sent: ssl.MemoryBIO) -> bytes:
    """What the client has to send by now; nothing until it has all that the server says first."""
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return sent.read()


def silent_hello(port: int) -> None:
    """Half a ClientHello, and then nothing until the server closes."""
    with plain(port) as connection:
        connection.sendall(HALF_A_HELLO)


def silent_after_hello(version: ssl.TLSVersion, port: int) -> None:
    """A whole ClientHello, and then nothing until the server closes."""
    with plain(port) as connection:
        connection.sendall(hello(version))


def hello(version: ssl.TLSVersion) -> bytes:
    sent = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context(version).wrap_bio(ssl.MemoryBIO(), sent).do_handshake()
    return sent.read()
