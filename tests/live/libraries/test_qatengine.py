# SPDX-License-Identifier: Apache-2.0
"""A server with Intel's qatengine in a Debian 13 of its own, the whole catalogue traced: libssl, libcrypto, libcrypto_mb and
qatengine.

Where libcrypto_mb can't use the CPU the engine loads, and leaves the work to OpenSSL; what it does in batches of eight shows
only where it can.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ssllatency.reports.diagnosis import queue
from tests import foreign
from tests.live.commands.handshakes import Shakes
from tests.live.commands.trace import Document, Trace, count, losses
from tests.live.handshakes.test_diagnosis import BUSY, told
from tests.live.servers.jobs import AsyncServer, AsyncSettings, Counts, lanes, load, qatengine
from tests.machine import leave_out

pytestmark = pytest.mark.usefixtures("tracing")
CONNECTIONS = 400
LANES = 8
# The engine's functions for a private key and for the key exchange on P-256, and the batches that they end in.
SIGN = {"rsa": "multibuff_rsa_priv_enc", "ecdsa": "mb_ecdsa_sign"}
BATCH = {"rsa": "mbx_rsa_private_crt_ssl_mb8", "ecdsa": "mbx_nistp256_ecdsa_sign_ssl_mb8"}
EXCHANGE = ("mb_ecdh_generate_key", "mb_ecdh_compute_key")


@pytest.fixture(scope="module")
def root() -> Path:
    return foreign.needed(foreign.second_root())


def run(certificates: Path, root: Path, kind: str) -> tuple[Document, Counts]:
    """The report on a server that made CONNECTIONS full handshakes, and the server's own counts."""
    # The engine can't do OpenSSL 3.5's default group, a hybrid one.
    settings = AsyncSettings(kind=kind, version="1.3", groups="P-256", engine=qatengine(root))
    with AsyncServer(certificates, settings, root) as server:
        with Trace(server.pid) as trace:
            completed = load(server, connections=CONNECTIONS, parallel=50)
            server.wait_idle()
        final = server.stop()
    assert completed == final["handshakes"] == CONNECTIONS
    assert final["failed"] == 0
    return trace.document, final


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_every_call_counts_once_whoever_does_the_work(certificates: Path, root: Path, kind: str) -> None:
    document, final = run(certificates, root, kind)
    names = {Path(library["path"]).name for library in document["targets"][0]["libraries"]}
    assert {"libssl.so.3", "libcrypto.so.3", "qatengine.so", "libcrypto_mb.so.11.15"} <= names
    for function, calls in final["calls"].items():
        assert count(document, function) == calls["success"], function
    assert losses(document) == {}


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_batches_of_the_engine(certificates: Path, root: Path, kind: str) -> None:
    if lanes(root) == "none":
        leave_out("libcrypto_mb does nothing on this machine's CPU, so qatengine makes no batches")
    document, final = run(certificates, root, kind)
    assert count(document, SIGN[kind]) == CONNECTIONS
    for function in EXCHANGE:
        assert count(document, function) == CONNECTIONS, function
    assert CONNECTIONS / LANES <= count(document, BATCH[kind]) <= CONNECTIONS
    assert count(document, "ASYNC_pause_job") >= final["calls"]["SSL_do_handshake"]["want_async"] > 0
    assert losses(document) == {}


@pytest.mark.parametrize("parallel", [2, 64])
def test_batches_that_too_few_clients_fill(certificates: Path, root: Path, parallel: int) -> None:
    """The engine waits for eight operations until its time limit: two clients never have as many."""
    if lanes(root) == "none":
        leave_out("libcrypto_mb does nothing on this machine's CPU, so qatengine makes no batches")
    settings = AsyncSettings(kind="rsa", version="1.3", groups="P-256", engine=qatengine(root))
    with AsyncServer(certificates, settings, root) as server, Shakes(server.pid) as shakes:
        load(server, connections=CONNECTIONS, parallel=parallel)
        server.wait_idle()
    names = [diagnosis.rule.name for diagnosis in told(shakes, but_for=(*BUSY, queue.saturated))]
    assert ("batches_unfilled" in names[:1]) == (parallel == 2)
