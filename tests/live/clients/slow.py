# SPDX-License-Identifier: Apache-2.0
"""A client that takes its time before its last flight, so that the server waits for it within the handshake."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Callable

from tests.live.clients.bad import context
from tests.live.clients.counted import TIMEOUT_S

PAUSE_S = 0.15


def _pause() -> None:
    time.sleep(PAUSE_S)


def slow(version: ssl.TLSVersion, port: int, meanwhile: Callable[[], object] = _pause) -> bytes:
    """One connection with one request: what the server answers until it closes. `meanwhile` is done before the last flight."""
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context(version).wrap_bio(received, sent)
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as plain:
        _shake_hands(tls, plain, received, sent, meanwhile)
        tls.write(b"GET / HTTP/1.0\r\n\r\n")
        plain.sendall(sent.read())
        return _answer(tls, plain, received)


def slow_to_shake_hands(version: ssl.TLSVersion, port: int, meanwhile: Callable[[], object]) -> None:
    """One handshake alone, from a client that does `meanwhile` before its last flight."""
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context(version).wrap_bio(received, sent)
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as plain:
        _shake_hands(tls, plain, received, sent, meanwhile)


def slow_to_read(version: ssl.TLSVersion, port: int) -> None:
    """One connection whose client takes its time before it reads the server's first flight, of which it can take little."""
    with socket.socket() as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
        plain.settimeout(TIMEOUT_S)
        plain.connect(("127.0.0.1", port))
        received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context(version).wrap_bio(received, sent)
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.do_handshake()
        plain.sendall(sent.read())
        _pause()
        _shake_hands(tls, plain, received, sent, lambda: None)


def _shake_hands(
    tls: ssl.SSLObject, plain: socket.socket, received: ssl.MemoryBIO, sent: ssl.MemoryBIO, meanwhile: Callable[[], object]
) -> None:
    flights, done = 0, False
    while not done:
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.do_handshake()
            done = True
        flight = sent.read()
        flights += bool(flight)
        if flight and flights > 1:
            meanwhile()
        plain.sendall(flight)
        if not done:
            _receive(plain, received)


def _receive(plain: socket.socket, received: ssl.MemoryBIO) -> None:
    piece = plain.recv(65536)
    if piece:
        received.write(piece)
    else:
        received.write_eof()


def _answer(tls: ssl.SSLObject, plain: socket.socket, received: ssl.MemoryBIO) -> bytes:
    answer = b""
    while True:
        try:
            piece = tls.read(65536)
        except ssl.SSLWantReadError:
            _receive(plain, received)
            continue
        except ssl.SSLError:  # the end, in good order or not
            return answer
        if not piece:
            return answer
        answer += piece
