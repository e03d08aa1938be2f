# SPDX-License-Identifier: Apache-2.0
"""A link with a chosen delay and loss between two network namespaces: the server's, which has all that it listens on at
127.0.0.1, and the client's, for which 127.0.0.1 is at the far end of the link. The kernel needn't have sch_netem: link.c
carries the packets between two TUN devices. The namespaces have no names, and end with that process."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

TO_SERVER, TO_CLIENT = 0, 1
_CLONE_NEWNET = 0x40000000
_SERVER, _CLIENT = "10.199.0.1", "10.199.0.2"
# A kernel may have BBR as its default, which would pace a flight by what it takes the link's bandwidth for.
_BOTH = (
    "link set tun0 up",
    "sysctl net.ipv4.tcp_congestion_control=reno net.ipv4.conf.tun0.route_localnet=1 net.ipv4.conf.tun0.rp_filter=0",
)
_END = {
    "server": ("link set lo up", f"address add {_SERVER} peer {_CLIENT} dev tun0"),
    "client": (f"address add {_CLIENT} peer {_SERVER} dev tun0", f"route add 127.0.0.1 dev tun0 src {_CLIENT}"),
}


@dataclass(frozen=True)
class Segment:
    """A data segment that was on the link: its way, the client's port, its first byte and length, when the link took it, and
    when it delivered it, 0 where it lost it. Times are ns of CLOCK_MONOTONIC."""

    way: int
    port: int
    sequence: int
    length: int
    taken_ns: int
    delivered_ns: int


class Link:
    """The link, from `with` to the end of the block, without delay and loss at first."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen([_program()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            words = self._line().split()
            assert words[:1] == ["ready"], "the link's program did not start"
            ends = [Path(f"/proc/{self._process.pid}/fd/{number}") for number in words[1:]]
            self._ends = dict(zip(_END, ends, strict=True))
            for end, commands in _END.items():
                with _inside(self._ends[end]):
                    _configure(_BOTH[:1] + commands + _BOTH[1:])
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    @property
    def pid(self) -> int:
        """The process that carries the packets."""
        return self._process.pid

    def at_server(self) -> AbstractContextManager[None]:
        """Within the block this thread, and what it starts, is at the server's end."""
        return _inside(self._ends["server"])

    def at_client(self) -> AbstractContextManager[None]:
        """The same at the client's end."""
        return _inside(self._ends["client"])

    def set(self, delay_s: float = 0.0, loss: float = 0.0, seed: int = 1) -> None:
        """From now on: the delay of each way, and the share of data segments that are lost, at random by the seed."""
        self._ask(f"set {round(delay_s * 1e9)} {round(loss * 1e6)} {seed + 1}")

    def drop(self, way: int, number: int) -> None:
        """From now on loses the data segment of this number, the first is 1, of this way of each connection; 0: none."""
        self._ask(f"drop {way} {number}")

    def segments(self) -> list[Segment]:
        """The data segments since this was asked last."""
        return [Segment(*map(int, line.split())) for line in self._ask("log")]

    def _ask(self, words: str) -> list[str]:
        assert self._process.stdin
        self._process.stdin.write(words + "\n")
        self._process.stdin.flush()
        return list(iter(self._line, ""))

    def _line(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the link's program has ended"
        return line.rstrip("\n")

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def awake() -> Iterator[None]:
    """Has idle processors poll, where the kernel can: waking up takes a virtual one of them as long as a short handshake."""
    with suppress(FileNotFoundError), Path("/dev/cpu_dma_latency").open("wb", buffering=0) as wish:
        wish.write(bytes(4))
        yield
        return
    yield


@contextmanager
def _inside(namespace: Path) -> Iterator[None]:
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    inside = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _enter(inside)
        try:
            yield
        finally:
            _enter(before)
    finally:
        os.close(inside)
        os.close(before)


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def _configure(commands: tuple[str, ...]) -> None:
    for command in commands:
        program, *words = command.split() if command.startswith("sysctl") else ("ip", *command.split())
        subprocess.run([program, *words], check=True, capture_output=True)


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="ssllatency-link-")


@cache
def _program() -> Path:
    """link.c, compiled once."""
    program = Path(_folder().name) / "link"
    subprocess.run(["cc", "-O2", "-Wall", Path(__file__).with_name("link.c"), "-o", program], check=True)
    return program
