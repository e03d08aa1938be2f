# SPDX-License-Identifier: Apache-2.0
"""Reloads without an end, and a Go program that collects garbage without an end: counts stay exact, and neither process of
export grows. SSLLATENCY_SOAK_S=3600 does so for an hour each."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.live.clients.counted import TLS_1_3, Client
from tests.live.commands.export import Export
from tests.live.export.test_export import reload
from tests.live.go.test_go import NEEDED
from tests.live.go.test_go_queues import server as go_server
from tests.live.servers.nginx import Nginx
from tests.live.servers.queues import felt_ns

pytestmark = pytest.mark.usefixtures("tracing")

SOAK_S = float(os.environ.get("SSLLATENCY_SOAK_S", "15"))
_GROWTH = 3 << 20  # bytes: an allocator's arenas, not what each of many workers would leave
_COUNT = re.compile(r'^ssllatency_handshake_duration_seconds_count\{.*outcome="success".*\} (\d+)$', re.MULTILINE)
_LOST = re.compile(r'^ssllatency_losses_total\{kind="(\w+)"\} (\d+)$', re.MULTILINE)
# Workers of a reload may map the library before they are seen; on a busy machine a handshake sleeps now and then, and
# goroutines change threads.
_NOT_LOST = {"late_processes", "handshakes_slept", "handshakes_unsplit"}
_OPTIONS = ("--max-groups", "16")


def resident(pid: int) -> int:
    """The bytes of memory that a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def soak(export: Export, make_more: Callable[[], int]) -> None:
    """Has handshakes made until the time is over: `make_more` returns how many it has made. Each is counted, none is lost, and
    from a third of the time on neither process grows."""
    began, made = time.monotonic(), 0
    before: tuple[int, int] | None = None
    while (elapsed := time.monotonic() - began) < SOAK_S:
        made += make_more()
        time.sleep(1.0)  # a reading is made anew only after a second
        text = export.metrics()
        assert sum(map(int, _COUNT.findall(text))) == made
        if before is None and elapsed > SOAK_S / 3:
            before = resident(export.tracer), resident(export.speaker)
    assert 'otel_metric_overflow="true"' not in text
    assert {kind: count for kind, count in _LOST.findall(text) if count != "0"}.keys() <= _NOT_LOST
    assert before
    after = resident(export.tracer), resident(export.speaker)
    assert all(now < then + _GROWTH for now, then in zip(after, before, strict=True))


@pytest.mark.timeout(SOAK_S + 300)
def test_reloads_leave_nothing_behind(certificates: Path) -> None:
    with Nginx(certificates) as server, Export(server.master_pid, options=_OPTIONS) as export:
        client = Client(server.port["ecdsa"], TLS_1_3)

        def connect_and_reload() -> int:
            client.connect_times(5)
            reload(server)
            return 5

        soak(export, connect_and_reload)


@pytest.mark.timeout(SOAK_S + 300)
def test_collections_without_an_end_leave_nothing_behind() -> None:
    """Each takes goroutines through the sites that are set and taken away with the windows."""
    with go_server(NEEDED[-1], 1, work="collecting") as (pid, port), Export(pid, options=_OPTIONS) as export:

        def connect() -> int:
            for _ in range(20):
                felt_ns(port)
            return 20

        soak(export, connect)
