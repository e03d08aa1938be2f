# SPDX-License-Identifier: Apache-2.0
"""QUIC: OpenSSL's own, of either side, as in curl, and that of nginx and haproxy, whose handshakes OpenSSL makes. By Debian
13's, in its root."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from statistics import median

import pytest

from tests import foreign, machine
from tests.live.clients.counted import TLS_1_3, Client
from tests.live.commands.handshakes import Shake, Shakes, assert_books, endings, labels_of
from tests.live.links.link import Link
from tests.live.servers.debian import frontend_of_haproxy
from tests.live.servers.named_certificates import bytes_of
from tests.live.servers.nginx import free_ports, make_certificate
from tests.live.servers.roots import haproxy_of, nginx_of
from tests.live.victims.obedient import Obedient, obedient
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("tracing")

TIMES, NAP_US, PAUSE_S = 40, 5_000, 0.03
FEW, FAR_S = 5, 0.1
REFUSED = ("failure", "no application protocol", "no application protocol", True)
DISTRUSTED = ("failure", "certificate verify failed", "unknown CA", True)
LEFT = "freed", "", False
HOSTS, CURLS, CURL_DISTRUSTS = [f"host-{number}.test" for number in range(8)], 3, "60"


@pytest.fixture
def root() -> Path:
    return foreign.needed(foreign.second_root()).resolve()


@contextmanager
def quic(root: Path, certificates: Path) -> Iterator[Obedient]:
    """The program of quic.c, by the root's OpenSSL."""
    pair = make_certificate("ecdsa", certificates)
    libraries = [f"{root}{machine.LIBRARIES}/lib{name}.so.3" for name in ("ssl", "crypto")]
    with tempfile.TemporaryDirectory(dir=root / "tmp", prefix="ssllatency-") as made:
        folder = Path(made)
        source = Path(__file__).parents[1] / "victims" / "quic.c"
        subprocess.run(["cc", "-O2", source, "-o", folder / "quic", *libraries, "-Wl,--allow-shlib-undefined"], check=True)
        for file in (pair.certificate, pair.key):
            shutil.copy(file, folder)
        inside = Path("/tmp", folder.name)
        with obedient("chroot", root, *(inside / name for name in ("quic", pair.certificate.name, pair.key.name))) as found:
            yield found


def test_handshakes_of_quic(certificates: Path, root: Path) -> None:
    """Of both sides, each counted once and split as any other; no socket tells when a packet came for one of them, so that the
    wait for the peer stays whole. A client's port and peer aren't known."""
    with quic(root, certificates) as (pid, do), Shakes(pid, options=("--role", "any", "--by", "alpn,port,peer")) as shakes:
        do(f"{TIMES} {NAP_US} fine")
    assert endings(shakes.document) == {"success": 2 * TIMES}
    assert Counter(labels_of(shakes.singles, "role", "version", "alpn")) == {
        (role, "TLSv1.3", "hq"): TIMES for role in ("server", "client")
    }
    assert {*labels_of(shakes.singles, "role", "port", "peer")} & {("client", None, None)}
    assert {role for role, port, _ in labels_of(shakes.singles, "role", "port", "peer") if port} <= {"server"}
    for single in shakes.singles:
        waits = {part for part in single["parts_ns"] if part.startswith(("wait", "queue"))}
        assert waits == {"wait_peer_or_server"}
        assert single["parts_ns"]["wait_peer_or_server"] >= NAP_US * 1000 or single["labels"]["role"] == "client"
    assert_books(shakes)


def causes(shakes: Shakes) -> Counter[tuple[str, str, str, bool]]:
    """How many handshakes ended why, with which alert, and whether this side sent it."""
    found: Counter[tuple[str, str, str, bool]] = Counter()
    for cause in shakes.document["handshakes"]["causes"]:
        found[cause["ending"], cause["reason"], cause["alert"], cause["sent"]] += cause["count"]
    return found


@pytest.mark.parametrize(("how", "cause"), [("protocol", REFUSED), ("distrust", DISTRUSTED)])
def test_failures_of_quic_have_their_reasons(
    certificates: Path, root: Path, how: str, cause: tuple[str, str, str, bool]
) -> None:
    """Of the side that refuses. QUIC takes the alert to the other one, whose handshake OpenSSL's TLS only sees given up."""
    with quic(root, certificates) as (pid, do), Shakes(pid, options=("--role", "any")) as shakes:
        do(f"{TIMES} 0 {how}")
    assert causes(shakes) == {cause: TIMES, ("abandoned", *LEFT): TIMES}
    refuses = {"protocol": "server", "distrust": "client"}[how]
    assert {*labels_of(shakes.ended("failure"), "role")} == {(refuses,)}
    assert {*labels_of(shakes.singles, "role", "client_certificate")} == {("server", "not asked"), ("client", None)}
    assert_books(shakes)


def assert_served(shakes: Shakes, certificates: Path) -> None:
    """The one certificate in half of the handshakes without success; at a port, but for the first ones of a process."""
    places = shakes.document["handshakes"]["certificates"]
    counted = (sum(served["count"] for served in places), sum(served["unsuccessful"] for served in places))
    assert counted == (2 * TIMES, TIMES)
    assert {served["certificate"]["size"] for served in places} == {bytes_of(certificates / "ecdsa.crt")}


def test_the_certificate_that_is_served_over_quic(certificates: Path, root: Path) -> None:
    """By the server, to those as well that don't trust it; not by its client, which has none."""
    with quic(root, certificates) as (pid, do), Shakes(pid, options=("--role", "any")) as shakes:
        do(f"{TIMES} 0 fine")
        do(f"{TIMES} 0 distrust")
    assert_served(shakes, certificates)
    assert shakes.document["handshakes"]["certificates_untold"] == 0


@pytest.mark.parametrize("retry", ["off", "on"])
def test_handshakes_of_nginx_over_quic(certificates: Path, root: Path, retry: str) -> None:
    """As its clients count them. Where it has an address validated first, OpenSSL isn't called for that, and each still counts
    once."""
    with (
        nginx_of(root, certificates, "ecdsa", "X25519", quic=f"quic_retry {retry};") as (master, port),
        quic(root, certificates) as (_, do),
        Shakes(master, options=("--by", "alpn")) as shakes,
    ):
        for how in ("fine", "protocol", "distrust"):
            do(f"{TIMES} 0 {how} {port}")
        wait_for(lambda: shakes.printed('"ending"') == 3 * TIMES)
    assert endings(shakes.document) == {"success": TIMES, "failure": TIMES, "abandoned": TIMES}
    assert causes(shakes) == {REFUSED: TIMES, ("abandoned", *LEFT): TIMES}
    labels = ("role", "version", "cipher", "group", "resumed", "signature", "alpn")
    due = ("server", "TLSv1.3", "TLS_AES_256_GCM_SHA384", "x25519", "no", "ecdsa_secp256r1_sha256", "h3")
    assert Counter(labels_of(shakes.ended("success"), *labels)) == {due: TIMES}
    for single in shakes.ended("success"):
        assert {"private_key", "key_exchange", "wait_peer_or_server"} <= single["parts_ns"].keys()
    assert_served(shakes, certificates)
    assert_books(shakes)


@pytest.mark.parametrize("retry", ["off", "on"])
def test_handshakes_of_haproxy_over_quic(certificates: Path, root: Path, retry: str) -> None:
    """As it counts them itself. Where it has addresses validated first, as it says it does, each still counts once: it begins
    with the ClientHello that comes after that. A refused certificate it reads in QUIC's packets and frees the handshake."""
    with (
        haproxy_of(root, certificates, "ecdsa", "quic-force-retry" * (retry == "on")) as (pid, port, statistics),
        quic(root, certificates) as (_, do),
        Shakes(pid, options=("--by", "alpn")) as shakes,
    ):
        for how in ("fine", "distrust"):
            do(f"{TIMES} 0 {how} {port}")
        wait_for(lambda: shakes.printed('"ending"') == 2 * TIMES)
        told = frontend_of_haproxy(statistics)
    assert endings(shakes.document) == {"success": int(told["h3sess"]), "abandoned": int(told["quic_transp_err_crypto_error"])}
    assert endings(shakes.document) == {"success": TIMES, "abandoned": TIMES}
    assert (int(told["quic_retry_validated"]) >= 2 * TIMES, told["quic_retry_sent"] == "0") == (
        (retry == "on"),
        (retry == "off"),
    )
    assert causes(shakes) == {("abandoned", *LEFT): TIMES}
    labels = ("role", "version", "cipher", "group", "resumed", "signature", "alpn")
    due = ("server", "TLSv1.3", "TLS_AES_256_GCM_SHA384", "x25519", "no", "ecdsa_secp256r1_sha256", "h3")
    assert Counter(labels_of(shakes.singles, *labels)) == {due: 2 * TIMES}
    for single in shakes.singles:
        assert {part for part in single["parts_ns"] if part.startswith(("wait", "queue"))} == {"wait_peer_or_server"}
        assert {"private_key", "key_exchange"} <= single["parts_ns"].keys()
    assert_served(shakes, certificates)
    assert_books(shakes)


@contextmanager
def shell(root: Path) -> Iterator[Obedient]:
    """One of the root that runs each line as a command. It maps the libraries of TLS that curl does, so that these are known
    before curl is started."""
    run = 'echo ready; while read -r line; do eval "$line"; echo done; done'
    with obedient("chroot", root, "env", "LD_PRELOAD=libssl.so.3 libgnutls.so.30", "sh", "-c", run) as found:
        yield found


def curl(port: int, trusts: bool, said: str) -> str:
    """The command that asks each of HOSTS, which are one server by HTTP/3, once, and leaves in a file which version of HTTP it
    was answered by, and its exit code."""
    resolved = (word for host in HOSTS for word in ("--resolve", f"{host}:{port}:127.0.0.1"))
    asked = (word for host in HOSTS for word in ("-o", "/dev/null", f"https://{host}:{port}/"))
    shown = ("-s", "-w", r"%{http_version}\n", *(("-k",) if trusts else ()))
    return f"{shlex.join(('curl', '--http3-only', '--max-time', '20', *shown, *resolved, *asked))} >>{said}; echo $? >>{said}"


@pytest.mark.parametrize("retry", ["off", "on"])
def test_handshakes_of_curl_over_quic(certificates: Path, root: Path, retry: str) -> None:
    """Of a client, by OpenSSL's own QUIC, as curl says how it went. Where its address is validated first, it is still one
    handshake, which waits that long as well."""
    times = CURLS * len(HOSTS)
    with (
        tempfile.NamedTemporaryFile("r", dir=root / "tmp", prefix="ssllatency-") as file,
        haproxy_of(root, certificates, "ecdsa", "quic-force-retry" * (retry == "on")) as (_, port, statistics),
        shell(root) as (parent, do),
        Shakes(parent, options=("--role", "client", "--by", "sni,alpn,port,peer")) as shakes,
    ):
        for trusts in (True, False):
            for _ in range(CURLS):
                do(curl(port, trusts, f"/tmp/{Path(file.name).name}"))
        told, said = frontend_of_haproxy(statistics), file.read()
    assert said.split() == [*CURLS * [*len(HOSTS) * ["3"], "0"], *CURLS * [*len(HOSTS) * ["0"], CURL_DISTRUSTS]]
    assert (told["h3sess"], told["quic_retry_sent"] == "0") == (str(times), retry == "off")
    assert endings(shakes.document) == {"success": times, "failure": times}
    assert causes(shakes) == {DISTRUSTED: times}
    labels = ("role", "version", "cipher", "group", "sni", "alpn", "port", "peer")
    due = ("client", "TLSv1.3", "TLS_AES_256_GCM_SHA384", "x25519")
    assert Counter(labels_of(shakes.singles, *labels)) == {(*due, host, "h3", None, None): 2 * CURLS for host in HOSTS}
    assert len({single["pid"] for single in shakes.singles}) == 2 * CURLS
    for single in shakes.singles:
        assert {part for part in single["parts_ns"] if part.startswith(("wait", "queue"))} == {"wait_peer_or_server"}
        assert {"key_exchange", "peer_verification"} <= single["parts_ns"].keys()
    assert_books(shakes)


def ask(port: int, kept: ExitStack) -> None:
    """A request without TLS, over a connection that stays."""
    asking = kept.enter_context(closing(HTTPConnection("127.0.0.1", port, timeout=10)))
    asking.request("GET", "/")
    assert asking.getresponse().read() == b"hello"


def test_requests_without_tls_are_not_taken_for_those_of_quic(certificates: Path, root: Path) -> None:
    """A server that reads TCP in the same thread has its QUIC handshakes fed with something else: none waits for that, be it
    refused before a protocol of QUIC is agreed on."""
    (plain,) = free_ports(1)
    with (
        nginx_of(root, certificates, "ecdsa", "X25519", quic=f"listen 127.0.0.1:{plain};") as (master, port),
        quic(root, certificates) as (_, do),
        Shakes(master) as shakes,
        ExitStack() as kept,
    ):
        for how in TIMES * ["fine"] + TIMES * ["protocol"]:
            ask(plain, kept)
            do(f"1 0 {how} {port}")
            time.sleep(PAUSE_S)
    assert endings(shakes.document) == {"success": TIMES, "failure": TIMES}
    told = {part for single in shakes.singles for part in single["parts_ns"]}
    assert {part for part in told if part.startswith(("wait", "queue", "round"))} == {"wait_peer_or_server"}
    assert_books(shakes)


def test_refused_handshakes_of_quic_have_no_part_in_what_their_thread_reads(certificates: Path, root: Path) -> None:
    """Of a worker that has ended none over QUIC that has agreed on something, and reads TCP without TLS before each: none takes
    those bytes for its own. Its handshakes over TCP are split as ever."""
    (plain,) = free_ports(1)
    with (
        nginx_of(root, certificates, "ecdsa", "X25519", quic=f"listen 127.0.0.1:{plain};") as (master, port),
        quic(root, certificates) as (_, do),
        Shakes(master) as shakes,
        ExitStack() as kept,
    ):
        for _ in range(TIMES):
            ask(plain, kept)
            do(f"1 0 protocol {port}")
            Client(port, TLS_1_3).connect()
            time.sleep(PAUSE_S)
    assert endings(shakes.document) == {"success": TIMES, "failure": TIMES}
    assert {waits_of(single) for single in shakes.ended("failure")} <= {frozenset(), frozenset({"wait_peer_or_server"})}
    for single in shakes.ended("success"):
        assert {"wait_hello", "queue_start"} <= waits_of(single) - {"wait_peer_or_server"} == waits_of(single)
    assert_books(shakes)


def test_handshakes_that_are_fed_stay_split_beside_those_of_quic(certificates: Path, root: Path) -> None:
    """Of a thread that reads TCP itself and hands it over through memory: those over QUIC tell that they are not fed so."""
    first = 0

    def shake() -> None:
        nonlocal first
        do("1 0 fed")
        first += 1

    with quic(root, certificates) as (pid, do), Shakes(pid) as shakes:
        shakes.learn(shake)
        do(f"{FEW} 0 fine")
        do(f"{TIMES} 0 fed")
    singles = shakes.singles[first:]
    assert len(singles) == FEW + TIMES
    assert {waits_of(single) for single in singles[:FEW]} == {frozenset({"wait_peer_or_server"})}
    for single in singles[FEW:]:
        assert {"wait_hello", "queue_start"} <= waits_of(single)
    assert_books(shakes)


def waits_of(single: Shake) -> frozenset[str]:
    """Those of its parts that are waits, its own or the server's."""
    return frozenset(part for part in single["parts_ns"] if part.startswith(("wait", "queue", "round")))


@contextmanager
def nginx_by_retry(root: Path, certificates: Path, retry: str) -> Iterator[tuple[int, int]]:
    """Its PID and port."""
    with nginx_of(root, certificates, "ecdsa", "X25519", quic=f"quic_retry {retry};") as found:
        yield found


@contextmanager
def haproxy_by_retry(root: Path, certificates: Path, retry: str) -> Iterator[tuple[int, int]]:
    """The same."""
    with haproxy_of(root, certificates, "ecdsa", "quic-force-retry" * (retry == "on")) as (pid, port, _):
        yield pid, port


@pytest.mark.parametrize("server", [nginx_by_retry, haproxy_by_retry])
@pytest.mark.parametrize(("retry", "round_trips"), [("off", 1), ("on", 2)])
def test_the_round_trip_of_an_address_validation(
    certificates: Path, root: Path, server: Callable[..., AbstractContextManager[tuple[int, int]]], retry: str, round_trips: int
) -> None:
    """Is in the client's wait for its peer, and in nothing of the server's, whose handshake begins after it. Clients are so far
    away that each round trip shows."""
    with Link() as link, ExitStack() as opened:
        with link.at_server():
            pid, port = opened.enter_context(server(root, certificates, retry))
        with link.at_client():
            client, do = opened.enter_context(quic(root, certificates))
        link.set(FAR_S / 2)
        with Shakes(pid, client, options=("--role", "any")) as shakes:
            do(f"{FEW} 0 short {port}")
            wait_for(lambda: shakes.printed('"ending"') == 2 * FEW)
    assert Counter(labels_of(shakes.ended("success"), "role")) == {("server",): FEW, ("client",): FEW}
    waits: dict[str, list[float]] = {role: [] for role in ("server", "client")}
    for single in shakes.singles:
        waits[single["labels"]["role"]].append(single["parts_ns"]["wait_peer_or_server"] / 1e9)
    assert {role: round(median(seconds) / FAR_S) for role, seconds in waits.items()} == {"server": 1, "client": round_trips}
    assert_books(shakes)
