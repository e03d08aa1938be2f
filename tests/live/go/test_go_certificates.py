# SPDX-License-Identifier: Apache-2.0
"""Certificates that servers of Go serve, held against the files that they were given."""

from __future__ import annotations

import ssl
from collections import Counter
from pathlib import Path

import pytest

from tests.live.clients import bad
from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client
from tests.live.commands.handshakes import Shakes, labels_of
from tests.live.go.servers import caddy
from tests.live.go.test_go_servers import CADDIES
from tests.live.servers.named_certificates import bytes_of, certify, make_named_certificate
from tests.live.servers.nginx import Certificate
from tests.machine import needs_architecture

pytestmark = pytest.mark.usefixtures("tracing")

NEXT_TO_IT = ("port", "chain", "chain_bytes", "count", "unsuccessful")


def connect_twice(port: int, version: ssl.TLSVersion) -> None:
    """A full handshake, and one that resumes its session."""
    client = Client(port, version)
    assert client.connect(session=client.connect().session).resumed


@pytest.mark.smoke
@pytest.mark.parametrize("release", CADDIES)
@pytest.mark.parametrize("chain", [0, 2])
def test_the_certificate_that_caddy_was_given(release: str, chain: int, tmp_path: Path) -> None:
    needs_architecture("x86_64", "as these programs of Debian are")
    others = [make_named_certificate("RSA-4096", tmp_path, f"authority{number}", 400) for number in range(chain)]
    facts = certify(tmp_path, "localhost", "RSA-2048", 12, *others)
    pair = Certificate(tmp_path / "localhost.crt", tmp_path / "localhost.key")
    with caddy(release, pair) as server, Shakes(server.pid) as shakes:
        for version in (TLS_1_2, TLS_1_3):
            connect_twice(server.port, version)
        bad.old_version(server.port)
        bad.unknown_ca(server.port)
    [one] = shakes.document["handshakes"]["certificates"]
    assert [one.get(name) for name in NEXT_TO_IT] == [server.port, chain, bytes_of(pair.certificate), 3, 1]
    assert Counter(labels_of(shakes.ended("success"), "resumed")) == {("yes",): 2, ("no",): 2}
    assert {**facts, "key": "RSA-2048", "issued_by": "itself", "names": 0}.items() <= one["certificate"].items()
    assert shakes.document["handshakes"]["certificates_untold"] == 0
