# SPDX-License-Identifier: Apache-2.0
"""A cause is planted in a server or in its clients, and the diagnosis names it first; beside it a control in which it is silent
about that. The causes of queues are those of test_queue.py."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from ssllatency.reports.diagnosis import network, queue
from ssllatency.reports.diagnosis.case import Case
from ssllatency.reports.diagnosis.diagnosis import Diagnosis, diagnoses
from ssllatency.reports.diagnosis.rule import Evidence
from ssllatency.reports.documents.document import from_document
from ssllatency.targets.sockets.sock_diag import listen_overflows
from tests.live.clients.bad import context, no_shared_cipher
from tests.live.clients.counted import TIMEOUT_S, TLS_1_2, TLS_1_3
from tests.live.commands.handshakes import Shakes, assert_books, spent_ns
from tests.live.servers.nginx import make_certificate
from tests.live.servers.programs import session_server
from tests.live.servers.python_ssl import TlsServer, TlsSettings
from tests.live.servers.queues import Late, felt_ns, late_server, on_a_busy_processor
from tests.machine import NEEDS_QUIET

pytestmark = [pytest.mark.usefixtures("tracing"), NEEDS_QUIET]
Judge = Callable[[Case], Evidence | None]
TIMES = 32
SLOW_S = 0.02
SELF = Path("/proc/self")
# What a busy machine does to a server and to its clients, which still are near, and don't saturate it one after the other. A
# thread on another processor that its host has stopped seems to sleep, or to work.
BUSY: Sequence[Judge] = (
    queue.blocked_loop,
    queue.asleep_elsewhere,
    queue.late_first_call,
    queue.late_server,
    queue.neighbours,
    queue.cpu_quota,
    network.slow_clients,
    network.peer_waits,
)


def told(shakes: Shakes, but_for: Sequence[Judge] = BUSY) -> list[Diagnosis]:
    """What is said of the whole measurement, but for these rules."""
    snapshot = from_document(shakes.document)
    assert snapshot.handshakes
    assert_books(shakes)
    sentences = diagnoses(snapshot.handshakes, snapshot.duration_s)
    return [diagnosis for diagnosis in sentences if diagnosis.rule.evidence not in but_for]


def names(shakes: Shakes) -> list[str]:
    return [diagnosis.rule.name for diagnosis in told(shakes)]


def shake(
    port: int, made: ssl.SSLContext, session: ssl.SSLSession | None = None, name: str = "localhost"
) -> ssl.SSLSession | None:
    """One connection with one request, to its end: its session."""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with made.wrap_socket(plain, server_hostname=name, session=session) as tls:
            with suppress(OSError):
                tls.sendall(b"GET / HTTP/1.0\r\n\r\n")
                while tls.recv(65536):
                    pass
            return tls.session


def shakes_of(certificates: Path, settings: TlsSettings, clients: Callable[[int], object], *options: str) -> Shakes:
    """The measurement of a server with these settings while its clients do what they do."""
    with TlsServer(certificates, settings) as server, Shakes(server.pid, options=options) as shakes:
        clients(server.port)
        server.ends()
    return shakes


def prompt(port: int) -> None:
    """Clients of which nothing is to be said."""
    made = context(TLS_1_3)
    for _ in range(TIMES):
        shake(port, made)


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3], ids=["1.2", "1.3"])
def test_nothing_is_said_of_a_prompt_server_and_prompt_clients(certificates: Path, version: ssl.TLSVersion) -> None:
    made = context(version)
    made.set_ciphers("ECDHE")
    shakes = shakes_of(certificates, TlsSettings("ecdsa"), lambda port: [shake(port, made) for _ in range(TIMES)])
    assert names(shakes) == []


def test_a_key_too_dear(certificates: Path) -> None:
    shakes = shakes_of(certificates, TlsSettings("rsa4096"), prompt)
    first = told(shakes)[0]
    assert first.rule.name == "private_key"
    assert "is RSA-4096 signing; 0 % of the handshakes are resumed. An ECDSA certificate" in first.sentence
    assert names(shakes) == ["private_key", "never_offered"]


def test_a_dear_key_that_clients_who_come_back_spare_it(certificates: Path) -> None:
    made = context(TLS_1_3)
    with TlsServer(certificates, TlsSettings("rsa4096")) as server:
        session = shake(server.port, made)
        with Shakes(server.pid) as shakes:
            for _ in range(TIMES):
                session = shake(server.port, made, session)
            server.ends()
    assert {single["labels"]["resumed"] for single in shakes.singles} == {"yes"}
    assert names(shakes) == []


def test_a_callback_that_sleeps(certificates: Path) -> None:
    (only,) = told(shakes_of(certificates, TlsSettings("ecdsa", sleep_s=SLOW_S), prompt))
    assert only.rule.name == "callbacks"
    assert "in which its thread is asleep for" in only.sentence


def test_a_server_asleep_in_none_of_the_phases(certificates: Path) -> None:
    (only,) = told(shakes_of(certificates, TlsSettings("ecdsa", message_s=SLOW_S), prompt))
    assert only.rule.name == "asleep_in_calls"


@pytest.mark.parametrize("answer_s", [SLOW_S, 0.0], ids=["slow store", "own cache"])
def test_a_session_store_that_is_slow(certificates: Path, answer_s: float) -> None:
    made = context(TLS_1_2)
    with session_server(certificates, answer_s) as (pid, port):
        session = shake(port, made)
        with Shakes(pid) as shakes:
            for _ in range(TIMES):
                shake(port, made, session)
    if not answer_s:
        assert {single["labels"]["resumed"] for single in shakes.singles} == {"yes"}
        assert names(shakes) == []
        return
    sentences = {diagnosis.rule.name: diagnosis.sentence for diagnosis in told(shakes)}
    assert set(sentences) == {"session_lookup", "cache_misses"}
    assert "in which its thread is asleep for" in sentences["session_lookup"]
    assert f"({TIMES} of {TIMES}) came with a session that wasn't found" in sentences["cache_misses"]


@pytest.mark.parametrize("accept_s", [0.03, 0])
def test_connections_that_wait_to_be_accepted(certificates: Path, accept_s: float) -> None:
    """Each is served by a thread of its own, of which nothing is known before."""
    sentences = told(shakes_of(certificates, TlsSettings("ecdsa", accept_s=accept_s), prompt), but_for=())
    assert ("late_first_call" in [each.rule.name for each in sentences[:1]]) == bool(accept_s)
    if accept_s:
        assert "connections wait in its accept queue, or for its event loop" in sentences[0].sentence


@pytest.mark.parametrize("backlog", [1, 4096])
def test_connections_for_which_there_is_no_room(certificates: Path, backlog: int) -> None:
    """Clients that all come at once find a short queue full, and try again after a second: they wait for much longer than the
    handshakes take. The kernel has dropped as many as are told, or others' as well."""
    before, dropped = listen_overflows(SELF), 0
    waited_s: list[float] = []

    def client(port: int) -> None:
        began_s = time.monotonic()
        shake(port, context(TLS_1_3))
        waited_s.append(time.monotonic() - began_s)

    def clients(port: int) -> None:
        nonlocal dropped
        with ThreadPoolExecutor(5) as pool:
            list(pool.map(client, [port] * TIMES))
        dropped = listen_overflows(SELF) - before

    shakes = shakes_of(certificates, TlsSettings("ecdsa", accept_s=0.005, backlog=backlog), clients)
    (queue,) = shakes.document["handshakes"]["accept_queues"]
    assert (queue["address"], queue["limit"]) == ("127.0.0.1", backlog)
    assert (0 < queue["overflows"] <= dropped) if backlog == 1 else queue["overflows"] == 0
    first = told(shakes, but_for=())[0]
    assert (first.rule.name == "accept_queue_full") == (backlog == 1)
    if backlog == 1:
        assert f"was full {queue['overflows']} times when a connection came" in first.sentence
        assert sum(waited_s) > 2 * sum(single["parts_ns"]["client_wait"] for single in shakes.singles) / 1e9


@pytest.mark.parametrize("contexts", [2, 1])
@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3], ids=["1.2", "1.3"])
def test_tickets_of_another_key(certificates: Path, contexts: int, version: ssl.TLSVersion) -> None:
    """Two contexts serve in turn, and each client comes back to the other one; or there is only one."""
    made = context(version)
    with TlsServer(certificates, TlsSettings("ecdsa", contexts=contexts)) as server:
        session = shake(server.port, made)
        with Shakes(server.pid) as shakes:
            for _ in range(TIMES):
                session = shake(server.port, made, session)
            server.ends()
    assert {single["labels"]["resumed"] for single in shakes.singles} == {"yes" if contexts == 1 else "no"}
    if contexts == 1:
        assert names(shakes) == []
        return
    first = told(shakes)[0]
    assert first.rule.name == "tickets_refused"
    assert f"100 % of the clients that offered a session ({TIMES} of {TIMES}) came with a ticket" in first.sentence


@pytest.mark.parametrize("others", [30, 0])
def test_client_certificates_with_long_chains(certificates: Path, tmp_path: Path, others: int) -> None:
    own = make_certificate("ecdsa", tmp_path)
    chain = tmp_path / "chain.crt"
    chain.write_bytes(own.certificate.read_bytes() * (others + 1))
    made = context(TLS_1_3)
    made.load_cert_chain(chain, own.key)
    settings = TlsSettings("ecdsa", client_ca=str(own.certificate))
    shakes = shakes_of(certificates, settings, lambda port: [shake(port, made) for _ in range(TIMES)])
    assert {single["labels"]["client_certificate"] for single in shakes.singles} == {"given"}
    assert ("peer_verification" in names(shakes)[:1]) == bool(others)


def test_clients_that_fail_for_one_reason(certificates: Path) -> None:
    def clients(port: int) -> None:
        prompt(port)
        for _ in range(TIMES):
            no_shared_cipher(port)

    first = told(shakes_of(certificates, TlsSettings("rsa"), clients))[0]
    assert first.rule.name == "one_reason"
    assert f'100 % of the failures ({TIMES} of {TIMES}, in {2 * TIMES} handshakes) are "no shared cipher"' in first.sentence


def test_a_key_is_not_blamed_for_a_busy_processor(certificates: Path) -> None:
    """Its thread is ready to run for most of the time in which it signs."""
    with late_server(certificates, Late(), "rsa4096") as (pid, port), on_a_busy_processor(pid), Shakes(pid) as shakes:
        for _ in range(TIMES):
            felt_ns(port)
    assert told(shakes, but_for=())[0].rule.name == "neighbours"
    throttled, ready = (spent_ns(shakes.singles, part) for part in ("off_cpu_throttled", "off_cpu_runnable"))
    assert throttled < 0.1 * ready  # a machine may have a quota of its own
    assert "private_key" not in names(shakes)


def test_work_for_clients_that_left(certificates: Path) -> None:
    """The server is late, and its clients have gone before it signs."""
    made = context(TLS_1_3)
    with late_server(certificates, Late(sleep_s=SLOW_S), "rsa4096") as (pid, port), Shakes(pid) as shakes:
        for _ in range(TIMES):
            with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as plain:
                sent = ssl.MemoryBIO()
                with suppress(ssl.SSLWantReadError):
                    made.wrap_bio(ssl.MemoryBIO(), sent).do_handshake()
                plain.sendall(sent.read())
        shake(port, made)
    (only,) = told(shakes)
    assert only.rule.name == "work_in_vain"
    assert f"in {TIMES} a call began after the peer had left" in only.sentence


@pytest.mark.parametrize("slow_name", ["slow.example", "other.example"])
def test_one_name_that_is_slow(certificates: Path, slow_name: str) -> None:
    made = context(TLS_1_3)

    def clients(port: int) -> None:
        for _ in range(TIMES):
            for name in ("slow.example", "quick.example"):
                shake(port, made, name=name)

    settings = TlsSettings("ecdsa", sleep_s=SLOW_S, slow_name=slow_name)
    said = told(shakes_of(certificates, settings, clients, "--by", "sni"))
    if slow_name == "other.example":
        assert said == []
        return
    assert said[0].rule.name == "slow_group"
    assert said[0].sentence.startswith("The clients of SNI slow.example wait ")
    assert "the largest difference is callbacks" in said[0].sentence
