# SPDX-License-Identifier: Apache-2.0
"""Private keys that a provider of OpenSSL 3 and 4 keeps and works with, in ASYNC jobs or not, against what the server and the
provider count themselves."""

from __future__ import annotations

import ssl
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client
from tests.live.commands.handshakes import Shakes, assert_books, endings, labels_of, spent_ns
from tests.live.commands.trace import Trace, count, losses, reasons
from tests.live.exact.test_async import PRIVATE_KEY, key_operations
from tests.live.exact.test_async import assert_told_like as assert_calls_told_like
from tests.live.handshakes.test_async_jobs import assert_told_like, begun
from tests.live.servers.jobs import AsyncServer, AsyncSettings, Provider, load, on_release

pytestmark = pytest.mark.usefixtures("tracing")

CONNECTIONS, PARALLEL = 200, 20
RELEASES = ["host", "3.5", "4"]
SIGNATURE = {
    ("rsa", "1.3"): "rsa_pss_rsae_sha256",
    ("rsa", "1.2"): "rsa_pss_rsae_sha256",
    ("ecdsa", "1.3"): "ecdsa_secp256r1_sha256",
    ("ecdsa", "1.2"): "ecdsa_secp256r1_sha256",
}
# The provider's own functions, which are known by its tables alone.
SIGNS = {"rsa": "provider_rsa_digest_sign_final", "ecdsa": "provider_ecdsa_digest_sign"}
KEY = {"rsa": "RSA-2048", "ecdsa": "ECDSA P-256"}


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize("release", RELEASES)
def test_every_handshake_waits_for_its_provider(certificates: Path, release: str, version: str, kind: str) -> None:
    settings = AsyncSettings(kind, version=version, groups="X25519", provider=Provider(threads=8, delay_us=2000))
    with AsyncServer(certificates, settings, **on_release(release)) as server:
        with Trace(server.pid) as trace, Shakes(server.pid) as shakes:
            load(server, connections=CONNECTIONS, parallel=PARALLEL)
            server.wait_idle()
        final = server.stop()
    assert final["handshakes"] == CONNECTIONS
    assert_calls_told_like(trace.document, final)
    assert count(trace.document, PRIVATE_KEY[kind]) == key_operations(final) == CONNECTIONS
    assert count(trace.document, SIGNS[kind]) == CONNECTIONS
    assert count(trace.document, "ASYNC_pause_job") == final["engine"]["pauses"]
    assert {single["pauses"] > 0 for single in shakes.singles} == {True}
    assert_told_like(shakes, final)
    told = shakes.document["async"]
    assert told["software"] == 0
    assert {poller["pid"] for poller in told["pollers"]} <= {server.pid}
    assert sum(poller["completions"] for poller in told["pollers"]) == told["pauses"] - told["unseen"]
    assert set(labels_of(shakes.singles, "signature")) == {(SIGNATURE[kind, version],)}
    [served] = shakes.document["handshakes"]["certificates"]
    assert served["certificate"]["key"] == KEY[kind]


@pytest.mark.parametrize("release", RELEASES)
def test_the_wait_is_no_part_of_the_private_keys_time(certificates: Path, release: str) -> None:
    """Two jobs at a time on one thread, for so long that their own work is little beside it."""
    delay_us, times = 3_000_000, 2
    settings = AsyncSettings(groups="X25519", provider=Provider(threads=times, delay_us=delay_us))
    with AsyncServer(certificates, settings, **on_release(release)) as server:
        with Shakes(server.pid) as shakes:
            for connection in begun(server, times):
                with connection:
                    connection.settimeout(30)
                    connection.do_handshake()
            server.wait_idle()
        final = server.stop()
    assert_told_like(shakes, final)
    assert shakes.document["async"]["most_waiting"] == times
    waited_ns = spent_ns(shakes.singles, "wait_offload") + spent_ns(shakes.singles, "queue_offload")
    assert waited_ns > times * delay_us * 1000 / 2
    assert spent_ns(shakes.singles, "private_key") < waited_ns


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
@pytest.mark.parametrize("release", RELEASES)
def test_without_a_job_the_wait_is_in_the_private_keys_time(certificates: Path, release: str, kind: str) -> None:
    delay_us, times = 20_000, 10
    settings = AsyncSettings(kind, asynchronous=False, groups="X25519", provider=Provider(delay_us=delay_us))
    with AsyncServer(certificates, settings, **on_release(release)) as server:
        with Trace(server.pid) as trace, Shakes(server.pid) as shakes:
            load(server, connections=times, parallel=2)
            server.wait_idle()
        final = server.stop()
    assert final["engine"]["synchronous"] == times
    assert endings(shakes.document) == {"success": times}
    assert_books(shakes)
    assert "async" not in shakes.document
    assert all(single["parts_ns"]["private_key"] >= delay_us * 1000 for single in shakes.singles)
    assert_calls_told_like(trace.document, final)
    assert count(trace.document, PRIVATE_KEY[kind]) == count(trace.document, SIGNS[kind]) == times


@pytest.mark.parametrize("release", RELEASES)
def test_no_offload_is_told_of_without_a_provider(certificates: Path, release: str) -> None:
    """The control: jobs that nothing pauses."""
    with AsyncServer(certificates, AsyncSettings(groups="X25519"), **on_release(release)) as server:
        with Trace(server.pid) as trace, Shakes(server.pid) as shakes:
            load(server, connections=CONNECTIONS, parallel=PARALLEL)
            server.wait_idle()
        final = server.stop()
    assert endings(shakes.document) == {"success": CONNECTIONS}
    assert_books(shakes)
    assert "async" not in shakes.document
    assert spent_ns(shakes.singles, "wait_offload") == 0
    assert_calls_told_like(trace.document, final)
    assert count(trace.document, "ASYNC_pause_job") == 0


@pytest.mark.parametrize("asynchronous", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("release", RELEASES)
def test_signatures_that_the_provider_fails_to_make(certificates: Path, release: str, asynchronous: bool) -> None:
    """Every second one fails, in a job that had paused or not: with the provider's own reason."""
    times = 10
    settings = AsyncSettings(asynchronous=asynchronous, groups="X25519", provider=Provider(delay_us=500, fail_every=2))
    with AsyncServer(certificates, settings, **on_release(release)) as server:
        with Trace(server.pid) as trace, Shakes(server.pid) as shakes:
            client = Client(server.port, TLS_1_3)
            for _ in range(times):
                client.connect()
                with pytest.raises(ssl.SSLError):
                    client.connect()
            server.wait_idle()
        final = server.stop()
    assert final["engine"]["failed"] == final["failed"] == times
    assert endings(shakes.document) == {"success": times, "failure": times}
    [cause] = shakes.document["handshakes"]["causes"]
    said = {"reason": "failed to sign", "library": "Provider routines", "alert": "internal error", "sent": True, "count": times}
    assert cause.items() >= said.items()
    assert_books(shakes)
    assert_calls_told_like(trace.document, final)
    assert reasons(trace.document, "SSL_do_handshake", "failure").total() == times
    assert [count(trace.document, SIGNS["rsa"], outcome) for outcome in ("success", "failure")] == [times, times]
    paused = 2 * times if asynchronous else 0
    assert sum(single["pauses"] for single in shakes.singles) == paused == final["engine"]["pauses"]


@pytest.mark.parametrize("release", RELEASES)
def test_decryption_by_the_provider(certificates: Path, release: str) -> None:
    settings = AsyncSettings(provider=Provider(delay_us=500))
    with AsyncServer(certificates, settings, **on_release(release)) as server:
        with Trace(server.pid) as trace, Shakes(server.pid) as shakes:
            Client(server.port, TLS_1_2, "AES128-GCM-SHA256").connect_times(CONNECTIONS // 10)
            server.wait_idle()
        final = server.stop()
    assert final["engine"]["rsa_decrypt"] == CONNECTIONS // 10
    for function in ("rsa_ossl_private_decrypt", "provider_rsa_decrypt"):
        assert count(trace.document, function) == CONNECTIONS // 10, function
    assert_calls_told_like(trace.document, final)
    assert_told_like(shakes, final)


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
@pytest.mark.parametrize("release", RELEASES)
def test_connections_that_are_freed_while_their_job_is_paused(certificates: Path, release: str, kind: str) -> None:
    """Those of clients that have gone; the provider ends its work later, and wakes nobody."""
    times = 5
    provider = Provider(threads=2 * times, delay_us=5_000_000)
    settings = AsyncSettings(kind, groups="X25519", impatient=True, provider=provider)
    with AsyncServer(certificates, settings, **on_release(release)) as server:
        with Trace(server.pid) as trace, Shakes(server.pid) as shakes:
            with ExitStack() as opened:
                for connection in begun(server, times):
                    opened.enter_context(connection)
            server.wait_idle()
            freed = server.counts()
            Client(server.port, TLS_1_3).connect()
            server.wait_idle()
        final = server.stop()
    assert (freed["failed"], freed["handshakes"], freed["engine"]["offloaded"]) == (times, 0, times)
    assert final["handshakes"] == 1
    assert endings(shakes.document) == {"success": 1, "abandoned": times}
    assert {single["pauses"] for single in shakes.singles} == {1}
    assert shakes.document["async"]["waiting"] == 0
    assert losses(trace.document) == {}
