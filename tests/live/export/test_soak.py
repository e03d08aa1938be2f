# SPDX-License-Identifier: Apache-2.0
"""Reloads without an end: counts stay exact, and neither process grows. SSLLATENCY_SOAK_S=3600 does so for an hour."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from tests.live.clients.counted import TLS_1_3, Client
from tests.live.commands.export import Export
from tests.live.export.test_export import reload
from tests.live.servers.nginx import Nginx

pytestmark = pytest.mark.usefixtures("tracing")

SOAK_S = float(os.environ.get("SSLLATENCY_SOAK_S", "15"))
_GROWTH = 3 << 20  # bytes: an allocator's arenas, not what each of many workers would leave
_COUNT = re.compile(r'^ssllatency_handshake_duration_seconds_count\{.*outcome="success".*\} (\d+)$', re.MULTILINE)
_LOST = re.compile(r'^ssllatency_losses_total\{kind="(\w+)"\} (\d+)$', re.MULTILINE)
# Workers of a reload may map the library before they are seen; on a busy machine a handshake sleeps now and then.
_NOT_LOST = {"late_processes", "handshakes_slept"}


def resident(pid: int) -> int:
    """The bytes of memory that a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.timeout(SOAK_S + 300)
def test_reloads_leave_nothing_behind(certificates: Path) -> None:
    with Nginx(certificates) as server, Export(server.master_pid, options=("--max-groups", "16")) as export:
        client, connected = Client(server.port["ecdsa"], TLS_1_3), 0
        began = time.monotonic()
        before: tuple[int, int] | None = None
        while (elapsed := time.monotonic() - began) < SOAK_S:
            client.connect_times(5)
            connected += 5
            reload(server)
            time.sleep(1.0)  # a reading is made anew only after a second
            text = export.metrics()
            assert sum(map(int, _COUNT.findall(text))) == connected
            if before is None and elapsed > SOAK_S / 3:
                before = resident(export.tracer), resident(export.speaker)
        assert 'otel_metric_overflow="true"' not in text
        assert {kind: count for kind, count in _LOST.findall(text) if count != "0"}.keys() <= _NOT_LOST
        assert before
        after = resident(export.tracer), resident(export.speaker)
        assert all(now < then + _GROWTH for now, then in zip(after, before, strict=True))
