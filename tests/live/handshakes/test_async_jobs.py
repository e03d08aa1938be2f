# SPDX-License-Identifier: Apache-2.0
"""Handshakes whose key operations run in ASYNC jobs, against what the server and its engine count themselves."""

from __future__ import annotations

import resource
import socket
import ssl
import sys
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests import foreign
from tests.live.clients.counted import TLS_1_3, Client
from tests.live.commands.handshakes import Shakes, assert_books, endings
from tests.live.handshakes.test_diagnosis import told
from tests.live.servers.jobs import AsyncServer, AsyncSettings, Counts, load, offload
from tests.live.servers.nginx import Nginx, Settings
from tests.live.victims.lanes import BATCHES, build_lanes, build_variants
from tests.live.victims.obedient import obedient
from tests.machine import needs_architecture
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("tracing")
CONNECTIONS, PARALLEL = 400, 40


def assert_told_like(shakes: Shakes, final: Counts, call: str = "SSL_do_handshake") -> None:
    """Handshakes and pauses are those that the server has counted in this call of its, each wait is split, or counted as one
    that isn't."""
    told, calls = shakes.document["async"], final["calls"][call]
    assert endings(shakes.document) == {"success": final["handshakes"]}
    assert told["pauses"] == calls["want_async"] == sum(single["pauses"] for single in shakes.singles)
    assert told["pauses"] == final["engine"]["pauses"]
    assert told["handshakes"] == sum(single["pauses"] > 0 for single in shakes.singles)
    assert all(
        bool({"wait_offload", "queue_offload"} & one["parts_ns"].keys()) == bool(one["pauses"]) for one in shakes.singles
    )
    once = [single["parts_ns"] for single in shakes.singles if single["pauses"] == 1]
    seen = [parts for parts in once if {"offload_completion", "queue_offload"} & parts.keys()]
    assert all(parts.get("wait_offload", 0) == parts.get("offload_completion", 0) for parts in seen)
    assert len(once) - len(seen) <= told["unseen"]
    if len(once) == told["handshakes"]:
        assert len(once) - len(seen) == told["unseen"]
    assert told["waiting"] == 0
    assert 1 <= told["most_waiting"] <= PARALLEL
    assert_books(shakes)


def assert_engine_threads(shakes: Shakes, pid: int) -> None:
    """Completions are by the engine's threads, one for each wait that was seen."""
    told = shakes.document["async"]
    assert {poller["pid"] for poller in told["pollers"]} == {pid}
    assert pid not in {poller["tid"] for poller in told["pollers"]}, "the event loop's own thread completes nothing"
    assert sum(poller["completions"] for poller in told["pollers"]) == told["pauses"] - told["unseen"]
    assert {poller["comm"] for poller in told["pollers"]} == {"async-server"}


@pytest.mark.parametrize("lazy", [False, True], ids=["", "lazy"])
@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_every_handshake_waits_for_its_offload(certificates: Path, kind: str, version: str, lazy: bool) -> None:
    """Those, too, that take place within SSL_read, which runs in a job then."""
    settings = AsyncSettings(kind=kind, version=version, engine=offload(threads=8, delay_us=2000), lazy=lazy)
    with AsyncServer(certificates, settings) as server:
        with Shakes(server.pid) as shakes:
            load(server, connections=CONNECTIONS, parallel=PARALLEL)
            server.wait_idle()
        final = server.stop()
    assert final["handshakes"] == CONNECTIONS
    assert {single["pauses"] > 0 for single in shakes.singles} == {True}
    assert shakes.document["async"]["software"] == 0
    assert shakes.document["async"]["unseen"] < CONNECTIONS
    assert_engine_threads(shakes, server.pid)
    assert_told_like(shakes, final, "SSL_read" if lazy else "SSL_do_handshake")


def test_debian_13(certificates: Path) -> None:
    root = foreign.needed(foreign.second_root())
    settings = AsyncSettings(groups="X25519", engine=offload(threads=8, delay_us=2000))
    with AsyncServer(certificates, settings, root=root) as server:
        with Shakes(server.pid) as shakes:
            load(server, connections=CONNECTIONS, parallel=PARALLEL)
            server.wait_idle()
        final = server.stop()
    assert shakes.document["async"]["software"] == 0
    assert_engine_threads(shakes, server.pid)
    assert_told_like(shakes, final)


def test_operations_that_the_engine_turns_down(certificates: Path) -> None:
    """Without a descriptor to wake the job by it does the operation at once, by OpenSSL's method."""
    connections = 40
    with AsyncServer(certificates, AsyncSettings(version="1.3", engine=offload(threads=2))) as server:
        client = Client(server.port, TLS_1_3)
        with Shakes(server.pid) as shakes:
            client.connect_times(5)
            server.wait_idle()
            time.sleep(0.5)  # it is watched once a pause was seen
            opened = [int(path.name) for path in Path(f"/proc/{server.pid}/fd").iterdir()]
            free = next(number for number in range(len(opened) + 1) if number not in opened)
            before = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (free + 1, before[1]))  # a connection, and no more
            for _ in range(connections):
                client.connect()
                server.wait_idle()
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, before)
        final = server.stop()
    assert final["engine"]["refused"] == shakes.document["async"]["software"] == connections
    assert Counter(single["pauses"] for single in shakes.singles) == {0: connections, 1: 5}
    assert told(shakes)[0].rule.name == "software_fallback"
    assert_told_like(shakes, final)


def begun(server: AsyncServer, number: int) -> list[ssl.SSLSocket]:
    """Connections whose handshakes wait for the server's offload."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    plain = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(number)]
    connections = [context.wrap_socket(each, do_handshake_on_connect=False) for each in plain]
    for connection in connections:
        connection.setblocking(False)
        with suppress(ssl.SSLWantReadError):
            connection.do_handshake()
    wait_for(lambda: server.counts()["engine"]["pauses"] == number)
    return connections


def test_who_was_killed_waits_for_nothing(certificates: Path) -> None:
    settings = AsyncSettings(engine=offload(threads=8, delay_us=10_000_000))
    with (
        ExitStack() as opened,
        AsyncServer(certificates, settings) as first,
        AsyncServer(certificates, settings) as second,
        Shakes(first.pid, second.pid) as shakes,
    ):
        for server, number in ((first, 5), (second, 3)):
            for connection in begun(server, number):
                opened.enter_context(connection)
            if server is first:
                first.kill()
    told = shakes.document["async"]
    second.kill()
    assert (told["pauses"], told["waiting"], told["most_waiting"]) == (8, 3, 5)


def test_most_that_waited_is_not_known_where_accounts_were_dropped(certificates: Path) -> None:
    number = 60
    settings = AsyncSettings(engine=offload(threads=number, delay_us=10_000_000))
    with (
        ExitStack() as opened,
        AsyncServer(certificates, settings) as server,
        Shakes(server.pid, options=("--max-in-flight", "16")) as shakes,
    ):
        for connection in begun(server, number):
            opened.enter_context(connection)
    server.kill()
    assert shakes.document["handshakes"]["dropped"] > 0
    assert shakes.document["async"]["most_waiting"] is None


def test_batches_by_function_and_lanes(tmp_path: Path) -> None:
    library = build_lanes(tmp_path)
    with obedient(sys.executable, "-c", BATCHES, library) as (pid, do):
        do("mbx_x25519_mb8 2 2 2")
        with Shakes(pid) as shakes:
            do("mbx_rsa_private_crt_ssl_mb8 1 1 1 8 8 3")
            do("mbx_rsa_public_ssl_mb8 7 0")
            do("mbx_x25519_mb8 5")
            with obedient(sys.executable, "-c", BATCHES, library) as (_, other):
                other("mbx_x25519_mb8 4 4")
    assert fills(shakes) == {
        "mbx_rsa_private_crt_ssl_mb8": [0, 3, 0, 1, 0, 0, 0, 0, 2],
        "mbx_rsa_public_ssl_mb8": [1, 0, 0, 0, 0, 0, 0, 1, 0],
        "mbx_x25519_mb8": [0, 0, 0, 0, 0, 1, 0, 0, 0],
    }
    assert [(each["count"], each["lanes"]) for each in shakes.document["async"]["batches"]] == [(6, 8), (2, 8), (1, 8)]
    assert_books(shakes)


@pytest.mark.parametrize("chosen", [0, 1])
def test_batches_of_functions_that_leave_for_a_variant(tmp_path: Path, chosen: int) -> None:
    needs_architecture("x86_64", "for which alone libcrypto_mb is made")
    library = build_variants(tmp_path, chosen)
    with obedient(sys.executable, "-c", BATCHES, library) as (pid, do):
        do("mbx_x25519_mb8 2 2 2")
        with Shakes(pid) as shakes:
            do("mbx_rsa_private_crt_ssl_mb8 1 1 1 8 8 3")  # the first one by way of what looks at the processor
            do("mbx_x25519_mb8 5")
            do("k1_mbx_x25519_mb8 4")
            do("mbx_rsa_private_crt_ssl_mb8 6")
    assert fills(shakes) == {
        "mbx_rsa_private_crt_ssl_mb8": [0, 3, 0, 1, 0, 0, 1, 0, 2],
        "mbx_x25519_mb8": [0, 0, 0, 0, 0, 1, 0, 0, 0],
    }


def fills(shakes: Shakes) -> dict[str, list[int]]:
    """By function how many batches used so many lanes; libcrypto_mb did them."""
    told = shakes.document["async"]
    assert told["engine"] == "libcrypto_mb"
    return {each["function"]: each["fill"] for each in told["batches"]}


def test_batches_by_a_library_that_is_loaded_late(tmp_path: Path) -> None:
    with obedient(sys.executable, "-c", BATCHES, build_lanes(tmp_path)) as (pid, do), Shakes(pid) as shakes:
        do("mbx_x25519_mb8")
        shakes.wait_until_said("libcrypto_mb")
        do("mbx_x25519_mb8 5 5 8")
        do("mbx_rsa_public_ssl_mb8 7")
    assert fills(shakes) == {
        "mbx_rsa_public_ssl_mb8": [0, 0, 0, 0, 0, 0, 0, 1, 0],
        "mbx_x25519_mb8": [0, 0, 0, 0, 0, 2, 0, 0, 1],
    }


def test_no_offload_is_told_of_where_there_is_none(certificates: Path) -> None:
    with Nginx(certificates, Settings()) as server, Shakes(server.master_pid) as shakes:
        Client(server.port["rsa"], TLS_1_3).connect()
        server.wait_idle()
    assert "async" not in shakes.document
