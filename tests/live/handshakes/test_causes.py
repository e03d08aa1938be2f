# SPDX-License-Identifier: Apache-2.0
"""Causes that clients over TCP and their servers seldom show: what passes between calls for an unknown reason, over transports
that tell little, and in an offload. Each is planted, and is named first; beside it a control in which it is not named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ssllatency.reports.diagnosis import queue
from tests.live.clients.bad import context, http, no_shared_cipher, old_version, reset, silent_hello
from tests.live.clients.counted import TLS_1_3, Client
from tests.live.commands.handshakes import Shakes
from tests.live.commands.trace import Trace, count, reasons
from tests.live.handshakes.test_diagnosis import TIMES, names, prompt, shake, shakes_of, told
from tests.live.servers.jobs import AsyncServer, AsyncSettings, offload
from tests.live.servers.python_ssl import TlsSettings
from tests.live.servers.queues import quota
from tests.live.victims.obedient import compiled, with_certificate
from tests.machine import NEEDS_QUIET

pytestmark = pytest.mark.usefixtures("tracing")
WAITS = {
    "pair": "peer_or_server_waits",
    "unix": "peer_or_server_waits",
    "window": "peer_waits",
    "application": "application_waits",
    "unknown": "unknown_waits",
    "work": "own_work",
    "threads": "late_server",
    "several": "several_causes",
}
OFFLOADS = {"software_fallback", "vain_resumptions", "late_resumption", "batches_unfilled", "offload_waits"}


@pytest.fixture(scope="module")
def waits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of waits.c."""
    return compiled("waits", tmp_path_factory.mktemp("waits"))


def names_of(certificates: Path, waits: Path, how: str) -> list[str]:
    """What is said of handshakes that wait so, but for what a busy machine does to them."""
    with with_certificate(waits, certificates) as (pid, do), Shakes(pid) as shakes:
        do(f"{how} {TIMES}")
    return [diagnosis.rule.name for diagnosis in told(shakes, but_for=(queue.neighbours, queue.cpu_quota))]


@pytest.mark.parametrize("how", WAITS)
def test_a_wait_has_its_reason(certificates: Path, waits: Path, how: str) -> None:
    assert names_of(certificates, waits, how) == [WAITS[how]]


def test_nothing_is_said_of_who_takes_no_time(certificates: Path, waits: Path) -> None:
    assert names_of(certificates, waits, "prompt") == []


def test_a_quota_that_holds_it_in_calls_only(certificates: Path, waits: Path) -> None:
    """Nothing lies in a queue, as its client is the same thread."""
    with with_certificate(waits, certificates) as (pid, do), quota(pid, 0.3), Shakes(pid) as shakes:
        do(f"work {TIMES}")
    assert "queue" not in shakes.document["handshakes"]["groups"][0]["parts"]
    assert [diagnosis.rule.name for diagnosis in told(shakes, but_for=())] == ["cpu_quota"]


@pytest.mark.parametrize("engine", ["libbpf", "bcc"])
def test_a_wait_for_something_else_is_a_retry(certificates: Path, waits: Path, engine: str) -> None:
    """Of a BIO that connects, or that says it does."""
    with with_certificate(waits, certificates) as (pid, do), Trace(pid, options=("--engine", engine)) as trace:
        do(f"unknown {TIMES}")
    document = trace.document
    assert reasons(document, "SSL_accept", "retry")["WANT_CONNECT"] == TIMES
    assert set(reasons(document, "SSL_accept", "retry")) == {"WANT_CONNECT", "WANT_READ"}
    assert (count(document, "SSL_accept", "failure"), count(document, "SSL_accept")) == (0, TIMES)


@NEEDS_QUIET
@pytest.mark.parametrize("curve", ["secp384r1", "prime256v1"])
def test_a_key_exchange_too_dear(certificates: Path, curve: str) -> None:
    """OpenSSL has fast code for one of these groups only. Clients have their share ready before they connect."""
    made = context(TLS_1_3)
    made.set_ecdh_curve(curve)
    settings = TlsSettings("ecdsa", curve=curve)
    shakes = shakes_of(certificates, settings, lambda port: [shake(port, made) for _ in range(TIMES)])
    assert ("key_exchange" in names(shakes)[:1]) == (curve != "prime256v1")


def test_clients_that_fail_for_many_reasons(certificates: Path) -> None:
    """As many for each of three."""

    def clients(port: int) -> None:
        prompt(port)
        for _ in range(TIMES // 2):
            no_shared_cipher(port)
            old_version(port)
            http(port)

    first = told(shakes_of(certificates, TlsSettings("rsa"), clients))[0]
    assert first.rule.name == "many_reasons"
    assert f"({3 * (TIMES // 2)} of {TIMES + 3 * (TIMES // 2)}) fail for 3 reasons" in first.sentence


@pytest.mark.parametrize(
    ("leave", "by"),
    [(silent_hello, "by the server itself"), (reset, "by the peer"), (None, "")],
    ids=["silent", "reset", "stay"],
)
def test_clients_that_leave_in_the_middle(certificates: Path, leave: Callable[[int], object] | None, by: str) -> None:
    """Before the server has done much for them, so that it isn't its work in vain that is told."""

    def clients(port: int) -> None:
        prompt(port)
        for _ in range(TIMES if leave else 0):
            assert leave
            leave(port)

    said = told(shakes_of(certificates, TlsSettings("ecdsa", timeout_s=0.1), clients))
    if not leave:
        assert "abandoned" not in [each.rule.name for each in said]
        return
    if leave is reset and said[0].rule.name == "work_in_vain":  # a slow machine has worked for half a millisecond by then
        assert f"{TIMES} handshakes were abandoned" in said[0].sentence
        return
    assert said[0].rule.name == "abandoned"
    assert f"50 % of the handshakes ({TIMES}) were abandoned" in said[0].sentence
    assert f"{by} in {TIMES}" in said[0].sentence


@dataclass(frozen=True)
class Offload:
    """What an offload is like, and which sentence comes first."""

    delay_us: int = 0
    poll_ms: int = 0
    rule: str = ""


@NEEDS_QUIET
@pytest.mark.parametrize(
    "planted",
    [
        Offload(delay_us=20_000, rule="offload_waits"),
        Offload(poll_ms=20, rule="late_resumption"),
        Offload(delay_us=20_000, poll_ms=2, rule="vain_resumptions"),
        Offload(),
    ],
    ids=lambda planted: planted.rule or "nothing",
)
def test_an_offload(certificates: Path, planted: Offload) -> None:
    """One client after the other: an operation of this key is done in a moment, unless it is made to wait."""
    engine = offload(threads=2, delay_us=planted.delay_us)
    settings = AsyncSettings("ecdsa", engine=engine, poll_ms=planted.poll_ms)
    with AsyncServer(certificates, settings) as server, Shakes(server.pid) as shakes:
        Client(server.port, TLS_1_3).connect_times(2 * TIMES)
        server.wait_idle()
    assert shakes.document["async"]["handshakes"] == 2 * TIMES
    sentences = told(shakes)
    said = [diagnosis.rule.name for diagnosis in sentences]
    assert [name for name in said[:1] if name in OFFLOADS] == [planted.rule][: bool(planted.rule)]
    if planted.poll_ms and not planted.delay_us:
        assert "a handshake, asleep: the event loop is slow" in sentences[0].sentence
    assert planted.rule or not OFFLOADS.intersection(said)
