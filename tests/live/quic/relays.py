# SPDX-License-Identifier: Apache-2.0
"""Relays of datagrams between clients and a server of QUIC, which look at what passes, and may disturb it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from threading import Thread
from typing import Self

UNSUPPORTED, INITIAL = bytes.fromhex("c01a2a3a4a"), bytes.fromhex("c000000001")  # the first byte, and the version
_KIND, _INITIAL, _RETRY = 0xF0, 0xC0, 0xF0  # the bits of a packet's first byte that tell its kind, in QUIC's version 1


class Relay:
    """Takes packets from one client at a time to a server, under an address of its own, and back."""

    def __init__(self, port: int, address: str) -> None:
        self._front, self._back = datagrams("127.0.0.1"), datagrams(address)
        self._server = ("127.0.0.1", port)
        self._client: tuple[str, int] | None = None
        self._threads = [Thread(target=work) for work in (self._to_server, self._to_client)]
        self._over = False

    @property
    def port(self) -> int:
        """At which clients are served."""
        return int(self._front.getsockname()[1])

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over = True
        for thread in self._threads:
            thread.join()
        for each in (self._front, self._back):
            each.close()

    def _received(self, by: socket.socket) -> Iterator[tuple[bytes, tuple[str, int]]]:
        while not self._over:
            try:
                yield by.recvfrom(65536)
            except TimeoutError:
                continue

    def _to_server(self) -> None:
        for packet, client in self._received(self._front):
            self._client = client
            if packet[0] & 0x80:
                self.see_clients(packet)
            self._back.sendto(packet, self._server)

    def _to_client(self) -> None:
        for packet, _ in self._received(self._back):
            if packet[0] & 0x80:
                self.see_servers(packet)
            if self._client:
                self._front.sendto(packet, self._client)

    def see_clients(self, packet: bytes) -> None:
        """Called with each packet of the client's that has a long header, before it goes on."""

    def see_servers(self, packet: bytes) -> None:
        """Called with each packet of the server's that has a long header, before it goes on."""


def datagrams(address: str) -> socket.socket:
    """A socket for datagrams at any port of this address, at which nothing is awaited for long."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((address, 0))
    made.settimeout(0.1)
    return made


def receiver_and_sender(packet: bytes) -> tuple[bytes, bytes]:
    """The IDs that a packet with a long header bears."""
    begin = 6 + packet[5]
    return packet[6:begin], packet[begin + 1 : begin + 1 + packet[begin]]


class RetryCount(Relay):
    """Tells which connections the server has answered with a Retry. Each goes by the ID that its client first addresses the
    server by, which it makes up; the next one is the server's."""

    def __init__(self, port: int, address: str) -> None:
        super().__init__(port, address)
        self._servers: set[bytes] = set()
        self._connection = b""
        self.retried: set[bytes] = set()

    def see_clients(self, packet: bytes) -> None:
        """Notes which connection is under way."""
        receiver, _ = receiver_and_sender(packet)
        if packet[0] & _KIND == _INITIAL and receiver not in self._servers:
            self._connection = receiver

    def see_servers(self, packet: bytes) -> None:
        """Notes a Retry."""
        _, sender = receiver_and_sender(packet)
        self._servers.add(sender)
        if packet[0] & _KIND == _RETRY:
            self.retried.add(self._connection)


class HostileRelay(Relay):
    """Before it hands an answer on it sends the server, from another address, packets with the ID in it: one that asks for
    another version, which a server may answer under that ID, and one that begins as a client's first. `answered`: how many of
    its own were."""

    def __init__(self, port: int, address: str, own: str) -> None:
        super().__init__(port, address)
        self._own = datagrams(own)
        self.answered = self.sent = 0

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._own.close()

    def see_servers(self, packet: bytes) -> None:
        """Disturbs the connection."""
        _, sender = receiver_and_sender(packet)
        for head in (UNSUPPORTED, INITIAL):
            forged = head + bytes((len(sender),)) + sender + b"\x08hostiles"
            self._own.sendto(forged + bytes(1200 - len(forged)), self._server)
            self.sent += 1
        try:
            self.answered += bool(self._own.recv(65536))
        except TimeoutError:
            return
