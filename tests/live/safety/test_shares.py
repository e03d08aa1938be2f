# SPDX-License-Identifier: Apache-2.0
"""One process fills the shared tables, and another that is traced beside it is counted exactly all the same."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.live.clients.bad import context
from tests.live.clients.counted import TIMEOUT_S, TLS_1_2, TLS_1_3, Client
from tests.live.clients.slow import slow
from tests.live.commands.handshakes import Shakes, endings
from tests.live.commands.trace import Trace
from tests.live.handshakes.test_handshakes import PLAIN
from tests.live.handshakes.test_odd import half_open, shaker, wait_for  # noqa: F401 - a fixture
from tests.live.servers.nginx import Nginx, Settings
from tests.live.servers.python_ssl import TlsServer, TlsSettings
from tests.live.victims.obedient import with_certificate

pytestmark = pytest.mark.usefixtures("tracing")
CIPHERS = (
    *(f"ECDHE-RSA-{name}" for name in ("AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305", "AES128-SHA256")),
    *(f"ECDHE-RSA-{name}" for name in ("AES256-SHA384", "AES128-SHA", "AES256-SHA")),
    *("AES128-GCM-SHA256", "AES256-GCM-SHA384", "AES128-SHA256"),
)


class Told(Trace):
    """`ssllatency handshakes --json`."""

    SUBCOMMAND = "handshakes"


@pytest.mark.parametrize("first", ["greedy", "honest"])
def test_handshakes_in_flight(certificates: Path, shaker: Path, first: str) -> None:  # noqa: F811
    """One keeps three times as many open as there is room for; those of the other end as they began."""
    room, open_of_greedy, open_of_honest, made = 2000, 6000, 100, 50
    with (
        with_certificate(shaker, certificates) as (greedy, do),
        Nginx(certificates, Settings()) as honest,
        Shakes(greedy, honest.master_pid, options=("--max-in-flight", str(room))) as shakes,
    ):
        if first == "greedy":
            do(f"begin {open_of_greedy}")
        with half_open(honest.port["rsa"], open_of_honest):
            wait_for(honest, open_of_honest)
            if first == "honest":
                do(f"begin {open_of_greedy}")
            Client(honest.port["rsa"], TLS_1_3).connect_times(made)
        honest.wait_idle()
        (worker,) = honest.worker_pids()
    told = shakes.document["handshakes"]
    assert endings(shakes.document) == {"success": made, "abandoned": open_of_honest}
    assert {single["pid"] for single in shakes.singles} == {worker}
    assert told["partial"] == 0
    assert told["in_flight"] + told["dropped"] == open_of_greedy
    assert 0 < told["in_flight"] <= room


def test_one_alone_has_room_for_all_that_is_asked_for(certificates: Path, shaker: Path) -> None:  # noqa: F811
    """What it has beyond its share counts just as well: it ends, or is in flight."""
    begun, freed, room = 1800, 700, 2000
    with (
        with_certificate(shaker, certificates) as (greedy, do),
        Shakes(greedy, options=("--max-in-flight", str(room))) as shakes,
    ):
        do(f"begin {begun}")
        do(f"free {freed}")
        do(f"accept {freed}")
    told = shakes.document["handshakes"]
    assert endings(shakes.document) == {"abandoned": freed, "success": freed}
    assert (told["in_flight"], told["dropped"], told["partial"]) == (begun - freed, 0, 0)


def test_calls_that_run(certificates: Path, shaker: Path) -> None:  # noqa: F811
    """One leaves tens of thousands of calls without an end, while one of the other waits for its client."""
    strewn, times = 30_000, 3
    with (
        TlsServer(certificates, TlsSettings(timeout_s=0)) as honest,
        with_certificate(shaker, certificates) as (greedy, do),
        Told(honest.pid, greedy) as told,
    ):
        for _ in range(times):
            slow(TLS_1_3, honest.port, lambda: do(f"strew {strewn}"))
        slow(TLS_1_3, honest.port)
        assert honest.ends() == {"": times + 1}
    assert endings(told.document) == {"success": times + 1, "abandoned": times * strewn}
    assert told.document["handshakes"]["unattributed"] == 0


def test_rows(certificates: Path) -> None:
    """One makes handshakes of more kinds than there are rows; the other, which comes later, has its own."""
    with (
        Nginx(certificates, PLAIN) as greedy,
        Nginx(certificates, PLAIN) as honest,
        Shakes(greedy.master_pid, honest.master_pid, options=("--by", "process,cipher", "--max-groups", "8")) as shakes,
        ExitStack() as stack,
    ):
        for cipher in CIPHERS:
            tls = context(TLS_1_2)
            tls.set_ciphers(cipher)
            plain = stack.enter_context(socket.create_connection(("127.0.0.1", greedy.port["rsa"]), timeout=TIMEOUT_S))
            stack.enter_context(tls.wrap_socket(plain))
        Client(honest.port["rsa"], TLS_1_2).connect_times(5)
        honest.wait_idle()
        (worker,) = honest.worker_pids()
    groups = shakes.document["handshakes"]["groups"]
    (own,) = [group for group in groups if not group.get("other") and f"({worker})" in group["labels"]["process"]]
    assert own["count"] == 5
    assert sum(group["count"] for group in groups if group.get("other")) == len(CIPHERS) - 7
    assert sum(group["count"] for group in groups) == len(CIPHERS) + 5
