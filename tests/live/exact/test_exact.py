# SPDX-License-Identifier: Apache-2.0
"""Exact: for a known number of connections to a real nginx, the report counts just the calls that those must give.

Only successes are compared: how often nginx asks again (WANT_READ) depends on when the client's bytes arrive.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from ssl import TLSVersion

import pytest

from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client, Exchange, h2load, s_client, s_time, server_calls
from tests.live.commands.trace import Document, Trace, count, counted_pids, counts, losses
from tests.live.servers.nginx import Nginx, Settings

pytestmark = pytest.mark.usefixtures("tracing")

CONNECTIONS = 25
KEYS = ("rsa", "ecdsa")
VERSIONS = (TLS_1_2, TLS_1_3)
SHARED_CACHE = "shared:sessions:4m"
# h2load resumes when it connects again, unless the server gives it nothing to resume with.
EIGHT_WORKERS = Settings(workers=8, reuseport=True, tickets=False)
KEY_OPERATION = {"rsa": "rsa_ossl_private_encrypt", "ecdsa": "ossl_ecdsa_sign"}


def assert_exact(document: Document, exchanges: Iterable[Exchange], key: str) -> None:
    """The report counts what these connections must give, and lost nothing."""
    expected = server_calls(exchanges, key)
    assert counts(document, list(expected)) == expected
    assert_nothing_lost(document)


def assert_nothing_lost(document: Document) -> None:
    """No loss, and no call still under way."""
    assert losses(document) == {}
    assert document["in_flight"] == 0


def assert_short_connections(document: Document, connections: int, key: str, full: int | None = None) -> None:
    """Each of so many connections was a handshake, one request and one response; `full` handshakes weren't resumed, or all."""
    expected = dict.fromkeys(("SSL_do_handshake", "SSL_read", "SSL_write", "SSL_shutdown"), connections)
    expected[KEY_OPERATION[key]] = connections if full is None else full
    assert counts(document, list(expected)) == expected
    assert_nothing_lost(document)


@pytest.mark.parametrize("version", VERSIONS, ids=attrgetter("name"))
@pytest.mark.parametrize("key", KEYS)
def test_full_handshakes(certificates: Path, key: str, version: TLSVersion) -> None:
    with Nginx(certificates) as server:
        client = Client(server.port[key], version)
        with Trace(server.master_pid) as trace:
            exchanges = client.connect_times(CONNECTIONS)
            server.wait_idle()
    assert not any(exchange.resumed for exchange in exchanges)
    assert_exact(trace.document, exchanges, key)


@pytest.mark.parametrize("tickets", [True, False], ids=["ticket", "cache"])
@pytest.mark.parametrize("version", VERSIONS, ids=attrgetter("name"))
@pytest.mark.parametrize("key", KEYS)
def test_resumed_handshakes(certificates: Path, key: str, version: TLSVersion, tickets: bool) -> None:
    settings = Settings(tickets=tickets, session_cache="off" if tickets else SHARED_CACHE)
    with Nginx(certificates, settings) as server:
        client = Client(server.port[key], version)
        first = client.connect()
        server.wait_idle()
        with Trace(server.master_pid) as trace:
            exchanges = client.connect_times(CONNECTIONS, session=first.session)
            server.wait_idle()
    assert all(exchange.resumed for exchange in exchanges)
    assert count(trace.document, KEY_OPERATION[key]) == 0
    assert_exact(trace.document, exchanges, key)


def test_rsa_key_exchange_decrypts(certificates: Path) -> None:
    with Nginx(certificates) as server, Trace(server.master_pid) as trace:
        exchanges = Client(server.port["rsa"], TLS_1_2, "AES128-GCM-SHA256").connect_times(CONNECTIONS)
        server.wait_idle()
    assert count(trace.document, "rsa_ossl_private_decrypt") == CONNECTIONS
    assert_exact(trace.document, exchanges, "rsa")


def test_pkcs1_signature_is_an_rsa_sign(certificates: Path) -> None:
    with Nginx(certificates) as server, Trace(server.master_pid) as trace:
        for _ in range(5):
            s_client(server.port["rsa"], "-tls1_2", "-sigalgs", "RSA+SHA256")
        server.wait_idle()
    assert counts(trace.document, ["RSA_sign", "rsa_ossl_private_encrypt"]) == {"RSA_sign": 5, "rsa_ossl_private_encrypt": 5}
    assert_nothing_lost(trace.document)


def test_key_exchange_on_a_nist_curve(certificates: Path) -> None:
    with Nginx(certificates, Settings(curve="prime256v1")) as server, Trace(server.master_pid) as trace:
        exchanges = Client(server.port["ecdsa"], TLS_1_2).connect_times(CONNECTIONS)
        server.wait_idle()
    assert not any(exchange.resumed for exchange in exchanges)
    expected = {"ECDH_compute_key": CONNECTIONS, "ossl_ecdh_compute_key": CONNECTIONS, "ecx_derive": 0}
    assert counts(trace.document, list(expected)) == expected
    assert_nothing_lost(trace.document)


@pytest.mark.parametrize("version", VERSIONS, ids=attrgetter("name"))
def test_many_requests_in_a_connection(certificates: Path, version: TLSVersion) -> None:
    with Nginx(certificates) as server, Trace(server.master_pid) as trace:
        client = Client(server.port["ecdsa"], version)
        exchanges = client.connect_times(4, requests=50)
        server.wait_idle()
    assert count(trace.document, "SSL_read") == 200
    assert_exact(trace.document, exchanges, "ecdsa")


@pytest.mark.parametrize("size", [200, 255, 256, 257, 512])
def test_success_at_any_length(certificates: Path, size: int) -> None:
    """200 and 256 bytes, too, which are no success where only the lowest byte of the result is looked at."""
    with Nginx(certificates, Settings(exact=(size,))) as server, Trace(server.master_pid) as trace:
        exchanges = Client(server.port["ecdsa"], TLS_1_3).connect_times(5, requests=4, path=f"/{size}", request_size=size)
        server.wait_idle()
    assert {len(response) for exchange in exchanges for response in exchange.responses} == {size}
    assert counts(trace.document, ["SSL_read", "SSL_write"]) == {"SSL_read": 20, "SSL_write": 20}
    assert count(trace.document, "SSL_write", "failure") + count(trace.document, "SSL_write", "retry") == 0
    assert_exact(trace.document, exchanges, "ecdsa")


@pytest.mark.parametrize("key", KEYS)
def test_eight_workers(certificates: Path, key: str) -> None:
    with Nginx(certificates, EIGHT_WORKERS) as server:
        with Trace(server.master_pid, options=("--by-process",)) as trace:
            completed = h2load(server.port[key], 1600, parallel=64)
            server.wait_idle()
        workers = set(server.worker_pids())
    assert len(workers) == 8
    assert counted_pids(trace.document, "SSL_do_handshake") == workers
    assert_short_connections(trace.document, completed, key)


def test_two_thousand_connections_a_second_for_eight_seconds(certificates: Path) -> None:
    """Each h2load makes 50 full handshakes and resumes those sessions; two CPUs reach this rate no other way."""
    seconds, rate, parallel = 8, 2000, 50
    with Nginx(certificates, Settings(workers=2)) as server, Trace(server.master_pid) as trace:
        completed = 0
        started = time.monotonic()
        for second in range(seconds):
            time.sleep(max(0.0, started + second - time.monotonic()))
            completed += h2load(server.port["ecdsa"], rate, parallel=parallel)
        elapsed = time.monotonic() - started
        assert server.wait_idle().handled == completed
    if elapsed > seconds + 1:
        warnings.warn(f"this machine made only {completed / elapsed:.0f} connections a second", stacklevel=1)
    assert completed == seconds * rate
    assert_short_connections(trace.document, completed, "ecdsa", full=seconds * parallel)


@pytest.mark.parametrize("key", KEYS)
def test_what_s_time_completed(certificates: Path, key: str) -> None:
    with Nginx(certificates) as server, Trace(server.master_pid) as trace:
        completed = s_time(server.port[key], 1, "-tls1_3")
        server.wait_idle()
    assert_short_connections(trace.document, completed, key)


def test_what_s_time_resumed(certificates: Path) -> None:
    with Nginx(certificates) as server, Trace(server.master_pid) as trace:
        completed = s_time(server.port["ecdsa"], 1, "-tls1_2", resume=True)
        server.wait_idle()
    expected = {"SSL_do_handshake": completed, "SSL_read": completed, "SSL_write": completed, "ossl_ecdsa_sign": 1}
    assert counts(trace.document, list(expected)) == expected
    assert_nothing_lost(trace.document)
