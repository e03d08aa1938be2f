# SPDX-License-Identifier: Apache-2.0
"""OpenSSL linked into programs, which are then stripped or not: for whom each handshake waits, by its client's clock as well,
why some fail, the side, whom clients ask for, and what is served. Of the stripped ones nothing but the names in the errors that
OpenSSL raises, or before 3.0 their numbers, tells what its functions are."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest

from ssllatency.reports.diagnosis import queue
from tests import foreign
from tests.fixtures import build
from tests.live.clients import bad
from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client
from tests.live.clients.stamped import Stamping, stamped
from tests.live.commands.handshakes import PHASES, Shakes, assert_books, endings, labels_of, spent_ns
from tests.live.handshakes.test_async_jobs import assert_told_like
from tests.live.handshakes.test_causes import WAITS
from tests.live.handshakes.test_diagnosis import TIMES, told
from tests.live.handshakes.test_failed import PLAIN, assert_causes
from tests.live.handshakes.test_offers import facts
from tests.live.servers.jobs import TOP, AsyncServer, AsyncSettings, Engine, load
from tests.live.servers.named_certificates import bytes_of
from tests.live.servers.queues import stopped_often
from tests.live.victims.obedient import STATIC, compiled, with_certificate
from tests.machine import NEEDS_QUIET, needs_architecture

pytestmark = pytest.mark.usefixtures("tracing")

CONNECTIONS = 200
THINK_S = 0.05


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("linked")


@dataclass(frozen=True)
class Linked:
    """How OpenSSL is linked into a program: which one, and whether that is stripped then."""

    stripped: bool = True
    old: bool = False

    @property
    def paths(self) -> tuple[list[str], list[str]]:
        """The compiler's options for the headers and the libraries of OpenSSL 1.1.1; none for those of this machine."""
        if not self.old:
            return [], []
        needs_architecture("x86_64", "for which OpenSSL 1.1.1 was fetched")
        folder = foreign.needed(foreign.find("libssl.a-1.1-x86-64")).parent
        include = folder.parents[1] / "include"
        return [f"-I{include}", f"-I{include / folder.name}"], [f"-L{folder}"]

    def finished(self, program: Path) -> Path:
        """The program that is run."""
        return build.stripped(program, f"bare-{program.name}") if self.stripped else program

    def compiled(self, name: str, folder: Path) -> Path:
        """The program of one of the C files beside the victims."""
        headers, libraries = self.paths
        return self.finished(compiled(name, folder, [*headers, *libraries, *STATIC]))


@pytest.fixture(
    scope="module",
    params=[Linked(stripped=False), Linked(), Linked(old=True)],
    ids=["with symbols", "stripped", "stripped, 1.1.1"],
)
def linked(request: pytest.FixtureRequest) -> Linked:
    assert isinstance(request.param, Linked)
    return request.param


@pytest.fixture(scope="module")
def server_program(folder: Path, linked: Linked) -> Path:
    """The server with the engine of the examples in it, which it calls "offload"."""
    headers, libraries = linked.paths
    parts = [TOP / "examples/offload-engine" / f"{name}.c" for name in ("engine", "job", "methods", "pool")]
    parts.append(TOP / "tests/live/victims/built_in_engine.c")
    flags = [
        f"OPENSSL_CFLAGS={' '.join(headers)}",
        f"OPENSSL_LIBS={' '.join([*libraries, '-l:libssl.a -l:libcrypto.a -ldl'])}",
        f"LDFLAGS=-static {' '.join(map(str, parts))}",
    ]
    command = ["make", "-s", "-B", "-C", TOP / "examples/async-server", f"OUT={folder}", *flags]
    subprocess.run(command, check=True, capture_output=True)
    return linked.finished(folder / "async-server")


@pytest.fixture(scope="module")
def waits(folder: Path, linked: Linked) -> Path:
    """The program of waits.c."""
    return linked.compiled("waits", folder)


@pytest.fixture(scope="module")
def shaker(folder: Path, linked: Linked) -> Path:
    """The program of shaker.c."""
    return linked.compiled("shaker", folder)


def served(certificates: Path, program: Path, kind: str = "ecdsa", *, resume: bool = False) -> AsyncServer:
    return AsyncServer(certificates, AsyncSettings(kind, asynchronous=False, resume=resume), program=program)


def asked(
    port: int, made: ssl.SSLContext, name: str | None = None, session: ssl.SSLSession | None = None
) -> tuple[int, ssl.SSLSession | None]:
    """A connection with a request, to its answer: how long its handshake took by the client's own clock, and its session."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as plain:
        began = time.monotonic_ns()
        with made.wrap_socket(plain, server_hostname=name, session=session) as connection:
            felt_ns = time.monotonic_ns() - began
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
            return felt_ns, connection.session


@pytest.mark.parametrize("how", WAITS)
def test_a_wait_of_a_linked_openssl_has_its_reason(certificates: Path, waits: Path, how: str) -> None:
    with with_certificate(waits, certificates) as (pid, do), Shakes(pid) as shakes:
        do(f"{how} {TIMES}")
    found = [diagnosis.rule.name for diagnosis in told(shakes, but_for=(queue.neighbours, queue.cpu_quota))]
    assert found == [WAITS[how]]


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_slow_clients_of_a_linked_openssl_own_that_time(certificates: Path, server_program: Path, version: str) -> None:
    """Each client's kernel notes when its flights left and came: what it took to answer is the wait, and no more. Where the
    server has no processor once it has written its flight, so that its call goes on meanwhile, that is told as well."""
    stamping = Stamping(times=TIMES, version=version, think_s=THINK_S)
    options = ("--by", "sni,port,peer")
    with served(certificates, server_program, resume=True) as server, Shakes(server.pid, options=options) as shakes:
        stamps = stamped(server.port, stamping, os.sched_getaffinity(0))
        server.wait_idle()
    singles = {single["labels"]["sni"]: single for single in shakes.singles}
    assert {*singles} == {stamp.name for stamp in stamps}
    for stamp in stamps:
        parts = singles[stamp.name]["parts_ns"]
        answered_ns = stamp.sent_ns[1] - max(came for came in stamp.received_ns if came < stamp.sent_ns[1])
        assert answered_ns >= THINK_S * 1e9
        assert parts["wait_peer"] <= 1.1 * answered_ns
        assert parts["wait_peer"] + parts.get("off_cpu", 0) >= 0.9 * answered_ns
        assert "wait_peer_or_server" not in parts
    assert Counter(labels_of(shakes.singles, "port", "peer")) == {(str(server.port), "127.0.0.0/24"): TIMES}
    assert_books(shakes)


@NEEDS_QUIET
def test_a_server_with_openssl_in_it_that_is_stopped_owns_that_time(certificates: Path, server_program: Path) -> None:
    with served(certificates, server_program) as server:
        with Shakes(server.pid) as shakes, stopped_often(server.pid, 0.03, 0.003):
            felt = [asked(server.port, bad.context(TLS_1_2))[0] for _ in range(TIMES)]
        server.wait_idle()
    queue_ns, wait_ns = (spent_ns(shakes.singles, part) for part in ("queue", "wait_peer"))
    assert spent_ns(shakes.singles, "queue_asleep") > 0.5 * queue_ns
    assert wait_ns < 0.2 * queue_ns
    assert spent_ns(shakes.singles, "queue_start") + spent_ns(shakes.singles, "wall") == pytest.approx(sum(felt), rel=0.1)
    assert_books(shakes)


def loaded_until_seen(server: AsyncServer, shakes: Shakes) -> int:
    """The number of handshakes that are made until one shows when its operation was done."""
    number = 0
    while not shakes.printed('"offload_completion"'):
        assert number < CONNECTIONS
        number += load(server, connections=1, parallel=1)
        time.sleep(0.1)
    return number


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_handshakes_of_a_linked_openssl_wait_for_their_offload(certificates: Path, server_program: Path, kind: str) -> None:
    """No engine is seen there, so that when an operation is done is told only once the first handshakes have waited for one."""
    controls = ("THREADS:8", "DELAY_US:2000")
    with AsyncServer(certificates, AsyncSettings(kind, engine=Engine("offload", controls)), program=server_program) as server:
        with Shakes(server.pid) as shakes:
            first = loaded_until_seen(server, shakes)
            load(server, connections=CONNECTIONS, parallel=20)
            server.wait_idle()
        final = server.stop()
    assert final["handshakes"] == first + CONNECTIONS
    assert {single["pauses"] > 0 for single in shakes.singles} == {True}
    offload = shakes.document["async"]
    assert offload["software"] == 0
    assert offload["unseen"] < first
    parts = [single["parts_ns"] for single in shakes.singles[first:]]
    assert [each["wait_offload"] for each in parts] == [each["offload_completion"] for each in parts]
    # An operation begins a moment before its handshake waits for it; the server may be kept from its processor in between.
    assert median(each["offload_completion"] for each in parts) >= 1_000_000  # half of DELAY_US
    assert_told_like(shakes, final)


def test_failures_of_a_linked_openssl_have_their_reasons(certificates: Path, server_program: Path, linked: Linked) -> None:
    """With the alerts, and whose they are. Of a connection's end OpenSSL 1.1.1 raises no error."""
    plain = {act: cause for act, cause in PLAIN.items() if act is not bad.end_of_file or not linked.old}
    with served(certificates, server_program, "rsa") as server:
        with Shakes(server.pid, exact=False) as shakes:
            for act in plain:
                for _ in range(TIMES):
                    act(server.port)
            Client(server.port, TLS_1_2).connect_times(TIMES)
            server.wait_idle()
        final = server.stop()
    assert endings(shakes.document) == {"success": TIMES, "failure": len(plain) * TIMES}
    assert final["calls"]["SSL_do_handshake"]["failure"] == len(plain) * TIMES
    assert_causes(shakes, dict.fromkeys(plain.values(), TIMES))
    assert_books(shakes)


@pytest.mark.parametrize(("role", "roles"), [("server", ["server"]), ("client", ["client"]), ("any", ["server", "client"])])
@pytest.mark.parametrize("how", ["accept", "io"])
def test_sides_of_a_linked_openssl(certificates: Path, shaker: Path, how: str, role: str, roles: list[str]) -> None:
    with with_certificate(shaker, certificates) as (pid, do), Shakes(pid, options=("--role", role)) as shakes:
        do(f"{how} {TIMES}")
    assert_sides(shakes, TIMES, roles)


@pytest.mark.parametrize("linked", [Linked(stripped=False), Linked()], ids=["with symbols", "stripped"], indirect=True)
def test_cleared_connections_of_a_linked_openssl(certificates: Path, shaker: Path) -> None:
    """OpenSSL 1.1.1 can't shake hands with TLS 1.3 twice on one connection."""
    with with_certificate(shaker, certificates) as (pid, do), Shakes(pid, options=("--role", "any")) as shakes:
        do(f"again {TIMES}")
    assert_sides(shakes, 2 * TIMES, ["server", "client"])


def assert_sides(shakes: Shakes, times: int, roles: list[str]) -> None:
    """Each side has shaken hands so often, with the phases that it has."""
    assert endings(shakes.document) == {"success": times * len(roles)}
    assert Counter(labels_of(shakes.singles, "version", "role")) == {("TLSv1.3", one): times for one in roles}
    phases = {"server": {"private_key", "key_exchange"}, "client": {"key_exchange", "peer_verification"}}
    for single in shakes.singles:
        assert {*single["parts_ns"]} & {*PHASES} - {"rest"} == phases[single["labels"]["role"]]
    assert_books(shakes)


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3], ids=["1.2", "1.3"])
def test_names_protocols_and_resumption_of_a_linked_openssl(
    certificates: Path, server_program: Path, version: ssl.TLSVersion
) -> None:
    """As clients ask for them, each by turns. A session that is resumed in TLS 1.2 keeps a name only where the application has
    accepted it."""
    with (
        served(certificates, server_program, resume=True) as server,
        Shakes(server.pid, options=("--by", "sni,alpn")) as shakes,
    ):
        due = []
        for number in range(TIMES):
            made, name = bad.context(version), ("stripped.example", None)[number % 2]
            if number % 4 < 2:
                made.set_alpn_protocols(["h2", "http/1.1"])
            protocol = "http/1.1" if number % 4 < 2 else "none"
            _, session = asked(server.port, made, name)
            asked(server.port, made, name, session)
            again = None if version is TLS_1_2 else name or "none"
            due += [(name or "none", protocol, "no"), (again, protocol, "yes")]
        server.wait_idle()
    assert labels_of(shakes.singles, "sni", "alpn", "resumed") == due
    assert_books(shakes)


def test_key_shares_that_a_linked_openssl_asks_for_anew(certificates: Path, server_program: Path, linked: Linked) -> None:
    """Of clients whose first group isn't the server's. OpenSSL 1.1.1 doesn't keep which one it was."""
    settings = AsyncSettings("ecdsa", asynchronous=False, groups="P-384")
    with AsyncServer(certificates, settings, program=server_program) as server, Shakes(server.pid) as shakes:
        for groups in ("P-384:X25519", "X25519:P-384", "X25519:P-256:P-384"):
            command = ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-groups", groups]
            subprocess.run(command, input=b"Q\n", capture_output=True, timeout=20, check=True)
        server.wait_idle()
    assert facts(shakes)[-2:] == (3, 2), "of so many it is known, and so many were asked"
    assert labels_of(shakes.singles, "group") == [(None if linked.old else "secp384r1",)] * 3
    assert_books(shakes)


@pytest.mark.parametrize(("kind", "signature"), [("rsa", "rsa_pss_rsae_sha256"), ("ecdsa", "ecdsa_secp256r1_sha256")])
def test_certificate_and_signature_of_a_linked_openssl(
    certificates: Path, server_program: Path, kind: str, signature: str
) -> None:
    """Of each handshake that isn't resumed, those as well that clients break off as they don't trust it."""
    with served(certificates, server_program, kind) as server, Shakes(server.pid, exact=False) as shakes:
        for _ in range(TIMES):
            asked(server.port, bad.context(TLS_1_3))
            bad.unknown_ca(server.port)
        server.wait_idle()
    assert {*labels_of(shakes.ended("success"), "signature", "client_certificate")} == {(signature, "not asked")}
    [told_one] = shakes.document["handshakes"]["certificates"]
    assert (told_one["count"], told_one["unsuccessful"], told_one["port"]) == (2 * TIMES, TIMES, server.port)
    assert told_one["certificate"]["size"] == bytes_of(certificates / f"{kind}.crt")
    assert shakes.document["handshakes"]["certificates_untold"] == 0
    assert_books(shakes)


@pytest.mark.parametrize("how", ["accept", "given", "given12", "lacking", "lacking12"])
def test_a_client_of_a_linked_openssl_has_a_certificate_or_none(certificates: Path, shaker: Path, how: str) -> None:
    with with_certificate(shaker, certificates) as (pid, do), Shakes(pid) as shakes:
        do(f"{how} {TIMES}")
    due = {"accept": "not asked"}.get(how, "given" if how.startswith("given") else "not given")
    assert labels_of(shakes.singles, "client_certificate") == [(due,)] * TIMES
    assert all(("peer_verification" in single["parts_ns"]) == (due == "given") for single in shakes.singles)
    assert_books(shakes)
