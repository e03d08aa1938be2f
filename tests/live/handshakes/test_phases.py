# SPDX-License-Identifier: Apache-2.0
"""What is planted in one phase is in that phase, and not in the rest of the calls; beside it, the same without it."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import foreign
from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client, s_client
from tests.live.commands.handshakes import Shake, Shakes, assert_books, endings, labels_of
from tests.live.servers.nginx import Certificate, Nginx, Settings, make_certificate

pytestmark = pytest.mark.usefixtures("tracing")
TIMES = 10
VERSIONS = pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3], ids=["1.2", "1.3"])


@pytest.fixture(params=["host", "debian 13"])
def root(request: pytest.FixtureRequest) -> Path | None:
    """Whose nginx and OpenSSL."""
    return None if request.param == "host" else foreign.needed(foreign.second_root()).resolve()


def least(singles: Sequence[Shake], part: str) -> float:
    """The shortest time of the part, which least of all was interrupted, ns; 0 where it is absent."""
    return min(single["parts_ns"].get(part, 0) for single in singles)


def test_the_check_of_the_clients_key_is_key_exchange(certificates: Path, root: Path | None) -> None:
    """OpenSSL 3.0 raises it to the power of the group's order, which takes longer than all else of such an exchange."""
    with Nginx(certificates, Settings(curve="X25519:ffdhe3072"), root) as server, Shakes(server.master_pid) as shakes:
        for group in ("X25519", "ffdhe3072"):
            for _ in range(TIMES):
                s_client(server.port["ecdsa"], "-tls1_3", "-groups", group)
        server.wait_idle()
    assert labels_of(shakes.singles, "group") == [("x25519",)] * TIMES + [("ffdhe3072",)] * TIMES
    control, large = shakes.singles[:TIMES], shakes.singles[TIMES:]
    added = {part: least(large, part) - least(control, part) for part in ("calls", "key_exchange")}
    assert added["key_exchange"] > 0.7 * added["calls"] > least(control, "calls")
    assert_books(shakes)


def bundled(pair: Certificate, others: Sequence[Certificate], path: Path) -> Certificate:
    """The pair, which sends the others' certificates after its own."""
    path.write_bytes(b"".join(each.certificate.read_bytes() for each in (pair, *others)))
    return Certificate(path, pair.key)


@VERSIONS
def test_reading_the_clients_certificates_is_peer_verification(
    certificates: Path, tmp_path: Path, root: Path | None, version: ssl.TLSVersion
) -> None:
    """Those that lead to no issuer are read all the same, and not looked at any more."""
    own = make_certificate("rsa", tmp_path)
    others = []
    for number in range(30):
        (tmp_path / f"{number}").mkdir()
        others.append(make_certificate("ecdsa", tmp_path / f"{number}"))
    many = bundled(own, others, tmp_path / "many.crt")
    settings = Settings(kinds=("ecdsa",), curve="X25519", client_ca=own.certificate)
    with Nginx(certificates, settings, root) as server, Shakes(server.master_pid) as shakes:
        for certificate in (own, many):
            client = Client(server.port["ecdsa"], version, certificate=certificate)
            for _ in range(TIMES):
                client.connect()
        server.wait_idle()
    assert set(labels_of(shakes.singles, "client_certificate")) == {("given",)}
    assert endings(shakes.document) == {"success": 2 * TIMES}
    control, large = shakes.singles[:TIMES], shakes.singles[TIMES:]
    added = {part: least(large, part) - least(control, part) for part in ("rest", "peer_verification")}
    assert added["peer_verification"] > added["rest"] / 2
    assert_books(shakes)
