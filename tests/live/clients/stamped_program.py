# SPDX-License-Identifier: Apache-2.0
"""Clients that note when each of their flights left and came, as a program: stamped_program.py SETTINGS, an object with the
fields of stamped.Stamping, the server's port and the processors to run on. It prints the handshakes as JSON.

The stamps are the kernel's, taken where a packet leaves for the device or comes from it (SO_TIMESTAMPING), so that a client
that waits for its own processor isn't late by that. They are by CLOCK_REALTIME, and turned into CLOCK_MONOTONIC.
"""

from __future__ import annotations

import gc
import itertools
import json
import multiprocessing
import os
import socket
import ssl
import struct
import sys
import time
from multiprocessing.connection import Connection
from typing import Any

SETTINGS = json.loads(sys.argv[1])
TIMEOUT_S = 20
FIRST, SECOND = 20, 10
IP_RECVERR = 11
SO_TIMESTAMPING = 37
# By software, of what comes and of what leaves; the latter without its bytes, named by the number of its last one.
STAMPING_RECEIVED = 1 << 4 | 1 << 3
STAMPING = STAMPING_RECEIVED | 1 << 1 | 1 << 7 | 1 << 11
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

    def run(self, results: Connection) -> None:
        """Sends what it has seen."""
        for time_ in range(SETTINGS["times"]):
            self._connect(f"{self._number * SETTINGS['times'] + time_}.test")
            time.sleep(SETTINGS["between_s"])
        results.send(self.handshakes)

    def _connect(self, name: str) -> None:
        talk = Talk(self._context, name)
        with socket.socket() as plain:
            # Not settimeout(), which polls, and so would find stamps of what was sent instead of bytes to read.
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                plain.setsockopt(socket.SOL_SOCKET, option, struct.pack("@ll", TIMEOUT_S, 0))
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            before_others(FIRST)  # so that its ClientHello is not late: servers wait for it
            connecting = time.monotonic_ns()
            plain.connect(("127.0.0.1", SETTINGS["port"]))
            connected = time.monotonic_ns()
            plain.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, STAMPING)
            talk.begin(plain)
            before_others(SECOND)
            talk.shake_hands(plain)
            info = plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            (round_trip_us,), (out_of_order,) = struct.unpack_from("I", info, 148), struct.unpack_from("I", info, 224)
            self.handshakes.append(
                {
                    "name": name,
                    "port": plain.getsockname()[1],
                    "connecting_ns": connecting,
                    "connected_ns": connected,
                    "round_trip_ns": round_trip_us * 1000,
                    "sent_ns": sent_ns(plain, talk.sent),
                    # A stamp is that of the last byte, even where an earlier one came later and so completed the flight.
                    "received_ns": talk.read_ns if out_of_order else talk.received_ns,
                }
            )


class Talk:
    """A handshake over a socket; its ClientHello is ready before there is a connection. `sent`: the bytes of each flight;
    `received_ns`: when the last byte of each piece came, by the kernel; `read_ns`: when it had been read."""

    def __init__(self, context: ssl.SSLContext, name: str) -> None:
        self._received, self._sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._sent, server_hostname=name)
        self._done = self._go_on()
        self.sent: list[int] = []
        self.received_ns: list[int] = []
        self.read_ns: list[int] = []

    def begin(self, plain: socket.socket) -> None:
        """Sends the ClientHello."""
        self._send(plain)

    def shake_hands(self, plain: socket.socket) -> None:
        """Until the server's last flight has come: in TLS 1.3 its tickets."""
        while not self._done:
            self._receive(plain)
            self._done = self._go_on()
            sent = self._send(plain)
        if sent:
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
        if self.sent:
            time.sleep(SETTINGS["think_s"])
        self.sent.append(len(flight))
        plain.sendall(flight)
        return True

    def _receive(self, plain: socket.socket) -> None:
        piece, ancillary, _, _ = plain.recvmsg(65536, 256)
        self.read_ns.append(time.monotonic_ns())
        assert piece, "the server has closed"
        (stamp,) = (data for _, kind, data in ancillary if kind == SO_TIMESTAMPING)
        self.received_ns.append(stamp_ns(stamp))
        self._received.write(piece)


def before_others(priority: int) -> None:
    """This process comes before all that have a lower priority, or none."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))


def stamp_ns(data: bytes) -> int:
    """A stamp of the kernel as CLOCK_MONOTONIC has it."""
    seconds, nanoseconds = struct.unpack_from("@ll", data)
    return int(seconds * 1_000_000_000 + nanoseconds - clocks_apart_ns())


def clocks_apart_ns() -> int:
    """By how much the wall clock is ahead of CLOCK_MONOTONIC: by the quickest of a few looks, between which nothing came."""
    looks = [(time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _ in range(5)]
    before, wall, after = min(looks, key=lambda look: look[2] - look[0])
    return wall - (before + after) // 2


def sent_ns(plain: socket.socket, flights: list[int]) -> list[int]:
    """When the last byte of each flight, of so many bytes, left for the first time."""
    left: dict[int, int] = {}
    while len(left) < len(flights):
        _, ancillary, _, _ = plain.recvmsg(0, 256, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
        data = {(level, kind): data for level, kind, data in ancillary}
        (last,) = struct.unpack_from("I", data[socket.SOL_IP, IP_RECVERR], 12)
        left.setdefault(last, stamp_ns(data[socket.SOL_SOCKET, SO_TIMESTAMPING]))
    return [left[end - 1] for end in itertools.accumulate(flights)]


def start(client: Client) -> Connection:
    """A process of its own for the client, so that none waits for another one's interpreter. Its results come here."""
    results, into = multiprocessing.Pipe(duplex=False)
    multiprocessing.get_context("fork").Process(target=client.run, args=(into,), daemon=True).start()
    into.close()
    return results


def main() -> None:
    gc.disable()
    clients = [Client(number) for number in range(SETTINGS["clients"])]
    os.sched_setaffinity(0, SETTINGS["processors"])
    before_others(SECOND)
    with socket.socket() as first:  # the kernel stamps packets from a moment after it was first asked to
        first.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, STAMPING_RECEIVED)
        time.sleep(0.02)
        results = [start(client) for client in clients]
        handshakes = [handshake for each in results for handshake in each.recv()]
    print(json.dumps(handshakes), flush=True)


if __name__ == "__main__":
    main()
