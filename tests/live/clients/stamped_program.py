# SPDX-License-Identifier: Apache-2.0
"""Clients that note when each of their flights left and came, as a program: stamped_program.py SETTINGS, an object with the
fields of stamped.Stamping, the server's port and the processors to run on. It prints the handshakes as JSON."""

from __future__ import annotations

import gc
import json
import os
import socket
import ssl
import sys
import threading
import time
from typing import Any

SETTINGS = json.loads(sys.argv[1])
TIMEOUT_S = 20.0
Handshake = dict[str, Any]


def context() -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    made.minimum_version = made.maximum_version = ssl.TLSVersion[SETTINGS["version"]]
    return made


class Client:
    """One connection at a time."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._context = context()
        self.handshakes: list[Handshake] = []

    def run(self) -> None:
        for time_ in range(SETTINGS["times"]):
            self._connect(f"{self._number * SETTINGS['times'] + time_}.test")
            time.sleep(SETTINGS["between_s"])

    def _connect(self, name: str) -> None:
        talk = Talk(self._context, name)
        with socket.socket() as plain:
            plain.settimeout(TIMEOUT_S)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connecting = time.monotonic_ns()
            plain.connect(("127.0.0.1", SETTINGS["port"]))
            connected = time.monotonic_ns()
            talk.shake_hands(plain)
            self.handshakes.append(
                {
                    "name": name,
                    "port": plain.getsockname()[1],
                    "connecting_ns": connecting,
                    "connected_ns": connected,
                    "sent_ns": talk.sent_ns,
                    "received_ns": talk.received_ns,
                }
            )


class Talk:
    """A handshake over a socket; its ClientHello is ready before there is a connection."""

    def __init__(self, context: ssl.SSLContext, name: str) -> None:
        self._received, self._sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._sent, server_hostname=name)
        self._done = self._go_on()
        self.sent_ns: list[int] = []
        self.received_ns: list[int] = []

    def shake_hands(self, plain: socket.socket) -> None:
        """Until the server's last flight has come: in TLS 1.3 its tickets."""
        while not self._done:
            self._send(plain)
            self._receive(plain)
            self._done = self._go_on()
        if self._send(plain):
            self._receive(plain)

    def _go_on(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def _send(self, plain: socket.socket) -> bool:
        flight = self._sent.read()
        if not flight:
            return False
        if self.sent_ns:
            time.sleep(SETTINGS["think_s"])
        self.sent_ns.append(time.monotonic_ns())
        plain.sendall(flight)
        return True

    def _receive(self, plain: socket.socket) -> None:
        piece = plain.recv(65536)
        self.received_ns.append(time.monotonic_ns())
        assert piece, "the server has closed"
        self._received.write(piece)


def main() -> None:
    gc.disable()
    sys.setswitchinterval(1e-5)
    clients = [Client(number) for number in range(SETTINGS["clients"])]
    threads = [threading.Thread(target=client.run, daemon=True) for client in clients]
    os.sched_setaffinity(0, SETTINGS["processors"])
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps([handshake for client in clients for handshake in client.handshakes]), flush=True)


if __name__ == "__main__":
    main()
