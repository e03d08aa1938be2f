# SPDX-License-Identifier: Apache-2.0
"""Programs that have all of wolfSSL built in, with its symbols: calls and handshakes of either side are as they tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.clients import bad
from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client
from tests.live.commands.handshakes import Shakes, assert_books, endings, labels_of
from tests.live.commands.trace import Trace, losses
from tests.live.servers.nginx import make_certificate
from tests.live.servers.python_ssl import TlsServer, TlsSettings
from tests.live.stacks.wolfssl_programs import wolfssl_client, wolfssl_server

pytestmark = pytest.mark.usefixtures("tracing")
TIMES, REQUESTS = 3, 2


def test_calls_and_handshakes_of_programs_with_wolfssl_built_in(tmp_path: Path) -> None:
    pair, versions = make_certificate("ecdsa", tmp_path), (TLS_1_2, TLS_1_3)
    with (
        TlsServer(tmp_path, TlsSettings("ecdsa")) as peer,
        wolfssl_server(pair, tmp_path, built_in=True) as server,
        wolfssl_client(pair, pair.certificate, peer.port, tmp_path, "nonblocking", built_in=True) as client,
    ):
        pids = (server.pid, client.pid)
        with (
            Trace(*pids, options=("--role", "any", "--by-process")) as trace,
            Shakes(*pids, options=("--role", "any", "--by", "version,role,port")) as shakes,
        ):
            for version in versions:
                for _ in range(TIMES):
                    Client(server.port, version).connect(requests=REQUESTS)
            bad.nonsense(server.port)
            told = client.connect(TIMES)
            served = server.told(TIMES * len(versions) + 1)
        assert peer.ends() == {"": TIMES}
    assert [words[0] for words in served] == [*["success"] * TIMES * len(versions), "failure"]
    rows = trace.document["functions"]
    calls = {(row["pid"], row["function"], row["outcome"]): row["count"] for row in rows}
    assert calls[server.pid, "wolfSSL_accept", "success"] == TIMES * len(versions)
    assert calls[server.pid, "wolfSSL_accept", "failure"] == 1
    assert calls[server.pid, "wolfSSL_read", "success"] == TIMES * len(versions) * REQUESTS
    assert calls[client.pid, "wolfSSL_connect", "success"] == TIMES
    assert calls.get((client.pid, "wolfSSL_connect", "retry"), 0) == sum(int(words[4]) for words in told)
    assert losses(trace.document) == {}
    assert endings(shakes.document) == {"success": TIMES * (len(versions) + 1), "failure": 1}
    of_server = [single for single in shakes.ended("success") if single["pid"] == server.pid]
    assert labels_of(of_server, "version", "role", "port") == [
        (words[1], "server", str(server.port)) for words in served if words[0] == "success"
    ]
    assert all(single["parts_ns"]["private_key"] > 0 for single in of_server)
    of_client = [single for single in shakes.singles if single["pid"] == client.pid]
    assert labels_of(of_client, "version", "role", "port") == [("TLSv1.3", "client", str(peer.port))] * TIMES
    assert all(single["parts_ns"]["peer_verification"] > 0 for single in of_client)
    assert_books(shakes)
