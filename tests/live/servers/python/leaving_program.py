# SPDX-License-Identifier: Apache-2.0
"""A server that frees its SSLs before their handshakes are over: leaving_program.py SETTINGS, an object with `certificate` and
`key`. It speaks to the system's OpenSSL itself and prints its port.

A line on standard input has it take one connection, call SSL_accept once there is a ClientHello, say that it has answered, and
once its socket shows what `until` says, free the SSL without another call. In the end it says what SSL_get_error said of its
only call. The line is an object:

- `until`: poll's events, all of them; 0 for none
- `reads`: it takes the bytes out of the socket itself first, and drops them
- `closes_first`: it closes the socket before it frees the SSL
- `takes_another`: it takes another connection in between, and keeps it
- `by_hand`: the library has no socket, and this program moves the bytes
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import json
import select
import socket
import sys

SETTINGS = json.loads(sys.argv[1])
SSL_FILETYPE_PEM = 1

LIBSSL = ctypes.CDLL(ctypes.util.find_library("ssl"))
Address = ctypes.c_void_p


def call(name: str, result: object, *arguments: object) -> object:
    """A function of libssl, whose arguments are addresses, texts and ints."""
    function = getattr(LIBSSL, name)
    function.restype = result
    return function(*(Address(given) if isinstance(given, int) and given > 1 << 31 else given for given in arguments))


def wait(connection: socket.socket, events: int) -> None:
    poll = select.poll()
    poll.register(connection, events)
    while not any(seen & events == events for _, seen in poll.poll(20)):
        pass


def accept(ssl: object) -> object:
    """What SSL_get_error says of a call."""
    return call("SSL_get_error", ctypes.c_int, ssl, call("SSL_accept", ctypes.c_int, ssl))


def answer(ssl: object, connection: socket.socket) -> object:
    call("SSL_set_fd", ctypes.c_int, ssl, connection.fileno())
    return accept(ssl)


def answer_by_hand(ssl: object, connection: socket.socket) -> object:
    """The same where this program moves the bytes."""
    received, sent = (call("BIO_new", Address, call("BIO_s_mem", Address)) for _ in range(2))
    call("SSL_set_bio", None, ssl, received, sent)
    hello, flight = connection.recv(65536), ctypes.create_string_buffer(65536)
    call("BIO_write", ctypes.c_int, received, hello, len(hello))
    error = accept(ssl)
    length = call("BIO_read", ctypes.c_int, sent, flight, len(flight))
    assert isinstance(length, int)
    connection.sendall(flight.raw[:length])
    return error


def serve(context: object, listener: socket.socket, order: dict[str, int], others: list[socket.socket]) -> object:
    connection, _ = listener.accept()
    connection.setblocking(False)
    ssl = call("SSL_new", Address, context)
    wait(connection, select.POLLIN)
    error = answer_by_hand(ssl, connection) if order["by_hand"] else answer(ssl, connection)
    print("answered", flush=True)
    if order["until"]:
        wait(connection, order["until"])
    if order["reads"]:
        with contextlib.suppress(ConnectionError):
            connection.recv(65536)
    if order["closes_first"]:
        connection.close()
    if order["takes_another"]:
        others.append(listener.accept()[0])
    call("SSL_free", None, ssl)
    connection.close()
    return error


def main() -> None:
    context = call("SSL_CTX_new", Address, call("TLS_server_method", Address))
    for name, file in (("SSL_CTX_use_certificate_file", "certificate"), ("SSL_CTX_use_PrivateKey_file", "key")):
        assert call(name, ctypes.c_int, context, SETTINGS[file].encode(), SSL_FILETYPE_PEM)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        print(listener.getsockname()[1], flush=True)
        others: list[socket.socket] = []
        for line in sys.stdin:
            print(serve(context, listener, json.loads(line), others), flush=True)


if __name__ == "__main__":
    main()
