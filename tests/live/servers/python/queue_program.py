# SPDX-License-Identifier: Apache-2.0
"""A server of one thread and an event loop that is late on purpose: the program of queues.py, which says how. It speaks to the
sockets by OpenSSL's own BIO, unless it is told to move the bytes itself, and never blocks on them."""

from __future__ import annotations

import json
import selectors
import socket
import ssl
import sys
import time

SETTINGS = json.loads(sys.argv[1])


def spin(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def late() -> None:
    """What the loop does before it comes back to a connection."""
    time.sleep(SETTINGS["sleep_s"])
    spin(SETTINGS["spin_s"])


class Buffered:
    """A connection to whose socket the library has no access: the program reads it, and writes the library's flights to it."""

    def __init__(self, context: ssl.SSLContext, plain: socket.socket) -> None:
        self._plain = plain
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.fileno, self.close = plain.fileno, plain.close

    def do_handshake(self) -> None:
        self._incoming.write(self._plain.recv(1 << 16))
        try:
            self._tls.do_handshake()
        finally:
            if self._outgoing.pending:
                time.sleep(SETTINGS["write_s"])
                self._write(self._outgoing.read())

    def _write(self, flight: bytes) -> None:
        length = -(-len(flight) // SETTINGS["pieces"])
        for at in range(0, len(flight), length):
            self._plain.send(flight[at : at + length])


Connection = ssl.SSLSocket | Buffered


def connection_of(context: ssl.SSLContext, plain: socket.socket) -> Connection:
    plain.setblocking(False)
    if SETTINGS["pieces"]:
        return Buffered(context, plain)
    return context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)


def shake_hands(loop: selectors.DefaultSelector, connection: Connection) -> None:
    late()
    try:
        connection.do_handshake()
    except ssl.SSLWantReadError:
        return
    except OSError:
        pass
    loop.unregister(connection)
    connection.close()


def main() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(SETTINGS["certificate"], SETTINGS["key"])
    if SETTINGS["callback_s"]:
        context.sni_callback = lambda *_: spin(SETTINGS["callback_s"])
    loop = selectors.DefaultSelector()
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    listener.setblocking(False)
    loop.register(listener, selectors.EVENT_READ)
    print(listener.getsockname()[1], flush=True)
    while True:
        for key, _ in loop.select():
            if key.fileobj is not listener:
                assert isinstance(key.fileobj, Connection)
                shake_hands(loop, key.fileobj)
                continue
            plain, _ = listener.accept()
            loop.register(connection_of(context, plain), selectors.EVENT_READ)


if __name__ == "__main__":
    main()
