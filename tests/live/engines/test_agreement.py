# SPDX-License-Identifier: Apache-2.0
"""Exit sites against stock return probes, both on the same nginx at the same time: the same counts, and the same latencies but
for what the probes themselves take.

nginx has neither ASYNC jobs nor fibers here, so return probes are safe. No time is asserted. Latencies are compared where a
private-key operation makes them long; as both see each call, whatever else the machine does in it is in both.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from ssllatency.engines.base import Request
from ssllatency.engines.sessions.libbpf_engine import LibbpfEngine
from ssllatency.engines.source import Source
from ssllatency.model.histogram import ExponentialHistogram
from ssllatency.model.snapshot import Losses
from ssllatency.targets import Selection
from ssllatency.tracing.resolve import resolve
from tests.live.clients.counted import TLS_1_3, Client
from tests.live.servers.nginx import Nginx, Settings
from tests.stock import Rows, distances, rows, with_return_probes

pytestmark = pytest.mark.usefixtures("tracing")

CONNECTIONS = 60
# Of a handshake's calls the one that signs is long, and ends as it may: it waits for the client's Finished or has it already.
LONG = ("rsa_ossl_private_encrypt", "SSL_do_handshake")
FROM_TOP = (CONNECTIONS // 4, CONNECTIONS // 2, CONNECTIONS * 3 // 4)  # calls: those that sign are the longest
WITHIN = range(-1, 3)  # buckets: two sites on one instruction may run in either order


def attach(pid: int, stack: ExitStack) -> tuple[Source, Source]:
    """By exit sites, and by stock return probes."""
    resolved = resolve(Selection((pid,)), argparse.Namespace(no_return_probes=False, no_cache=False), stack)
    stock = [replace(image, plan=with_return_probes(image.plan)) for image in resolved.images]
    sessions = [LibbpfEngine().attach(Request(tuple(images), resolved.targets)) for images in (resolved.images, stock)]
    for session in sessions:
        stack.callback(session.close)
    return sessions[0], sessions[1]


def traced(certificates: Path) -> tuple[Rows, Rows]:
    """What both count of the same connections."""
    with ExitStack() as stack:
        server = stack.enter_context(Nginx(certificates, Settings(workers=1, tickets=False)))
        ours, stock = attach(server.master_pid, stack)
        exchanges = Client(server.port["rsa"], TLS_1_3).connect_times(CONNECTIONS)
        server.wait_idle()
        assert not any(exchange.resumed for exchange in exchanges)
        for session in (ours, stock):
            session.detach()
        one, other = ours.read(), stock.read()
    assert one.losses == other.losses == Losses()
    return rows(one), rows(other)


def latencies(found: Rows, function: str) -> ExponentialHistogram:
    """Those of all calls of a function, however they ended."""
    return ExponentialHistogram.added([row.exponential for (name, _), row in found.items() if name == function])


def test_exit_sites_and_return_probes_agree(certificates: Path) -> None:
    ours, stock = traced(certificates)
    assert {key: row.count for key, row in ours.items()} == {key: row.count for key, row in stock.items()}
    assert {key: row.reasons for key, row in ours.items()} == {key: row.reasons for key, row in stock.items()}
    for function in LONG:
        one, other = latencies(ours, function), latencies(stock, function)
        assert one.count == other.count >= CONNECTIONS, function
        apart = distances(one, other, [1 - number / one.count for number in FROM_TOP])
        assert all(each in WITHIN for each in apart), (function, apart)
