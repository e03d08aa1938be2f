# SPDX-License-Identifier: Apache-2.0
"""A server of one thread and an event loop that is late on purpose: the program of queues.py, which says how. It speaks to the
sockets by OpenSSL's own BIO and never blocks on them."""

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


def shake_hands(loop: selectors.DefaultSelector, connection: ssl.SSLSocket) -> None:
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
                assert isinstance(key.fileobj, ssl.SSLSocket)
                shake_hands(loop, key.fileobj)
                continue
            plain, _ = listener.accept()
            plain.setblocking(False)
            connection = context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
            loop.register(connection, selectors.EVENT_READ)


if __name__ == "__main__":
    main()
