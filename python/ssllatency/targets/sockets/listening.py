# SPDX-License-Identifier: Apache-2.0
"""The ports on which processes listen: the sockets among their descriptors, looked up in the tables of their network namespaces
(/proc/PID/net/tcp, tcp6, udp and udp6). Of TCP's those that listen come first. UDP has no such state: a socket that is bound
and not connected takes datagrams from anybody, as a QUIC server's does."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from ssllatency.data_class import dataclass
from ssllatency.host.kernel_text import kernel_fields, kernel_text
from ssllatency.targets.processes import PROC, Process

_LISTEN, _UNCONNECTED = "0A", "07"  # states of a socket, as the tables write them
_MOST_UDP = 4096  # UDP sockets of a family in a namespace: no more are looked at
_USUAL_EPHEMERAL = (32768, 60999)  # ports that the kernel gives to clients, where it doesn't tell
_ALL = ("0.0.0.0", "::")
_MAPPED = bytes(10) + b"\xff\xff"  # before an IPv4 address in an IPv6 one, RFC 4291, 2.5.5.2
_PIECE = 1 << 16
_AGAIN_S = 1.0
_QUICK_S, _SHARE = 0.1, 0.1  # a look that took longer waits until looking has taken no more than this share of the time
_MOST_LINE = 1024  # characters of the table, whose lines have 150
_NO_TABLE = "the kernel's table of sockets has another form"
# Who holds listening sockets for others, and starts processes that have nothing to do with them.
_HOLDERS = ("systemd", "init", "docker-proxy")


@dataclasses.dataclass(frozen=True, order=True)
class Listener:
    """An address and a port; the address 0.0.0.0 or :: stands for all. `protocol`: "tcp" or "udp"."""

    port: int
    address: str
    protocol: str = "tcp"


def listeners(pids: Iterable[int], proc: Path = PROC) -> dict[int, tuple[Listener, ...] | None]:
    """The listeners of each process, ascending by port; None for a process whose descriptors may not be read."""
    tables: dict[str, dict[str, Listener]] = {}
    listeners_by_pid: dict[int, tuple[Listener, ...] | None] = {}
    for pid in pids:
        folder = proc / str(pid)
        try:
            sockets = inodes_of(pid, proc=proc)
            namespace = os.readlink(folder / "ns" / "net") if sockets else ""  # noqa: PTH115 - net:[N] is no path
        except OSError:
            listeners_by_pid[pid] = None
            continue
        if namespace and namespace not in tables:
            tables[namespace] = _table(folder / "net")
        open_ones = (tables.get(namespace, {}).get(inode) for inode in sockets)
        listeners_by_pid[pid] = tuple(sorted({listener for listener in open_ones if listener}))
    return listeners_by_pid


def serving_others(found: Iterable[Listener], proc: Path = PROC) -> tuple[Listener, ...]:
    """The listeners of a process that serve others: of UDP those with a port that it listens on by TCP as well, or that isn't
    one of those that the kernel gives to clients, which ask for names or speak QUIC."""
    found = tuple(found)
    by_tcp = {listener.port for listener in found if listener.protocol == "tcp"}
    first, last = _ephemeral(proc)
    return tuple(
        listener
        for listener in found
        if listener.protocol == "tcp" or listener.port in by_tcp or not first <= listener.port <= last
    )


def _ephemeral(proc: Path) -> tuple[int, int]:
    try:
        first, last = map(int, kernel_text(proc / "sys/net/ipv4/ip_local_port_range").split())
    except (OSError, ValueError):
        return _USUAL_EPHEMERAL
    return first, last


def serving(port: int, addresses: Container[str], pids: Iterable[int], proc: Path = PROC) -> tuple[list[int], int]:
    """Those of the processes, in our own network namespace, that listen on this port at one of the addresses, or at all;
    and how many processes there are whose descriptors may not be read."""
    home = os.readlink(proc / "self" / "ns" / "net")  # noqa: PTH115 - net:[N] is no path
    listening, hidden = [], 0
    for pid, ports in listeners(pids, proc).items():
        if ports is None:
            hidden += 1
        elif any(listener.port == port and (listener.address in _ALL or listener.address in addresses) for listener in ports):
            with suppress(OSError):
                if os.readlink(proc / str(pid) / "ns" / "net") == home:  # noqa: PTH115
                    listening.append(pid)
    return listening, hidden


@dataclass(frozen=True)
class Owners:
    """The processes that listen on a port, by port; those that hold one only for others; and how many processes there are whose
    descriptors may not be read."""

    by_port: dict[int, set[int]]
    holders: tuple[Process, ...] = ()
    hidden: int = 0


class Ports:
    """The listeners on these ports, in any network namespace. The descriptors of all processes, of which there may be as many
    as connections, are read only where the sockets that listen have changed, or one of their owners has gone; and now and then
    where there are sockets without an owner, as systemd's, which a server gets when it is started. Any user can open sockets by
    the hundred thousand, or namespaces: so looking takes a bounded share of the time, and may come later."""

    def __init__(self, ports: Iterable[int]) -> None:
        self._ports = frozenset(ports)
        self._sockets: dict[str, set[str]] = {}
        self._owners, self._looked, self._not_before = Owners({}), 0.0, 0.0

    def owners(self, processes: Iterable[Process], proc: Path = PROC) -> Owners:
        """Those among the processes, as of the last look."""
        began = time.monotonic()
        if began >= self._not_before:
            self._refresh(processes, proc)
            took = time.monotonic() - began
            self._not_before = began + took / _SHARE if took > _QUICK_S else 0.0
        return self._owners

    def _refresh(self, processes: Iterable[Process], proc: Path) -> None:
        by_pid = {process.pid: process for process in processes}
        sockets = _sockets_on(self._ports, by_pid, proc)
        if sockets != self._sockets or self._is_time(by_pid, any(sockets.values())):
            self._sockets, self._owners, self._looked = sockets, self._look(by_pid, proc), time.monotonic()

    def _is_time(self, pids: Container[int], has_sockets: bool) -> bool:
        owners = self._owners.by_port.values()
        gone = any(pid not in pids for of_port in owners for pid in of_port)
        return gone or (has_sockets and not all(owners) and time.monotonic() >= self._looked + _AGAIN_S)

    def _look(self, processes: dict[int, Process], proc: Path) -> Owners:
        by_port: dict[int, set[int]] = {port: set() for port in self._ports}
        holders, hidden = [], 0
        for pid, found in listeners(processes, proc).items():
            ports = {listener.port for listener in found or ()} & self._ports
            hidden += found is None
            if ports and processes[pid].comm in _HOLDERS:
                holders.append(processes[pid])
                continue
            for port in ports:
                by_port[port].add(pid)
        return Owners(by_port, tuple(holders), hidden)


def _sockets_on(ports: Container[int], pids: Iterable[int], proc: Path) -> dict[str, set[str]]:
    """The inode numbers of the sockets that listen on the ports, by network namespace."""
    sockets: dict[str, set[str]] = {}
    for pid in pids:
        with suppress(OSError):
            namespace = os.readlink(proc / str(pid) / "ns" / "net")  # noqa: PTH115 - net:[N] is no path
            if namespace not in sockets:
                table = _table(proc / str(pid) / "net")
                sockets[namespace] = {inode for inode, listener in table.items() if listener.port in ports}
    return sockets


def blocks(pids: Iterable[int], proc: Path = PROC) -> bool:
    """Whether any of the processes listens on a blocking socket, so that the sockets that it accepts most likely block as well.
    Processes whose descriptors may not be read don't count."""
    tables: dict[str, dict[str, Listener]] = {}
    for pid in pids:
        folder = proc / str(pid)
        with suppress(OSError):
            with os.scandir(folder / "fd") as descriptors:
                sockets = {entry.name: inode for entry in descriptors if (inode := _socket(entry.path))}
            if not sockets:
                continue  # the kernel takes milliseconds to write its table
            namespace = os.readlink(folder / "ns" / "net")  # noqa: PTH115 - net:[N] is no path
            if namespace not in tables:
                tables[namespace] = _by_tcp(folder / "net")
            listening = (name for name, inode in sockets.items() if inode in tables[namespace])
            if not all(_never_blocks(folder / "fdinfo" / name) for name in listening):
                return True
    return False


def _never_blocks(path: Path) -> bool:
    """Whether a descriptor's flags say so; one that is gone doesn't block anybody."""
    try:
        flags = kernel_fields(path).get("flags")
        return flags is None or bool(int(flags, 8) & os.O_NONBLOCK)
    except (OSError, ValueError):
        return True


def is_own(address: str) -> bool:
    """Whether this is an address of this machine's own."""
    import socket  # takes a while to bring in, and most commands don't look for ports

    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def inodes_of(pid: int, most: int | None = None, proc: Path = PROC) -> set[str]:
    """The inode numbers of the sockets among a process's descriptors, or among so many of the lowest ones. OSError where they
    may not be read."""
    with os.scandir(proc / str(pid) / "fd") as descriptors:  # the kernel lists them in ascending order
        inodes = {_socket(descriptor.path) for descriptor in islice(descriptors, most)}
    return inodes - {""}


def _socket(descriptor: Path | str) -> str:
    """The inode number of the socket that this is, "" where it is none, or is gone."""
    try:
        target = os.readlink(descriptor)  # noqa: PTH115 - socket:[N] is no path
    except FileNotFoundError:
        return ""
    return target[8:-1] if target.startswith("socket:[") else ""


def whole_table(folder: Path, most: int | None = None) -> dict[str, Listener] | None:
    """The sockets of a network namespace that listen by TCP, by inode number, given as /proc/PID/net; None where there are more
    than so many of a family. OSError where the table isn't there, or isn't one."""
    listeners_by_inode: dict[str, Listener] = {}
    for name in ("tcp", "tcp6"):
        for number, (address, state, inode) in enumerate(_rows(folder / name)):
            if state != _LISTEN:
                break
            if most is not None and number >= most:
                return None
            listeners_by_inode[inode] = _listener(address, "tcp")
    return listeners_by_inode


def _rows(table: Path) -> Iterator[tuple[str, str, str]]:
    """The rows of a table: local address, state and inode number. None where only IPv4 has the table; OSError where it isn't
    one."""
    try:
        with table.open(encoding="ascii", errors="replace", newline="\n", buffering=_PIECE) as file:
            file.readline(_MOST_LINE)  # the heading
            for line in iter(lambda: file.readline(_MOST_LINE), ""):
                fields = line.split()
                if len(fields) < 10:
                    raise OSError(_NO_TABLE)
                yield fields[1], fields[3], fields[9]
    except FileNotFoundError:
        if not table.name.endswith("6"):
            raise


def _table(folder: Path) -> dict[str, Listener]:
    """The listening sockets of one network namespace, by inode number; none of a protocol whose table can't be read."""
    return _by_tcp(folder) | _by_udp(folder)


def _by_tcp(folder: Path) -> dict[str, Listener]:
    with suppress(OSError):
        return whole_table(folder) or {}
    return {}


def _by_udp(folder: Path) -> dict[str, Listener]:
    """Those of UDP, of the first few thousand sockets."""
    found: dict[str, Listener] = {}
    for name in ("udp", "udp6"):
        with suppress(OSError):
            rows = islice(_rows(folder / name), _MOST_UDP)
            found |= {inode: _listener(address, "udp") for address, state, inode in rows if state == _UNCONNECTED}
    return found


def _listener(written: str, protocol: str) -> Listener:
    """From ADDRESS:PORT in hexadecimal, the address as 32-bit numbers of the machine's own byte order (little-endian). OSError
    where it isn't that."""
    address, _, port = written.partition(":")
    try:
        packed = b"".join(bytes.fromhex(address[start : start + 8])[::-1] for start in range(0, len(address), 8))
        return Listener(int(port, 16), text_of(packed), protocol)
    except ValueError as error:
        raise OSError(_NO_TABLE) from error


def text_of(packed: bytes) -> str:
    """An address in text, of 4 or 16 bytes. An IPv4 address on an IPv6 socket, as Java listens, is that IPv4 address."""
    import socket

    packed = packed.removeprefix(_MAPPED)
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)
