# SPDX-License-Identifier: Apache-2.0
"""The asynchronous server, its engine and the program with stacks of its own do what they say; this needs neither root nor a
trace."""

from __future__ import annotations

import itertools
import socket
import ssl
import struct
import time
from pathlib import Path

import pytest

from tests.live.clients.counted import TLS_1_2, Client, s_client
from tests.live.servers.jobs import AsyncServer, AsyncSettings, Counts, Engine, Provider, SteadyLoad, load, offload, on_release
from tests.live.servers.nginx import ServerError
from tests.live.victims.fibers import Fibers, build_fibers

KEY_COUNTERS = ("rsa_private_encrypt", "rsa_private_decrypt", "ecdsa_sign", "ecdsa_sign_sig")
SIGN = {"rsa": "rsa_private_encrypt", "ecdsa": "ecdsa_sign"}


def assert_counted(counts: Counts, connections: int, kind: str, *, paused: bool) -> None:
    """So many connections of one request each, and one key operation in each, every one paused for once or none."""
    calls, engine = counts["calls"], counts["engine"]
    for name in ("accepted", "ended", "handshakes", "requests"):
        assert counts[name] == connections, name
    assert counts["failed"] == counts["abandoned"] == counts["resumed"] == counts["open"] == 0
    assert {name: calls[name]["success"] for name in calls} == dict.fromkeys(calls, connections)
    assert engine[SIGN[kind]] == sum(engine[name] for name in KEY_COUNTERS) == connections
    assert engine["offloaded" if paused else "synchronous"] == connections
    assert engine["pauses"] == counts["pauses"] == calls["SSL_do_handshake"]["want_async"] == connections * paused
    assert engine["early"] == engine["refused"] == 0


@pytest.mark.parametrize("loads_key", [False, True], ids=["default", "engine-key"])
@pytest.mark.parametrize("asynchronous", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_every_key_operation_goes_through_the_engine(
    certificates: Path, kind: str, version: str, asynchronous: bool, loads_key: bool
) -> None:
    engine = offload(delay_us=500, loads_key=loads_key)
    with AsyncServer(certificates, AsyncSettings(kind, asynchronous, engine, version)) as server:
        completed = load(server, connections=200, parallel=20)
        assert completed == 200
        completed += load(server, "s_time", seconds=1)
        assert_counted(server.wait_idle(), completed, kind, paused=asynchronous)
    assert_counted(server.final, completed, kind, paused=asynchronous)


@pytest.mark.parametrize("asynchronous", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
@pytest.mark.parametrize("release", ["host", "3.5", "4"])
def test_every_key_operation_goes_through_the_provider(
    certificates: Path, release: str, kind: str, version: str, asynchronous: bool
) -> None:
    settings = AsyncSettings(kind, asynchronous, provider=Provider(delay_us=500), version=version)
    with AsyncServer(certificates, settings, **on_release(release)) as server:
        completed = load(server, connections=200, parallel=20)
    assert completed == server.final["handshakes"] == 200
    assert server.final["failed"] == 0
    told = server.final["engine"]
    assert told["rsa_sign" if kind == "rsa" else "ecdsa_sign"] == told["offloaded" if asynchronous else "synchronous"] == 200
    assert told["pauses"] == server.final["pauses"] == 200 * asynchronous
    assert told["failed"] == told["rsa_decrypt"] == told["early"] == told["refused"] == 0


def test_a_provider_that_decrypts_and_one_that_fails(certificates: Path) -> None:
    with AsyncServer(certificates, AsyncSettings(provider=Provider(fail_every=3))) as server:
        client = Client(server.port, TLS_1_2, "AES128-GCM-SHA256")
        client.connect_times(2)
        with pytest.raises(ssl.SSLError):
            client.connect()
        client.connect()
    told = server.final["engine"]
    assert (told["rsa_decrypt"], told["failed"], told["pauses"], server.final["handshakes"]) == (4, 1, 4, 3)


def test_without_an_engine(certificates: Path) -> None:
    for asynchronous in (True, False):
        with AsyncServer(certificates, AsyncSettings("ecdsa", asynchronous)) as server:
            completed = load(server)
        assert server.final["handshakes"] == server.final["requests"] == completed == 500
        assert server.final["engine"] is None
        assert server.final["pauses"] == 0


def test_several_threads_and_few_jobs(certificates: Path) -> None:
    with AsyncServer(certificates, AsyncSettings(engine=offload(), threads=3, jobs=4)) as server:
        completed = load(server, connections=600, parallel=60)
    assert server.final["calls"]["SSL_do_handshake"]["want_async_job"] > 0
    assert_counted(server.final, completed, "rsa", paused=True)


def test_many_jobs_in_flight(certificates: Path) -> None:
    with AsyncServer(certificates, AsyncSettings("ecdsa", engine=offload(threads=500, delay_us=2_000_000))) as server:
        completed = load(server, connections=1000, parallel=1000)  # one after the other they would take over half an hour
    assert_counted(server.final, completed, "ecdsa", paused=True)


def test_rsa_key_exchange_decrypts_in_the_engine(certificates: Path) -> None:
    with AsyncServer(certificates, AsyncSettings(engine=offload())) as server:
        Client(server.port, TLS_1_2, "AES128-GCM-SHA256").connect_times(5, requests=3)
    assert server.final["engine"]["rsa_private_decrypt"] == server.final["pauses"] == server.final["handshakes"] == 5
    assert server.final["requests"] == 15


def test_pkcs1_signature(certificates: Path) -> None:
    with AsyncServer(certificates, AsyncSettings(engine=offload())) as server:
        s_client(server.port, "-tls1_2", "-sigalgs", "RSA+SHA256")
    assert server.final["engine"]["rsa_private_encrypt"] == server.final["pauses"] == 1


def test_groups_and_resumption(certificates: Path) -> None:
    with AsyncServer(certificates, AsyncSettings(groups="P-256", resume=True, engine=offload())) as server:
        assert "prime256v1" in s_client(server.port, "-tls1_3")
        client = Client(server.port, TLS_1_2)
        assert client.connect(session=client.connect().session).resumed
    assert (server.final["handshakes"], server.final["resumed"], server.final["pauses"]) == (3, 1, 2)


def hello(port: int, seconds: float) -> None:
    """Begin a handshake, and reset the connection after a while."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    with socket.create_connection(("127.0.0.1", port)) as plain:
        plain.sendall(outgoing.read())
        time.sleep(seconds)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_clients_that_go_while_their_job_is_paused(certificates: Path) -> None:
    with AsyncServer(certificates, AsyncSettings(engine=offload(delay_us=300_000))) as server:
        for _ in range(5):
            hello(server.port, 0.05)
        counts = server.wait_idle()
        assert (counts["failed"], counts["pauses"], counts["engine"]["offloaded"]) == (5, 5, 5)
        assert load(server, connections=50, parallel=25) == 50
    assert server.final["handshakes"] == 50


def test_an_end_with_jobs_in_flight(certificates: Path) -> None:
    with AsyncServer(certificates, AsyncSettings(engine=offload(delay_us=500_000))) as server:
        hello(server.port, 0.1)
        hello(server.port, 0.1)
        final = server.stop()
    assert (final["open"], final["ended"], final["engine"]["offloaded"]) == (0, 2, 2)


def test_a_steady_load_counts(certificates: Path) -> None:
    with AsyncServer(certificates, AsyncSettings(engine=offload())) as server:
        with SteadyLoad(server, batch=200) as steady:
            time.sleep(1)
        assert steady.completed >= 200
        assert_counted(server.wait_idle(), steady.completed, "rsa", paused=True)


def test_a_server_that_cannot_start_says_why(certificates: Path) -> None:
    with (
        pytest.raises(ServerError, match="no-such-engine failed"),
        AsyncServer(certificates, AsyncSettings(engine=Engine("no-such-engine"))),
    ):
        pass


def test_a_server_that_dies_is_noticed(certificates: Path) -> None:
    with pytest.raises(ServerError, match="status -9"), AsyncServer(certificates) as server:
        server._process.kill()  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def fibers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_fibers(tmp_path_factory.mktemp("fibers"))


SHAPES = itertools.product(("main", "thread"), ("below", "above", "mixed"), ("outside", "inside"), ("fifo", "lifo"))


@pytest.mark.parametrize(("on", "stacks", "handshake", "order"), list(SHAPES))
def test_fibers_count(fibers: Path, on: str, stacks: str, handshake: str, order: str) -> None:
    jobs, depth, pauses, jumps, exits, rounds = 1000, 4, 3, 2, 5, 2
    words = (
        f"--on {on} --stacks {stacks} --handshake {handshake} --order {order} --jobs {jobs} --depth {depth} --pauses {pauses}"
    )
    with Fibers(fibers, *words.split(), "--jumps", str(jumps), "--exits", str(exits), "--rounds", str(rounds)) as program:
        counts = program.go()
    inside = handshake == "inside"
    done, failed = rounds * jobs, rounds * jobs // 5
    jumped = rounds * jumps * (jobs + 1) + exits * jumps
    left = 2 * exits  # a thread that ends leaves its own call and the one that its fiber is paused in
    signature = {"success": done - failed, "failure": failed, "retry": 0}
    assert counts == {
        "SSL_do_handshake": {
            **signature,
            "entries": done + exits if inside else done * (1 + pauses),
            "completed": done if inside else done * (1 + pauses),
            "retry": 0 if inside else done * pauses,
        },
        "RSA_sign": {
            "entries": (1 + depth) * (done + jumped + left),
            "completed": (1 + depth) * done,
            "success": (1 + depth) * (done - failed),
            "failure": (1 + depth) * failed,
            "retry": 0,
        },
        "ECDSA_sign": {"entries": done + jumped + left, "completed": done, **signature},
        "ASYNC_pause_job": {
            "entries": done * pauses + exits,
            "completed": done * pauses,
            "success": done * pauses,
            "failure": 0,
            "retry": 0,
        },
    }


def test_fibers_on_many_threads_until_told(fibers: Path) -> None:
    with Fibers(fibers, "--on", "thread", "--threads", "8", "--stacks", "mixed", "--rounds", "0") as program:
        program.begin()
        time.sleep(0.2)
        program.interrupt()
        counts = program.counts()
    assert counts["SSL_do_handshake"]["success"] > 0
    assert all(each["entries"] == each["completed"] for each in counts.values())


def test_fibers_that_do_not_fit(fibers: Path) -> None:
    with pytest.raises(ServerError, match="main stack"), Fibers(fibers, "--stacks", "above", "--jobs", "20000") as program:
        program.go()
