# SPDX-License-Identifier: Apache-2.0
"""The servers and clients of the live tests do what they say; this needs neither root nor a trace."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from ssl import TLSVersion

import pytest

from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client, ClientError, h2load, s_client, s_time, server_calls, wrk
from tests.live.servers.nginx import Nginx, ServerError, Settings, body_length


def test_a_connection_is_seen_to_its_end(certificates: Path) -> None:
    with Nginx(certificates, Settings(exact=(200, 256))) as server:
        exchange = Client(server.port["rsa"], TLS_1_2).connect(requests=3, path="/256", request_size=256)
        assert [len(response) for response in exchange.responses] == [256, 256, 256]
        assert server.wait_idle().handled == 1


@pytest.mark.parametrize("tickets", [True, False], ids=["ticket", "cache"])
@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3], ids=attrgetter("name"))
def test_sessions_are_resumed(certificates: Path, version: TLSVersion, tickets: bool) -> None:
    settings = Settings(tickets=tickets, session_cache="off" if tickets else "shared:sessions:1m", workers=2)
    with Nginx(certificates, settings) as server:
        client = Client(server.port["ecdsa"], version)
        first = client.connect()
        later = client.connect_times(5, session=first.session)
        assert [exchange.resumed for exchange in [first, *later]] == [False] + [True] * 5
        assert server_calls([first, *later], "ecdsa")["ossl_ecdsa_sign"] == 1


def test_load_generators_count_what_nginx_counts(certificates: Path) -> None:
    with Nginx(certificates, Settings(workers=2)) as server:
        port = server.port["ecdsa"]
        completed = h2load(port, 500, parallel=20)
        assert server.wait_idle().handled == completed == 500
        completed += s_time(port, 1, "-tls1_3")
        completed += s_time(port, 1, "-tls1_2", resume=True)
        assert server.wait_idle().handled == completed
        assert "Cipher    : AES128-GCM-SHA256" in s_client(server.port["rsa"], "-tls1_2", "-cipher", "AES128-GCM-SHA256")
        assert wrk(port, 1).requests > 0


def test_the_workers_and_the_directory_go_with_the_server(certificates: Path) -> None:
    with Nginx(certificates, Settings(workers=8)) as server:
        workers = server.worker_pids()
        assert len(workers) == 8
        directory = server.directory
        assert directory.exists()
    assert not any(Path(f"/proc/{pid}").exists() for pid in [server.master_pid, *workers])
    assert not directory.exists()


def test_a_server_that_cannot_start_says_why(certificates: Path) -> None:
    with pytest.raises(ServerError, match="no_such_curve"), Nginx(certificates, Settings(curve="no_such_curve")):
        pass


def test_what_cannot_be_asked_for_is_refused(certificates: Path) -> None:
    with pytest.raises(ValueError, match="exactly 20 bytes"):
        body_length(20)
    with Nginx(certificates) as server, pytest.raises(ClientError, match="more than 30 bytes"):
        Client(server.port["rsa"], TLS_1_3).connect(request_size=30)
