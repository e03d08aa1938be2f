# SPDX-License-Identifier: Apache-2.0
"""The messages between the two processes, on a pair of sockets: the one that speaks asks with a single byte, the one that
traces answers with a line. So nothing that comes from the network's side is ever parsed by the process that can reach the
kernel."""

from __future__ import annotations

import socket
from collections.abc import Iterator

ASK = b"?"
READY = b"ready"  # the probes are attached
_LARGEST = 512 << 20  # a reading of 85,000 histograms of all buckets
_SEND_S = 10.0  # before a process that doesn't read is taken for broken


class Broken(Exception):
    """The other process has ended, or doesn't behave."""


class TracersEnd:
    """The end of the process that traces."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        connection.settimeout(_SEND_S)

    def fileno(self) -> int:
        """The descriptor, for select()."""
        return self._connection.fileno()

    def asked(self) -> bool:
        """Takes what has come; whether it asks for a reading. To be called when something has. Broken where nothing can."""
        try:
            came = self._connection.recv(4096)
        except OSError:
            came = b""
        if not came:
            raise Broken
        return True

    def send(self, line: bytes) -> None:
        """Sends a line."""
        try:
            self._connection.sendall(line)
        except OSError:
            raise Broken from None

    def first_line(self) -> str:
        """The first words of the other process, bounded: empty where all is well, else why it can't go on. Broken where it has
        ended without any."""
        said = b""
        while not said.endswith(b"\n") and len(said) < 4096:
            try:
                piece = self._connection.recv(4096)
            except TimeoutError:
                continue
            if not piece:
                raise Broken
            said += piece
        return said.decode(errors="replace").strip()

    def close(self) -> None:
        """Ends the other process, too."""
        self._connection.close()


class SpeakersEnd:
    """The end of the process that speaks."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def fileno(self) -> int:
        """The descriptor."""
        return self._connection.fileno()

    def say(self, words: str) -> None:
        """Says the first line."""
        self._connection.sendall(words.replace("\n", " ").encode()[:4000] + b"\n")

    def ask(self) -> None:
        """Asks for a reading."""
        self._connection.sendall(ASK)

    def lines(self) -> Iterator[bytes]:
        """Yield what comes, line by line, without the line feeds, until the other process has ended."""
        unread = bytearray()
        while piece := self._connection.recv(1 << 18):
            unread += piece
            if b"\n" in piece:
                *lines, rest = unread.split(b"\n")
                unread = bytearray(rest)
                yield from map(bytes, lines)
            if len(unread) > _LARGEST:
                return
