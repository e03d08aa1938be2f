# SPDX-License-Identifier: Apache-2.0
"""Other versions of OpenSSL than the host's, each at work: Debian 13's in a root of its own, and 1.1.1."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import foreign, machine
from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client, h2load, server_calls
from tests.live.commands.trace import Trace, count, counts, losses
from tests.live.engines.test_scripts import TOOLS, Script
from tests.live.exact.test_async import assert_told_like, key_operations
from tests.live.servers.jobs import AsyncServer, AsyncSettings, load, offload
from tests.live.servers.nginx import make_certificate
from tests.live.servers.roots import in_root, nginx_of

pytestmark = pytest.mark.usefixtures("tracing")


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3], ids=["1.2", "1.3"])
@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_nginx_of_debian_13(certificates: Path, kind: str, version) -> None:  # type: ignore[no-untyped-def]
    root = foreign.needed(foreign.second_root()).resolve()
    with nginx_of(root, certificates, kind, "X25519") as (pid, port), Trace(pid) as trace:
        exchanges = Client(port, version).connect_times(30)
    expected = server_calls(exchanges, kind)
    assert counts(trace.document, list(expected)) == expected
    assert losses(trace.document) == {}
    libraries = {library["path"] for target in trace.document["targets"] for library in target["libraries"]}
    assert libraries == {f"{root}{machine.LIBRARIES}/lib{name}.so.3" for name in ("ssl", "crypto")}


def test_a_hundred_thousand_calls_of_debian_13(certificates: Path) -> None:
    """Each has its beginning and its end."""
    root, connections = foreign.needed(foreign.second_root()).resolve(), 10000
    with nginx_of(root, certificates, "ecdsa", "X25519") as (pid, port), Trace(pid) as trace:
        completed = h2load(port, connections, parallel=20)
        time.sleep(0.5)
    document = trace.document
    assert {count(document, function) for function in ("SSL_do_handshake", "SSL_read", "SSL_write")} == {completed}
    assert sum(row["count"] for row in document["functions"]) > 100_000
    assert losses(document) == {}
    assert document["in_flight"] == 0


def test_a_hybrid_key_exchange_of_debian_13(certificates: Path) -> None:
    """Its own s_client, as the host's OpenSSL has no ML-KEM."""
    root = foreign.needed(foreign.second_root())
    with nginx_of(root, certificates, "ecdsa", "X25519MLKEM768:X25519") as (pid, port), Trace(pid) as trace:
        for _ in range(5):
            command = ["chroot", root, "openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-groups", "X25519MLKEM768"]
            done = subprocess.run(command, input=b"Q\n", capture_output=True, timeout=20, check=False)
            assert b"X25519MLKEM768" in done.stdout
    document = trace.document
    assert count(document, "SSL_do_handshake") == 5
    assert count(document, "mlx_kem_encapsulate") == 5
    assert count(document, "ml_kem_encapsulate") == 5
    assert losses(document) == {}


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_async_jobs_of_debian_13(certificates: Path, kind: str) -> None:
    """Built with shadow-stack markers, its ASYNC jobs change stacks another way than Debian 12's."""
    root = foreign.needed(foreign.second_root())
    settings = AsyncSettings(kind=kind, groups="X25519", engine=offload(threads=8, delay_us=2000))
    with AsyncServer(certificates, settings, root=root) as server:
        with Trace(server.pid) as trace:
            load(server, connections=400, parallel=40)
            server.wait_idle()
        final = server.stop()
    assert_told_like(trace.document, final)
    private_key = {"rsa": "rsa_ossl_private_encrypt", "ecdsa": "ossl_ecdsa_sign"}[kind]
    assert count(trace.document, private_key) == key_operations(final) == 400


@contextmanager
def old_openssl(program: Path, libssl: Path, libcrypto: Path, certificates: Path, kind: str) -> Iterator[subprocess.Popen[str]]:
    pair = make_certificate(kind, certificates)
    command = [program, libssl, libcrypto, pair.certificate, pair.key]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process
        process.communicate()


@pytest.mark.parametrize(("kind", "times"), [("rsa", 500), ("ecdsa", 8000)])
def test_openssl_1_1_1(certificates: Path, tmp_path: Path, kind: str, times: int) -> None:
    libssl = foreign.needed(foreign.find("libssl-1.1-x86-64"))
    libcrypto = foreign.needed(foreign.find("libcrypto-1.1-x86-64"))
    program = tmp_path / "old_openssl"
    subprocess.run(["cc", "-O2", Path(__file__).parents[1] / "victims" / "old_openssl.c", "-o", program, "-ldl"], check=True)
    with (
        old_openssl(program, libssl, libcrypto, certificates, kind) as process,
        Trace(process.pid, options=("--role", "any")) as trace,
    ):
        assert process.stdin
        assert process.stdout
        process.stdin.write(f"{times}\n")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"
    document = trace.document
    assert count(document, "SSL_do_handshake") == 2 * times
    assert count(document, "SSL_read") == count(document, "SSL_write") == times
    key_operation = {"rsa": "rsa_ossl_private_encrypt", "ecdsa": "ossl_ecdsa_sign"}[kind]
    assert count(document, key_operation) == times
    assert losses(document) == {}
    assert document["in_flight"] == 0


def test_ssllatency_bt_in_debian_13(certificates: Path) -> None:
    """By the bpftrace there, to which "libssl" is the OpenSSL there."""
    root = foreign.needed(foreign.second_root())
    settings = AsyncSettings(kind="ecdsa", asynchronous=False, groups="P-256")
    with AsyncServer(certificates, settings, root=root) as server:
        script = Path(shutil.copy(TOOLS / "ssllatency.bt", server.directory))
        with Script(*in_root(root, "bpftrace", f"/{script.relative_to(root)}", str(server.pid))) as tracing:
            load(server, connections=100, parallel=10)
            server.wait_idle()
        final = server.stop()
    expected = {name: calls["success"] for name, calls in final["calls"].items() if calls["success"]}
    assert {name: tracing.counts("stat")[name] for name in expected} == expected
    assert tracing.value("error[handshake, 2]") == final["calls"]["SSL_do_handshake"]["want_read"]
    assert "@lost" not in tracing.output
