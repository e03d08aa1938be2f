# SPDX-License-Identifier: Apache-2.0
"""Handshakes that aren't made as usual: by SSL_read, by SSL_accept, on both sides of one process, again, never to the end, in
calls that sleep, more of them than there is room for, begun before they were looked at."""

from __future__ import annotations

import contextlib
import resource
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import foreign
from tests.live.clients.bad import HALF_A_HELLO
from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client, h2load
from tests.live.commands.handshakes import Shakes, assert_books, endings, for_peer_ns, labels_of, split
from tests.live.commands.trace import PROGRAM, Trace, count
from tests.live.exact.test_outcomes import BOTH_SIDES
from tests.live.servers.nginx import Nginx, Settings, make_certificate
from tests.live.servers.python_ssl import TlsServer, TlsSettings
from tests.live.victims.fibers import Fibers, build_fibers
from tests.live.victims.obedient import compiled, obedient, with_certificate
from tests.machine import needs_memory

pytestmark = pytest.mark.usefixtures("tracing")
TIMES = 10


@pytest.fixture(scope="session")
def shaker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of shaker.c."""
    return compiled("shaker", tmp_path_factory.mktemp("shaker"))


@pytest.mark.parametrize(("role", "sides"), [("server", 1), ("client", 1), ("any", 2)])
@pytest.mark.parametrize("how", ["accept", "io", "again", "update"])
def test_ways_to_shake_hands(certificates: Path, shaker: Path, how: str, role: str, sides: int) -> None:
    """Once each, on each side that is asked for; new keys for an old connection are no handshake."""
    with with_certificate(shaker, certificates) as (pid, do), Shakes(pid, options=("--role", role)) as shakes:
        do(f"{how} {TIMES}")
    times = TIMES * (2 if how == "again" else 1)
    assert endings(shakes.document) == {"success": times * sides}
    roles = ["server", "client"] if role == "any" else [role]
    assert Counter(labels_of(shakes.singles, "role")) == {(one,): times for one in roles}
    assert shakes.document["handshakes"]["in_flight"] == 0
    assert_books(shakes)


@pytest.mark.parametrize("engine", ["libbpf", "bpftrace"])
def test_a_failure_is_one_whatever_the_transport_says(certificates: Path, shaker: Path, engine: str) -> None:
    """As OpenSSL has it: the error queue goes before what a BIO says of reading again, which some say for ever."""
    with (
        with_certificate(shaker, certificates) as (pid, do),
        Trace(pid, options=("--engine", engine)) as trace,
        Shakes(pid) as shakes,
    ):
        do(f"stale {TIMES}")
    assert endings(shakes.document) == {"failure": TIMES}
    assert count(trace.document, "SSL_accept", "failure") == TIMES
    assert_books(shakes)


def test_a_renegotiation_is_no_handshake_of_its_own(certificates: Path, shaker: Path) -> None:
    """It begins within a call of the connection, so that its beginning isn't seen; where more calls follow, it says so."""
    with with_certificate(shaker, certificates) as (pid, do), Shakes(pid, options=("--role", "any")) as shakes:
        do(f"renegotiate {TIMES}")
    assert endings(shakes.document) == {"success": 2 * TIMES}
    assert set(labels_of(shakes.singles, "version")) == {("TLSv1.2",)}
    assert shakes.document["handshakes"]["in_flight"] == 0
    assert_books(shakes)


def test_a_call_that_never_returns(certificates: Path, shaker: Path) -> None:
    """A callback jumps out of it, and the SSL is freed; the next, at the same address, counts as any other."""
    with with_certificate(shaker, certificates) as (pid, do), Shakes(pid) as shakes:
        do(f"jump {TIMES}")
        do(f"io {TIMES}")
    assert endings(shakes.document) == {"success": 2 * TIMES, "abandoned": TIMES}
    assert shakes.document["handshakes"]["in_flight"] == 0
    assert_books(shakes)


@pytest.mark.parametrize(("role", "roles"), [("server", ["server"]), ("client", ["client"]), ("any", ["server", "client"])])
def test_both_sides_in_one_process(certificates: Path, role: str, roles: list[str]) -> None:
    """Python's ssl module; every second pair shakes hands within its first write and read."""
    pairs = 50
    pair = make_certificate("ecdsa", certificates)
    command = (sys.executable, "-c", BOTH_SIDES, pair.certificate, pair.key, 2 * pairs)
    with obedient(*command) as (pid, do), Shakes(pid, options=("--role", role, "--by", "role")) as shakes:
        do("go")
    groups = shakes.document["handshakes"]["groups"]
    assert {group["labels"]["role"]: group["count"] for group in groups} == dict.fromkeys(roles, 2 * pairs)
    for single in shakes.singles:
        assert ("private_key" in single["parts_ns"]) == (single["labels"]["role"] == "server")
    assert_books(shakes)


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3], ids=["1.2", "1.3"])
def test_a_server_that_only_reads(certificates: Path, version) -> None:  # type: ignore[no-untyped-def]
    """SSL_read_ex makes the handshake, and returns what came after it."""
    with TlsServer(certificates, TlsSettings(lazy=True)) as server, Shakes(server.pid) as shakes:
        exchanges = Client(server.port, version).connect_times(TIMES)
        assert server.ends() == {"": TIMES}
    due = [(exchange.version, exchange.cipher, "no") for exchange in exchanges]
    assert labels_of(shakes.singles, "version", "cipher", "resumed") == due
    assert endings(shakes.document) == {"success": TIMES}
    assert_books(shakes)


def test_a_socket_that_blocks(certificates: Path) -> None:
    """The handshake is one call, and the wait for the client's last flight lies in it."""
    with TlsServer(certificates, TlsSettings(timeout_s=0)) as server, Shakes(server.pid) as shakes:
        Client(server.port, TLS_1_3).connect_times(TIMES)
        assert server.ends() == {"": TIMES}
    for single in shakes.singles:
        assert single["calls"] == 1
        parts = single["parts_ns"]
        assert parts["wall"] == parts["calls"] + for_peer_ns(single) + parts.get("queue_server", 0)
    assert split(shakes.singles)
    assert_books(shakes)


def test_a_callback_that_sleeps(certificates: Path) -> None:
    """The time is the application's, and off the processor: a thread's clock may be behind by a tick where a call begins, so
    that what it did before is taken for the call's."""
    nap_ns, tick_ns = 30_000_000, 10_000_000  # the longest tick, as of CONFIG_HZ=100
    with (
        TlsServer(certificates, TlsSettings(sleep_s=nap_ns / 1e9)) as server,
        Shakes(server.pid) as shakes,
    ):
        Client(server.port, TLS_1_3).connect_times(TIMES)
        assert server.ends() == {"": TIMES}
    assert endings(shakes.document) == {"success": TIMES}
    for single in shakes.singles:
        assert single["parts_ns"]["callbacks"] >= nap_ns
    assert split(shakes.singles) == list(shakes.singles)
    assert all(single["parts_ns"]["off_cpu"] >= nap_ns - tick_ns for single in shakes.singles)
    assert all(single["parts_ns"].get("rest_asleep", 0) < nap_ns / 2 for single in shakes.singles)
    assert_books(shakes)


@pytest.mark.parametrize(("how", "naps"), [("keep12", 1), ("keep13", 2), ("staple", 1)])
def test_what_the_server_does_for_sessions_and_certificates(certificates: Path, shaker: Path, how: str, naps: int) -> None:
    """The session's store and the status of the certificate are the application's callbacks, of 20 ms each here."""
    with with_certificate(shaker, certificates) as (pid, do), Shakes(pid) as shakes:
        do(f"{how} {TIMES}")
        do(f"accept {TIMES}")
    assert endings(shakes.document) == {"success": 2 * TIMES}
    for single in shakes.singles[:TIMES]:
        assert single["parts_ns"]["callbacks"] >= naps * 20_000_000
    rest, callbacks = ([single["parts_ns"][part] for single in shakes.singles[:TIMES]] for part in ("rest", "callbacks"))
    assert min(rest) < min(callbacks)
    assert all("callbacks" not in single["parts_ns"] for single in shakes.singles[TIMES:])
    assert_books(shakes)


@pytest.mark.parametrize(("how", "naps"), [("ticket12", (1, 1)), ("old12", (1, 1)), ("ticket13", (2, 1)), ("old13", (2, 1))])
def test_a_callback_for_the_keys_of_tickets(certificates: Path, shaker: Path, how: str, naps: tuple[int, int]) -> None:
    """It is the application's where a ticket is made, and where one is opened, which is a session lookup otherwise."""
    with with_certificate(shaker, certificates) as (pid, do), Shakes(pid) as shakes:
        do(f"{how} {TIMES}")
        do(f"accept {TIMES}")
    assert endings(shakes.document) == {"success": 3 * TIMES}
    asked, control = shakes.singles[: 2 * TIMES], shakes.singles[2 * TIMES :]
    assert labels_of(asked, "resumed") == [("no",), ("yes",)] * TIMES
    for single, times in zip(asked, naps * TIMES, strict=True):
        parts = single["parts_ns"]
        assert parts["callbacks"] >= times * 20_000_000
        assert ("session_lookup" in parts) == (single["labels"]["resumed"] == "yes")
    for part in ("rest", "session_lookup"):
        times_ns = sorted(single["parts_ns"].get(part, 0) for single in asked)
        assert times_ns[TIMES] < 20_000_000
    assert all("callbacks" not in single["parts_ns"] for single in control)
    assert_books(shakes)


def test_on_and_off_the_processor_under_load(certificates: Path) -> None:
    """More workers than processors: each handshake's time in calls is split without remainder."""
    with (
        Nginx(certificates, Settings(workers=8, reuseport=True, tickets=False)) as server,
        Shakes(server.master_pid) as shakes,
    ):
        assert h2load(server.port["rsa"], 600, parallel=60) == 600
        server.wait_idle()
    assert endings(shakes.document) == {"success": 600}
    assert any("off_cpu" in single["parts_ns"] for single in split(shakes.singles))
    assert_books(shakes)


@contextlib.contextmanager
def half_open(port: int, number: int) -> Iterator[list[socket.socket]]:
    """So many connections with half a ClientHello each."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[1], number + 100), max(limits[1], number + 100)))
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(number):
            connections.append(stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20)))
            connections[-1].sendall(HALF_A_HELLO)
        yield connections
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def wait_for(server: Nginx, connections: int) -> None:
    """Until so many are open, and what they have sent is read: the worker serves in order, so the last query comes after."""
    while server.status().active < connections:
        time.sleep(0.02)
    server.status()


def test_more_in_flight_than_there_is_room_for(certificates: Path) -> None:
    """The oldest are pushed out, and counted: what began has ended, or is in flight, or was dropped."""
    number, room = 5000, 2000
    with Nginx(certificates, Settings()) as server, contextlib.ExitStack() as stack:
        with Shakes(server.master_pid, options=("--max-in-flight", str(room))) as shakes:
            stack.enter_context(half_open(server.port["rsa"], number))
            wait_for(server, number)
        told = shakes.document["handshakes"]
    assert shakes.singles == []
    assert 0 < told["in_flight"] <= room
    assert told["in_flight"] + told["dropped"] == number
    assert told["partial"] == 0


def test_a_hundred_thousand_in_flight(certificates: Path, shaker: Path) -> None:
    """The room is for 131,072 if nothing else is asked for: none is dropped before."""
    needs_memory(8 << 30, "100,000 SSLs of 46 KB each need")
    with with_certificate(shaker, certificates) as (pid, do), Shakes(pid) as shakes:
        do("begin 100000")
    assert shakes.singles == []
    assert shakes.document["handshakes"]["in_flight"] == 100_000
    assert_books(shakes)


def test_those_pushed_out_end_uncounted(certificates: Path) -> None:
    """They are begun anew by their next call, but that isn't their beginning."""
    number = 3000
    with (
        Nginx(certificates, Settings()) as server,
        Shakes(server.master_pid, options=("--max-in-flight", "1000")) as shakes,
    ):
        with half_open(server.port["rsa"], number):
            wait_for(server, number)
        server.wait_idle()
    told = shakes.document["handshakes"]
    assert endings(shakes.document) == {"abandoned": number - told["dropped"]}
    assert 0 < told["partial"] == told["dropped"]
    assert told["in_flight"] == 0


def test_what_was_under_way_before(certificates: Path) -> None:
    """Handshakes that wait when the trace begins aren't counted when they end: their first part is missing."""
    with Nginx(certificates, Settings()) as server, contextlib.ExitStack() as stack:
        stack.enter_context(half_open(server.port["rsa"], TIMES))
        wait_for(server, TIMES)
        with Shakes(server.master_pid) as shakes:
            Client(server.port["rsa"], TLS_1_3).connect_times(3)
            stack.close()
            server.wait_idle()
    assert endings(shakes.document) == {"success": 3}
    assert shakes.document["handshakes"]["partial"] == TIMES
    assert_books(shakes)


@pytest.mark.parametrize("options", [(), ("--pauses", "3", "--order", "lifo", "--stacks", "mixed")], ids=["plain", "pauses"])
def test_fibers(tmp_path: Path, options: tuple[str, ...]) -> None:
    """A program with stacks of its own, whose functions only bear OpenSSL's names: each of its handshakes is one."""
    program = build_fibers(tmp_path)
    with Fibers(program, "--jobs", "50", "--rounds", "4", *options) as fibers, Shakes(fibers.pid) as shakes:
        truth = fibers.go()["SSL_do_handshake"]
    found = endings(shakes.document)
    assert found == {"success": truth["success"], "failure": truth["failure"]}
    assert sum(single["pauses"] for single in shakes.singles) == truth["retry"]
    assert_books(shakes)


def test_openssl_1_1_1(certificates: Path, tmp_path: Path) -> None:
    libraries = [foreign.needed(foreign.find(f"lib{name}-1.1-x86-64")) for name in ("ssl", "crypto")]
    program, pair = tmp_path / "old_openssl", make_certificate("ecdsa", certificates)
    subprocess.run(["cc", "-O2", Path(__file__).parents[1] / "victims" / "old_openssl.c", "-o", program, "-ldl"], check=True)
    with (
        obedient(program, *libraries, pair.certificate, pair.key) as (pid, do),
        Shakes(pid, options=("--role", "any", "--by", "role,version,cipher,resumed,signature")) as shakes,
    ):
        do("200")
    assert endings(shakes.document) == {"success": 400}
    due = [("TLSv1.3", "TLS_AES_256_GCM_SHA384", "no", role) for role in ("client", "server")]
    assert Counter(labels_of(shakes.singles, "version", "cipher", "resumed", "role")) == dict.fromkeys(due, 200)
    assert {"private_key" in single["parts_ns"] for single in shakes.singles if single["labels"]["role"] == "server"} == {True}
    assert_books(shakes)


def test_a_process_with_libcrypto_alone_is_told_apart_from_one_that_ended() -> None:
    """Its TLS, if it does any, as Erlang's, isn't libssl's."""
    program = "import hashlib, sys; print(hashlib.sha256(b'').hexdigest(), flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        command = [PROGRAM, "handshakes", "-p", str(process.pid), "-d", "1"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        process.communicate()
    assert done.returncode == 1
    assert "these processes map no libssl" in done.stderr


# A client that first leaves sockets behind which its peers had reset before it closed them, in whose memory the next ones lie.
AFTER_RESETS = """
import os, socket, ssl, struct, sys
port, times = map(int, sys.argv[1:])
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
listener = socket.create_server(("127.0.0.1", 0))
print("ready", flush=True)
for _ in sys.stdin:
    for _ in range(times):
        with socket.create_connection(listener.getsockname()) as client:
            accepted = listener.accept()[0]
            client.sendall(b"x")
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        accepted.close()
        with socket.create_connection(("127.0.0.1", port)) as plain, context.wrap_socket(plain):
            pass
    print("done", flush=True)
"""


def test_a_client_has_no_queue_before_its_first_call(certificates: Path) -> None:
    with (
        Nginx(certificates) as server,
        obedient(sys.executable, "-c", AFTER_RESETS, server.port["rsa"], TIMES) as (pid, do),
        Shakes(pid, options=("--role", "client")) as shakes,
    ):
        do("go")
    assert len(shakes.singles) == TIMES
    assert not [single for single in shakes.singles if {"queue_start", "wait_hello", "client_wait"} & single["parts_ns"].keys()]
    assert shakes.document["handshakes"]["role"] == "client"
    assert_books(shakes)
