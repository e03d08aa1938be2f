# SPDX-License-Identifier: Apache-2.0
"""A server that is late, by a cause that is planted, and clients that say by their own clock how long they waited."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.live.clients.bad import context
from tests.live.clients.counted import TIMEOUT_S
from tests.live.servers.programs import serving_with
from tests.waiting import meanwhile


@dataclass(frozen=True)
class Late:
    """What the server's only thread does before each of a handshake's calls: sleep, or work for so much processor time; and for
    how much it works in the callback for the server's name, within the first call. With `pieces` it moves the library's bytes
    itself: it sleeps for `write_s` before it writes a flight, in so many pieces."""

    sleep_s: float = 0.0
    spin_s: float = 0.0
    callback_s: float = 0.0
    write_s: float = 0.0
    pieces: int = 0


def late_server(certificates: Path, late: Late, kind: str = "ecdsa") -> AbstractContextManager[tuple[int, int]]:
    """Such a server, queue_program.py, with such a key: its PID and port."""
    return serving_with("queue_program.py", certificates, kind, **asdict(late))


def felt_ns(port: int, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2) -> int:
    """One handshake: how long its client waited, from the established connection until it was done. A client of TLS 1.2 is done
    after the server is."""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as plain:
        began = time.monotonic_ns()
        with context(version).wrap_socket(plain, server_hostname="localhost") as tls:
            felt = time.monotonic_ns() - began
            with suppress(OSError):  # until the server has closed, and so is back from its last call
                tls.recv(1)
            return felt


def felt_at_once_ns(port: int, clients: int, times: int) -> list[int]:
    """The same of several clients at a time, each so many times."""
    felt: list[int] = []
    threads = [
        threading.Thread(target=lambda: felt.extend(felt_ns(port) for _ in range(times)), daemon=True) for _ in range(clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(felt) == clients * times
    return felt


@contextmanager
def quota(pid: int, share: float) -> Iterator[None]:
    """The process may use such a share of one processor, in periods of 100 ms."""
    period_us = 100_000
    group = Path("/sys/fs/cgroup")
    old = group / "cpu"
    group = (old if old.is_dir() else group) / f"ssllatency-test-{pid}"
    before = _group_of(pid, group.parent)
    group.mkdir()
    try:
        if old.is_dir():
            (group / "cpu.cfs_period_us").write_text(str(period_us))
            (group / "cpu.cfs_quota_us").write_text(str(round(share * period_us)))
        else:
            (group.parent / "cgroup.subtree_control").write_text("+cpu")
            (group / "cpu.max").write_text(f"{round(share * period_us)} {period_us}")
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        (before / "cgroup.procs").write_text(str(pid))
        group.rmdir()


def _group_of(pid: int, top: Path) -> Path:
    """The control group that a process is in, in the hierarchy at `top`."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if (top.name == "cpu") == ("cpu" in controllers.split(",")) and (controllers or top.name != "cpu"):
            return top / path.lstrip("/")
    return top


@contextmanager
def neighbours(processor: int, number: int) -> Iterator[None]:
    """So many processes that work all the time on one processor."""
    program = f"import os\nos.sched_setaffinity(0, {{{processor}}})\nwhile True: pass"
    processes = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(number)]
    try:
        time.sleep(0.3)
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


@contextmanager
def on_a_busy_processor(pid: int) -> Iterator[None]:
    """The server shares its processor with others, and its clients, which are this process, have none of them beside them."""
    all_processors = os.sched_getaffinity(0)
    busy = max(all_processors)
    os.sched_setaffinity(pid, {busy})
    with neighbours(busy, 4):
        os.sched_setaffinity(0, all_processors - {busy} or all_processors)
        try:
            yield
        finally:
            os.sched_setaffinity(0, all_processors)


def stopped_often(pid: int, stopped_s: float, running_s: float) -> AbstractContextManager[None]:
    """The process is stopped and let go for so long, again and again."""

    def stop() -> None:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(stopped_s)
        os.kill(pid, signal.SIGCONT)

    return meanwhile(stop, running_s)
