# SPDX-License-Identifier: Apache-2.0
"""A TLS server of Python's ssl module, as a program: python_program.py SETTINGS, an object with the fields of TlsSettings.

It prints "port N", and for each line of its input, once no connection is left, the counts so far as a line of JSON: by how the
handshakes ended, "" for well, else OpenSSL's own reason as Python has it.
"""

from __future__ import annotations

import itertools
import json
import socket
import ssl
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

CLIENT_HELLO = 1  # the type of the message
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


class Server:
    """One thread for each connection."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._contexts = itertools.cycle([context_of(settings) for _ in range(settings["contexts"])])
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=settings["backlog"])
        self._changed = threading.Condition()
        self._open = 0
        self._ends: Counter[str] = Counter()

    def run(self) -> None:
        """Serves until the input ends."""
        threading.Thread(target=self._accept, daemon=True).start()
        print(f"port {self._listener.getsockname()[1]}", flush=True)
        for _ in sys.stdin:
            with self._changed:
                self._changed.wait_for(lambda: not self._open)
                print(json.dumps(self._ends), flush=True)

    def _accept(self) -> None:
        while True:
            time.sleep(self._settings["accept_s"])
            plain = self._listener.accept()[0]
            with self._changed:
                self._open += 1
            threading.Thread(target=self._serve, args=(plain, next(self._contexts)), daemon=True).start()

    def _serve(self, plain: socket.socket, context: ssl.SSLContext) -> None:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._settings["send_buffer"]:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._settings["send_buffer"])
        plain.settimeout(self._settings["timeout_s"] or None)
        end = self._talk(plain, context)
        with self._changed:
            self._open -= 1
            self._ends[end] += 1
            self._changed.notify_all()

    def _talk(self, plain: socket.socket, context: ssl.SSLContext) -> str:
        """How the handshake ended. The request that follows is answered."""
        with plain:
            try:
                tls = context.wrap_socket(plain, server_side=True, do_handshake_on_connect=not self._settings["lazy"])
                if self._settings["lazy"]:
                    tls.recv(65536)
            except OSError as error:
                return getattr(error, "reason", None) or type(error).__name__
            with tls:
                answer(tls, asked=self._settings["lazy"])
        return ""


def context_of(settings: dict[str, Any]) -> ssl.SSLContext:
    """The context that the settings describe."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(settings["certificate"], settings["key"])
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    if settings["version"]:
        context.minimum_version = context.maximum_version = ssl.TLSVersion[settings["version"]]
    if settings["curve"]:
        context.set_ecdh_curve(settings["curve"])
    if settings["client_ca"]:
        context.load_verify_locations(settings["client_ca"])
        context.verify_mode = ssl.CERT_REQUIRED
    if settings["sleep_s"]:
        slow = settings["slow_name"]
        context.sni_callback = lambda _, name, __: nap(
            0 if slow and name != slow else settings["sleep_s"], settings["slow_while"]
        )
    if settings["message_s"]:
        private: Any = context
        private._msg_callback = lambda *message: nap(settings["message_s"] if message[4] == CLIENT_HELLO else 0, "")
    if settings["ask_s"]:
        late = late_answers(settings["ask_s"])
        context.sni_callback = lambda *_: ask(late)
    return context


def nap(seconds: float, only_while: str) -> None:
    """Sleeps, where a file is named only while it is there."""
    if not only_while or Path(only_while).exists():
        time.sleep(seconds)


def late_answers(after_s: float) -> int:
    """The port of a server without TLS, in a thread, that says one byte to each client so late."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            with listener.accept()[0] as asked:
                time.sleep(after_s)
                asked.sendall(b"x")

    threading.Thread(target=serve, daemon=True).start()
    return int(listener.getsockname()[1])


def ask(port: int) -> None:
    """Waits for that answer."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.recv(1)


def answer(tls: ssl.SSLSocket, *, asked: bool) -> None:
    """Answers the request, if one comes, and closes in good order, if the client does."""
    try:
        if asked or tls.recv(65536):
            tls.sendall(RESPONSE)
        tls.unwrap()
    except OSError:
        pass  # the client has gone its own way


if __name__ == "__main__":
    Server(json.loads(sys.argv[1])).run()
