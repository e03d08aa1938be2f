# SPDX-License-Identifier: Apache-2.0
"""At which port a handshake over QUIC comes in, and who its peer is, as its client's own socket has it. By Debian 13's servers
and a client by its OpenSSL, in its root."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.live.commands.handshakes import Shakes, assert_books, endings, labels_of
from tests.live.commands.trace import losses
from tests.live.go.servers import caddy
from tests.live.libraries.test_quic import haproxy_by_retry, nginx_by_retry, quic, root
from tests.live.links.link import Link
from tests.live.quic.relays import HostileRelay
from tests.live.servers.nginx import free_ports, make_certificate
from tests.live.servers.roots import nginx_of
from tests.machine import needs_architecture, needs_every_tracepoint
from tests.waiting import wait_for

__all__ = ["root"]  # a fixture
pytestmark = pytest.mark.usefixtures("tracing")

WHOLE = ("--by", "port,peer", "--peer-prefix", "32,128")
TIMES, MOST = 12, 200
QUIET_S = 12.0  # longer than packets are watched once no server is left
PEERS = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
RELAYS, HOSTILE = "127.0.0.5", "127.0.0.9"

Do = Callable[[str], None]
Server = Callable[[Path, Path, str], AbstractContextManager[tuple[int, int]]]


@pytest.fixture(autouse=True)
def _every_packet() -> None:
    needs_every_tracepoint()


@contextmanager
def caddy_of(_root: Path, certificates: Path, _retry: str) -> Iterator[tuple[int, int]]:
    """Its PID and port."""
    needs_architecture("x86_64", "as this program of Debian is")
    with caddy("trixie", make_certificate("ecdsa", certificates)) as server:
        yield server.pid, server.port


def learn(shakes: Shakes, do: Do, line: str) -> int:
    """Has handshakes made until it is seen where they go; how many they were. The first ones tell that there is a server."""
    made = 0
    for made in range(1, MOST):
        do(line)
        wait_for(lambda: shakes.printed('"ending"') == made)  # noqa: B023 - it is over before the next
        if not shakes.printed('"port": null'):
            continue
        if shakes.printed('"port": null') < made:
            break
    return made


def ends(shakes: Shakes, after: int) -> Counter[tuple[str | None, ...]]:
    """Port and peer of the handshakes but for so many first ones."""
    return Counter(labels_of(shakes.singles[after:], "port", "peer"))


def served_at(shakes: Shakes) -> Mapping[int | None, int]:
    """How many handshakes the certificate was served in, by port."""
    return {served.get("port"): served["count"] for served in shakes.document["handshakes"]["certificates"]}


each_server = pytest.mark.parametrize(
    ("server", "retry"),
    [
        (nginx_by_retry, "off"),
        (nginx_by_retry, "on"),
        (haproxy_by_retry, "off"),
        (haproxy_by_retry, "on"),
        (caddy_of, ""),
    ],
)


@each_server
def test_peers_over_quic_are_their_clients_own_addresses(certificates: Path, root: Path, server: Server, retry: str) -> None:
    """Of several that shake hands at once, whether their addresses are validated before or not, and of those that give up."""
    with (
        server(root, certificates, retry) as (pid, port),
        ExitStack() as opened,
        Shakes(pid, options=WHOLE) as shakes,
    ):
        clients = {peer: opened.enter_context(quic(root, certificates))[1] for peer in PEERS}
        first = learn(shakes, clients[PEERS[0]], f"1 0 fine {port} {PEERS[0]}")
        with ThreadPoolExecutor() as pool:
            for how in ("fine", "distrust"):
                lines = {peer: f"{TIMES} 0 {how} {port} {peer}" for peer in PEERS}
                assert len(list(pool.map(lambda peer: clients[peer](lines[peer]), PEERS))) == len(PEERS)  # noqa: B023
        wait_for(lambda: shakes.printed('"ending"') == first + 2 * TIMES * len(PEERS))
    assert endings(shakes.document)["success"] >= first + TIMES * len(PEERS)
    assert ends(shakes, first) == {(str(port), f"{peer}/32"): 2 * TIMES for peer in PEERS}
    assert served_at(shakes) == {None: first - 1, port: 1 + 2 * TIMES * len(PEERS)}
    assert losses(shakes.document) == {}
    if server is not caddy_of:  # goroutines' calls aren't split
        assert_books(shakes)


def test_peers_of_a_server_that_seldom_shakes_hands(certificates: Path, root: Path) -> None:
    """Where ports aren't asked for, as by default: its packets are watched for as long as it lives."""
    with (
        nginx_by_retry(root, certificates, "off") as (pid, port),
        quic(root, certificates) as (_, do),
        Shakes(pid, options=("--by", "peer", "--peer-prefix", "32,128")) as shakes,
    ):
        do(f"1 0 fine {port} {PEERS[0]}")
        time.sleep(QUIET_S)
        do(f"1 0 fine {port} {PEERS[1]}")
        wait_for(lambda: shakes.printed('"ending"') == 2)
    assert labels_of(shakes.singles, "peer") == [(None,), (f"{PEERS[1]}/32",)]


def test_peers_of_openssls_own_quic(certificates: Path, root: Path) -> None:
    """Each of whose handshakes has a listener of its own in this program."""
    with quic(root, certificates) as (pid, do), Shakes(pid, options=WHOLE) as shakes:
        first = learn(shakes, do, "1 0 fine")
        do(f"{TIMES} 0 fine")
        do(f"{TIMES} 0 protocol")
    found = labels_of(shakes.singles[first:], "port", "peer")
    assert {peer for _, peer in found[:TIMES]} == {"127.0.0.1/32"}
    assert None not in {port for port, _ in found[:TIMES]}
    assert endings(shakes.document) == {"success": first + TIMES, "failure": TIMES}
    assert_books(shakes)


def test_ports_of_one_process_over_ipv4_and_ipv6(certificates: Path, root: Path) -> None:
    """Each handshake has its own, and its peer of that family."""
    (other,) = free_ports(1)
    with (
        nginx_of(root, certificates, "ecdsa", "X25519", quic=f"listen [::1]:{other} quic;") as (master, port),
        quic(root, certificates) as (_, do),
        Shakes(master, options=WHOLE) as shakes,
    ):
        first = learn(shakes, do, f"1 0 fine {port}")
        do(f"{TIMES} 0 fine {port} {PEERS[1]}")
        do(f"{TIMES} 0 fine {other} ::1")
        wait_for(lambda: shakes.printed('"ending"') == first + 2 * TIMES)
    assert ends(shakes, first) == {(str(port), f"{PEERS[1]}/32"): TIMES, (str(other), "::1/128"): TIMES}
    assert_books(shakes)


@pytest.mark.parametrize("server", [nginx_by_retry, haproxy_by_retry])
def test_peers_over_quic_in_network_namespaces(certificates: Path, root: Path, server: Server) -> None:
    with Link() as link, ExitStack() as opened:
        with link.at_server():
            pid, port = opened.enter_context(server(root, certificates, "off"))
        with link.at_client():
            _, do = opened.enter_context(quic(root, certificates))
        with Shakes(pid, options=WHOLE) as shakes:
            first = learn(shakes, do, f"1 0 short {port}")
            do(f"{TIMES} 0 short {port}")
            wait_for(lambda: shakes.printed('"ending"') == first + TIMES)
    assert ends(shakes, first) == {(str(port), "10.199.0.2/32"): TIMES}
    assert_books(shakes)


@pytest.mark.parametrize("server", [nginx_by_retry, haproxy_by_retry])
def test_a_client_that_knows_anothers_ids_takes_no_handshake_over(certificates: Path, root: Path, server: Server) -> None:
    with (
        server(root, certificates, "off") as (pid, port),
        HostileRelay(port, RELAYS, HOSTILE) as relay,
        quic(root, certificates) as (_, do),
        Shakes(pid, options=WHOLE) as shakes,
    ):
        first = learn(shakes, do, f"1 0 short {port}")
        do(f"{TIMES} 0 short {relay.port}")
        wait_for(lambda: shakes.printed('"ending"') >= first + TIMES)
        time.sleep(0.2)
    assert relay.sent >= 2 * TIMES
    if server is haproxy_by_retry:
        assert relay.answered, "so that one of them could be taken for a handshake's"
    assert Counter(labels_of(shakes.ended("success")[first:], "port", "peer")) == {(str(port), f"{RELAYS}/32"): TIMES}
    assert {peer for _, peer in labels_of(shakes.singles, "port", "peer")} <= {None, "127.0.0.1/32", f"{RELAYS}/32"}
