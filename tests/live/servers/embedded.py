# SPDX-License-Identifier: Apache-2.0
"""Servers in Python whose TLS lies inside a library of another name: OpenSSL in cryptography's, BoringSSL in gRPC's, rustls in
Granian's. Run as a program: NAME CERTIFICATE KEY PORT [LINES]. It loads that library once it has read so many lines. The
loopback address only."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterable


def pyopenssl(certificate: str, key: str, port: int, *, asks: bool = False) -> None:
    """Answers each connection, in a thread of its own, once; connections that fail their handshake have ended with it. One
    that `asks` for clients' certificates takes any and none."""
    from OpenSSL import SSL

    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.use_certificate_chain_file(certificate)
    context.use_privatekey_file(key)
    if asks:
        context.set_verify(SSL.VERIFY_PEER, lambda *_: True)

    def serve(peer: socket.socket) -> None:
        connection = SSL.Connection(context, peer)
        connection.set_accept_state()
        try:
            connection.do_handshake()
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
            connection.recv(4096)
        except SSL.Error:
            pass
        finally:
            peer.close()

    with socket.create_server(("127.0.0.1", port), backlog=128) as listening:
        while True:
            peer, _ = listening.accept()
            threading.Thread(target=serve, args=[peer]).start()


def asking(certificate: str, key: str, port: int) -> None:
    pyopenssl(certificate, key, port, asks=True)


def connecting(certificate: str, key: str, port: int) -> None:
    """No server, but a client that makes a connection to this port at each line that it reads, and says so."""
    from OpenSSL import SSL

    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    context.use_certificate_chain_file(certificate)
    context.use_privatekey_file(key)
    context.set_verify(SSL.VERIFY_PEER, lambda *_: True)
    for line in sys.stdin:
        with socket.create_connection(("127.0.0.1", port)) as peer:
            connection = SSL.Connection(context, peer)
            connection.set_tlsext_host_name(line.strip().encode())
            connection.set_connect_state()
            connection.do_handshake()
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
            connection.recv(4096)
        print("connected", flush=True)


def grpc(certificate: str, key: str, port: int) -> None:
    """A server without services: a connection can be made."""
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    import grpc

    server = grpc.server(ThreadPoolExecutor(2))
    pair = (Path(key).read_bytes(), Path(certificate).read_bytes())
    server.add_secure_port(f"127.0.0.1:{port}", grpc.ssl_server_credentials([pair]))
    server.start()
    server.wait_for_termination()


Respond = Callable[[str, list[tuple[str, str]]], object]


def hello(_request: object, respond: Respond) -> Iterable[bytes]:
    """What Granian serves."""
    respond("200 OK", [("content-length", "5")])
    return [b"hello"]


def granian(certificate: str, key: str, port: int) -> None:
    """One worker; what listens is its master."""
    from pathlib import Path

    from granian import Granian
    from granian.constants import Interfaces

    pair = {"ssl_cert": Path(certificate), "ssl_key": Path(key)}
    Granian(f"{__file__}:hello", address="127.0.0.1", port=port, interface=Interfaces.WSGI, **pair).serve()


if __name__ == "__main__":
    name, own_certificate, own_key, number, *lines = sys.argv[1:]
    for _ in range(int(*lines)):
        sys.stdin.readline()
    own = {"pyopenssl": pyopenssl, "asking": asking, "connecting": connecting}
    {**own, "grpc": grpc, "granian": granian}[name](own_certificate, own_key, int(number))
