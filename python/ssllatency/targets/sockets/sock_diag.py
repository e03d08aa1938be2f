# SPDX-License-Identifier: Apache-2.0
"""The TCP sockets that listen in a network namespace, as the kernel tells by sock_diag(7), and the namespace's ListenOverflows.

Of what the kernel counts for a socket that listens only sock_diag has the drops; no file below /proc does.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path

from ssllatency.c_library import c_library
from ssllatency.data_class import dataclass
from ssllatency.host.kernel_text import lines_in
from ssllatency.targets.sockets.listening import text_of

# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY, _ERROR, _DONE = 20, 2, 3
_REQUEST_DUMP = 0x1 | 0x300
_MEMORY, _DROPS = 7, 8  # an attribute, and which of its numbers says what was dropped
_LISTEN = 10  # a state of TCP
_INET = 2
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBxI48x")  # family, protocol, attributes, states; of any socket
_SOCKET = struct.Struct("=B3x2s2x16s20xQ8xI4xI")  # family; port, address; cookie; longest queue, inode number
_ATTRIBUTE = struct.Struct("=HH")
_DOESNT_TELL = "the kernel doesn't tell which sockets listen"
_CLONE_NEWNET = 0x40000000
_PIECE = 1 << 16
_TIMEOUT_S = 1.0
_MOST_STATISTICS = 1 << 16  # characters of /proc/PID/net/netstat, which has about 4,000
_MOST_DIGITS = 20  # of a number of 64 bits
_MOST = 4096  # sockets of a family in a namespace: no more are looked at
_PAST = 256  # messages of sockets that are gone or have changed: no more are kept, beside twice those that are there


@dataclass(frozen=True)
class ListeningSocket:
    """A socket that listens. `limit`: the most connections that its accept queue holds. `drops`: what was meant for it and
    dropped since it was made, modulo 2**32."""

    cookie: int
    inode: str
    port: int
    address: str
    limit: int
    drops: int


@dataclass(frozen=True)
class Listening:
    """The sockets that listen in a network namespace. `all_seen`: there are no others, which were too many to look at."""

    sockets: Sequence[ListeningSocket]
    all_seen: bool = True


def listening_sockets(namespace: Path | None = None) -> Listening:
    """Those of a network namespace, given as its file; of our own without one; at most a few thousand. OSError where the kernel
    doesn't tell, or doesn't let us in."""
    if namespace is None:
        return _dumped()
    from concurrent.futures import ThreadPoolExecutor  # takes a while to bring in, and is seldom needed

    try:
        with ThreadPoolExecutor(1) as pool:  # its thread alone enters the namespace, and ends with it
            return pool.submit(_dumped_in, namespace).result()
    except RuntimeError as error:  # no thread can be started
        raise OSError(str(error)) from error


def listen_overflows(folder: Path) -> int:
    """Return how often any socket's accept queue was full, of the namespace of a process: the folder /proc/PID. OSError where
    that isn't there."""
    names: list[str] = []
    with (folder / "net" / "netstat").open(encoding="ascii", errors="replace", newline="\n") as file:
        for line in lines_in(file.read(_MOST_STATISTICS)):
            fields = line.split()
            if fields[:1] != ["TcpExt:"]:
                continue
            if names:
                number = dict(zip(names, fields, strict=False)).get("ListenOverflows", "")
                return int(number) if number.isdecimal() and len(number) <= _MOST_DIGITS else _no_number()
            names = fields
    return _no_number()


def _no_number() -> int:
    raise OSError("the kernel doesn't tell how often accept queues were full")


def _dumped_in(namespace: Path) -> Listening:
    """To be called in a thread of its own, which stays in the namespace."""
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if c_library().setns(descriptor, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(descriptor)
    return _dumped()


def _dumped() -> Listening:
    """Each once: an answer in several pieces may tell of one twice."""
    import socket  # takes a while to bring in

    found: dict[int, ListeningSocket] = {}
    all_seen = True
    for family in (socket.AF_INET, socket.AF_INET6):
        # One for each, as the kernel answers one request at a time, and the first answer may not be read to its end.
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as kernel:
            kernel.settimeout(_TIMEOUT_S)
            request = _REQUEST.pack(family, socket.IPPROTO_TCP, 1 << _MEMORY - 1, 1 << _LISTEN)
            kernel.sendto(
                _HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 0, 0) + request, (0, 0)
            )
            sockets = sockets_of(iter(lambda: kernel.recv(_PIECE), b""))
            found |= {one.cookie: one for one in islice(sockets, _MOST)}
            all_seen &= next(sockets, None) is None
    if _socket.cache_info().currsize > 2 * len(found) + _PAST:
        _socket.cache_clear()
    return Listening([*found.values()], all_seen)


def sockets_of(answers: Iterator[bytes]) -> Iterator[ListeningSocket]:
    """Return what the kernel's answers hold, up to the one that says that these are all. OSError where they are none."""
    try:
        for answer in answers:
            at = 0
            while at < len(answer):
                length, kind, *_ = _HEADER.unpack_from(answer, at)
                if kind == _DONE:
                    return
                if kind == _ERROR or length < _HEADER.size:
                    raise OSError(_DOESNT_TELL)
                yield _socket(answer[at + _HEADER.size : at + length])
                at += length + -length % 4
    except struct.error:
        raise OSError(_DOESNT_TELL) from None


@lru_cache(_MOST)
def _socket(message: bytes) -> ListeningSocket:
    """Most messages are those of the reading before."""
    family, port, address, cookie, limit, inode = _SOCKET.unpack_from(message)
    at, drops = _SOCKET.size, 0
    while at < len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, at)
        if length < _ATTRIBUTE.size:
            raise OSError(_DOESNT_TELL)
        if kind == _MEMORY:
            drops = int.from_bytes(message[at + _ATTRIBUTE.size + 4 * _DROPS :][:4], sys.byteorder)
        at += length + -length % 4
    packed = address[:4] if family == _INET else address
    return ListeningSocket(cookie, str(inode), int.from_bytes(port, "big"), text_of(packed), limit, drops)
