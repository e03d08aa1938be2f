# SPDX-License-Identifier: Apache-2.0
"""Servers that allow early data. They go on to the application before the client's Finished has come, and yet the handshake is
over only with it: what their clients count as made is what counts as a success."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from tests import foreign
from tests.live.clients import bad
from tests.live.clients.counted import TLS_1_3, Client
from tests.live.clients.slow import slow
from tests.live.commands.handshakes import Shakes, assert_books, endings
from tests.live.servers.debian import haproxy
from tests.live.servers.nginx import Nginx, Settings, make_certificate

pytestmark = pytest.mark.usefixtures("tracing")
TIMES, GOOD = 12, 5
EARLY = Settings(kinds=("rsa",), directives="ssl_early_data on;")


@pytest.fixture(params=["host", "debian 13"])
def root(request: pytest.FixtureRequest) -> Path | None:
    """Whose nginx and OpenSSL."""
    return None if request.param == "host" else foreign.needed(foreign.second_root()).resolve()


def half(port: int) -> None:
    """A ClientHello; once the server has answered it, the end."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(bad.hello(TLS_1_3))
        assert connection.recv(65536)


def test_certificates_that_are_missing_or_turned_down(certificates: Path, tmp_path: Path) -> None:
    """haproxy learns of them in the client's last flight, and by then has long been told that it may read early data."""
    own, strange = make_certificate("rsa", tmp_path), make_certificate("ecdsa", certificates)
    words = f"allow-0rtt ca-file {own.certificate} verify required"
    with haproxy(make_certificate("rsa", certificates), words) as server, Shakes(server.pid) as shakes:
        for _ in range(TIMES):
            assert bad.no_certificate(TLS_1_3, server.port) == "TLSV13_ALERT_CERTIFICATE_REQUIRED"
            bad.stranger(strange, server.port)
        made = Client(server.port, TLS_1_3, certificate=own).connect_times(GOOD)
    assert len(made) == GOOD
    assert endings(shakes.document) == {"success": GOOD, "failure": 2 * TIMES}
    causes = shakes.document["handshakes"]["causes"]
    assert {(cause["reason"], cause["alert"]): cause["count"] for cause in causes} == {
        ("peer did not return a certificate", "certificate required"): TIMES,
        ("certificate verify failed", "unknown CA"): TIMES,
    }
    assert_books(shakes)


def test_half_handshakes_and_waits_for_the_peer(certificates: Path, root: Path | None) -> None:
    with Nginx(certificates, EARLY, root) as server, Shakes(server.master_pid) as shakes:
        port = server.port["rsa"]
        for _ in range(TIMES):
            half(port)
        answers = [slow(TLS_1_3, port) for _ in range(GOOD)]
        server.wait_idle()
    assert all(b" 200 OK" in answer for answer in answers)
    assert endings(shakes.document) == {"success": GOOD, "abandoned": TIMES}
    assert all(single["parts_ns"]["wait_peer"] > single["parts_ns"]["calls"] for single in shakes.ended("success"))
    assert_books(shakes)


ASKED = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
ASKED_LAST = "GET / HTTP/1.0\r\n\r\n"


def test_data_that_comes_early(certificates: Path, tmp_path: Path, root: Path | None) -> None:
    """s_client says for each resumed connection whether its data was taken."""
    data = tmp_path / "data"
    data.write_text(ASKED)
    with Nginx(certificates, EARLY, root) as server, Shakes(server.master_pid) as shakes:
        texts = resumed_early(server, tmp_path / "session", data)
        server.wait_idle()
    assert [text.count("200 OK") for text in texts] == [1, *[2] * GOOD]
    assert endings(shakes.document) == {"success": 1 + GOOD}
    assert [single["labels"]["resumed"] for single in shakes.singles] == ["no", *["yes"] * GOOD]
    assert_books(shakes)


def test_a_server_that_answers_early_data_and_closes(certificates: Path, tmp_path: Path, root: Path | None) -> None:
    """It never looks for the client's Finished, so its handshake is given up; the state says where."""
    data = tmp_path / "data"
    data.write_text(ASKED_LAST)
    with Nginx(certificates, EARLY, root) as server, Shakes(server.master_pid) as shakes:
        texts = resumed_early(server, tmp_path / "session", data)
        server.wait_idle()
    assert [text.count("200 OK") for text in texts] == [1] * (1 + GOOD)
    (cause,) = shakes.document["handshakes"]["causes"]
    assert (cause["ending"], cause["reason"], cause["state"]) == ("abandoned", "freed", "TLSv1.3, before the client's Finished")
    assert endings(shakes.document) == {"success": 1 + GOOD - cause["count"], "abandoned": cause["count"]}
    assert_books(shakes)


def resumed_early(server: Nginx, session: Path, data: Path) -> list[str]:
    """What s_client printed of a connection, and of GOOD that resume it, each of them with early data."""

    def ask(*options: str) -> str:
        command = ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port['rsa']}", "-ign_eof", "-tls1_3", *options]
        done = subprocess.run(command, input=ASKED_LAST, capture_output=True, text=True, timeout=20, check=False)
        assert ("Early data was accepted" in done.stdout) == ("-early_data" in options)
        return done.stdout

    kept = ("-sess_out", str(session))
    return [ask(*kept), *(ask("-sess_in", str(session), *kept, "-early_data", str(data)) for _ in range(GOOD))]
