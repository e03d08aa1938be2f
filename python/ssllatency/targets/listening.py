# SPDX-License-Identifier: Apache-2.0
"""The TCP ports on which processes listen: the sockets among their descriptors, looked up in the tables of their network
namespaces (/proc/PID/net/tcp and tcp6), in which those that listen come first."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ssllatency.targets.processes import PROC

_LISTEN = "0A"
_PIECE = 1 << 16


@dataclass(frozen=True, order=True)
class Listener:
    """An address and a port; the address 0.0.0.0 or :: stands for all."""

    port: int
    address: str


def listeners(pids: Iterable[int], proc: Path = PROC) -> dict[int, tuple[Listener, ...] | None]:
    """By process, ascending by port; None for a process whose descriptors may not be looked at."""
    tables: dict[str, dict[str, Listener]] = {}
    found: dict[int, tuple[Listener, ...] | None] = {}
    for pid in pids:
        folder = proc / str(pid)
        try:
            sockets = _sockets(folder / "fd")
            namespace = os.readlink(folder / "ns" / "net") if sockets else ""  # noqa: PTH115 - net:[N] is no path
        except OSError:
            found[pid] = None
            continue
        if namespace and namespace not in tables:
            tables[namespace] = _table(folder / "net")
        open_ones = (tables.get(namespace, {}).get(inode) for inode in sockets)
        found[pid] = tuple(sorted({listener for listener in open_ones if listener}))
    return found


def _sockets(folder: Path) -> set[str]:
    """The inode numbers of the sockets among the descriptors."""
    found = set()
    for descriptor in folder.iterdir():
        try:
            target = os.readlink(descriptor)  # noqa: PTH115 - socket:[N] is no path
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found


def _table(folder: Path) -> dict[str, Listener]:
    """By the socket's inode number, those that listen in one network namespace."""
    found = {}
    for name in ("tcp", "tcp6"):
        for line in _lines(folder / name):
            fields = line.split()
            if len(fields) < 10 or fields[3] != _LISTEN:
                break
            found[fields[9]] = _listener(fields[1])
    return found


def _lines(path: Path) -> Iterator[str]:
    """The lines below the heading, read no further than they are asked for: a busy server's table has many."""
    try:
        with path.open(buffering=_PIECE) as file:
            next(file, "")
            yield from file
    except OSError:
        return


def _listener(written: str) -> Listener:
    """From ADDRESS:PORT in hexadecimal, the address as 32-bit numbers of the machine's own byte order (little-endian)."""
    address, _, port = written.partition(":")
    words = [bytes.fromhex(address[start : start + 8])[::-1] for start in range(0, len(address), 8)]
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    return Listener(int(port, 16), socket.inet_ntop(family, b"".join(words)))
