# SPDX-License-Identifier: Apache-2.0
"""The servers that clients reach by a link, most with an RSA-4096 key, so that their clients work less than they do."""

from __future__ import annotations

import os
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.live.servers import debian
from tests.live.servers.nginx import Nginx, Settings, free_ports, make_certificate
from tests.live.servers.programs import serving
from tests.live.servers.python_ssl import TlsServer, TlsSettings

KIND = "rsa4096"
STALL_S = 0.05
TRY, ATTEMPTS = 'if ($arg_word ~ "^(a+)+$") { return 200 "matched"; } ', 16
ASYNCIO = Path(__file__).with_name("asyncio_program.py")


@dataclass(frozen=True)
class Served:
    """A server at work: the process to trace, those that shake hands, its port, and what blocks its event loop for STALL_S or a
    little longer, where there is such a thing."""

    pid: int
    workers: tuple[int, ...]
    port: int
    stall: Callable[[], object] | None = None


@contextmanager
def nginx(certificates: Path, kind: str = KIND) -> Iterator[Served]:
    """One worker. A stall is a regular expression on which it tries all ways of many, again and again: on a fast machine one
    attempt comes to PCRE's own limit before it has taken long enough."""
    (port,) = free_ports(1)
    location = f"location / {{ {ATTEMPTS * TRY} return 200 'tried'; }}"
    directives = f"ssl_conf_command NumTickets 1; server {{ listen 127.0.0.1:{port}; {location} }}"

    def ask(length: int) -> float:
        began = time.monotonic()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/?word={length * 'a'}b", timeout=20) as answer:
            assert answer.read() == b"tried"
        return time.monotonic() - began

    with Nginx(certificates, Settings(kinds=(kind,), directives=directives)) as server:
        length = next(length for length in range(8, 40) if ask(length) >= STALL_S)
        yield Served(server.master_pid, tuple(server.worker_pids()), server.port[kind], lambda: ask(length))


@contextmanager
def threads(certificates: Path) -> Iterator[Served]:
    """Python's ssl module, with a thread for each connection."""
    with TlsServer(certificates, TlsSettings(kind=KIND)) as server:
        yield Served(server.pid, (server.pid,), server.port)


@contextmanager
def late_to_accept(certificates: Path) -> Iterator[Served]:
    """The same, with a backlog of one connection, and 20 ms asleep before it accepts the next."""
    with TlsServer(certificates, TlsSettings(kind=KIND, backlog=1, accept_s=0.02)) as server:
        yield Served(server.pid, (server.pid,), server.port)


@contextmanager
def asyncio(certificates: Path) -> Iterator[Served]:
    pair = make_certificate(KIND, certificates)
    with serving(ASYNCIO, pair.certificate, pair.key) as (pid, port):
        yield Served(pid, (pid,), port, lambda: _stall(pid))


@contextmanager
def node(certificates: Path) -> Iterator[Served]:
    with debian.node(make_certificate(KIND, certificates)) as served:
        yield Served(served.pid, (served.pid,), served.port, lambda: _stall(served.pid))


def _stall(pid: int) -> None:
    os.kill(pid, signal.SIGUSR2)
    time.sleep(STALL_S)


def of_debian(
    server: Callable[..., AbstractContextManager[debian.Running]],
) -> Callable[[Path], AbstractContextManager[Served]]:
    @contextmanager
    def running(certificates: Path) -> Iterator[Served]:
        with server(make_certificate(KIND, certificates)) as served:
            children = Path(f"/proc/{served.pid}/task/{served.pid}/children").read_text().split()
            yield Served(served.pid, tuple(map(int, children)) or (served.pid,), served.port)

    return running


SERVERS: dict[str, Callable[[Path], AbstractContextManager[Served]]] = {
    "nginx": nginx,
    "nginx-ecdsa": partial(nginx, kind="ecdsa"),
    "threads": threads,
    "late-to-accept": late_to_accept,
    "haproxy": of_debian(partial(debian.haproxy, threads=1)),
    "apache": of_debian(debian.apache),
    "asyncio": asyncio,
    "node": node,
}
