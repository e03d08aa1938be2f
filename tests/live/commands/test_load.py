# SPDX-License-Identifier: Apache-2.0
"""`ssllatency load`: what each tool says it completed is what the server did, to the last connection."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.commands.handshakes import endings
from tests.live.commands.trace import PROGRAM, Document, count, losses
from tests.live.servers.nginx import Nginx, Settings

pytestmark = pytest.mark.usefixtures("tracing")

TIMEOUT_S = 60.0
SETTINGS = Settings(workers=2, reuseport=True, curve="X25519", session_cache="shared:sessions:4m")


@pytest.fixture(scope="module")
def server(certificates: Path) -> Iterator[Nginx]:
    with Nginx(certificates, SETTINGS) as server:
        yield server


def address(server: Nginx) -> str:
    return f"127.0.0.1:{server.port['ecdsa']}"


def url(server: Nginx) -> str:
    return f"https://{address(server)}/"


def loaded(server: Nginx, *words: str, status: int = 0) -> Document:
    """The document of one run, with the server's books in order."""
    done = subprocess.run([PROGRAM, "load", "--json", *words], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == status, done.stderr
    server.wait_idle()
    document: Document = json.loads(done.stdout)
    assert losses(document) == {}
    return document


def figures(document: Document) -> dict[str, float]:
    return {figure["name"]: figure["value"] for figure in document["client"]["figures"]}


def successes(document: Document) -> int:
    return endings(document).get("success", 0)


def resumed(document: Document) -> int:
    return int(document["handshakes"]["mix"].get("resumed", {}).get("yes", 0))


def said(document: Document, words: str) -> bool:
    return any(words in sentence for sentence in document["client"]["checks"])


@pytest.mark.smoke
def test_s_time_of_new_connections(server: Nginx) -> None:
    document = loaded(server, "s_time", "--", "-connect", address(server), "-www", "/", "-time", "1", "-new")
    assert figures(document)["connections"] == successes(document) > 0
    assert resumed(document) == figures(document)["resumed"] == 0
    assert said(document, "one for one")
    assert said(document, "never offered a session")


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_s_time_of_reused_connections(server: Nginx, version: str) -> None:
    """The one that makes the session isn't in s_time's count."""
    words = ("s_time", "-connect", address(server), "-www", "/", "-time", "1", "-reuse", version)
    document = loaded(server, *words)
    assert figures(document)["connections"] + 1 == successes(document)
    assert figures(document)["resumed"] == resumed(document) == successes(document) - 1
    assert said(document, "one for one")


def test_s_time_without_a_page_never_resumes_in_tls_1_3(server: Nginx) -> None:
    """It makes new connections first, then one for the session, then more that have none to offer."""
    document = loaded(server, "s_time", "-connect", address(server), "-time", "1", "-tls1_3")
    found = figures(document)
    assert found["connections (new)"] + 1 + found["connections (reused)"] == successes(document)
    assert resumed(document) == found["resumed (reused)"] == 0
    assert said(document, "None resumed a session: s_time got none from the server, or")


def test_h2load_with_kept_connections(server: Nginx) -> None:
    document = loaded(server, "h2load", "--h1", "-n", "200", "-c", "10", "-t", "2", url(server))
    assert figures(document)["succeeded"] == 200
    assert successes(document) == 10
    assert said(document, "was made once")


def test_h2load_with_a_connection_a_request(server: Nginx) -> None:
    document = loaded(server, "h2load", "--h1", "-H", "Connection: close", "-n", "200", "-c", "10", url(server))
    assert figures(document)["succeeded"] == successes(document) == 200
    assert resumed(document) == 190  # each client's first is full
    assert said(document, "one for one")


def test_ab_begins_more_than_it_needs(server: Nginx) -> None:
    """Where several run at a time, it has begun others when it has enough."""
    document = loaded(server, "ab", "-n", "200", "-c", "10", url(server))
    assert figures(document)["requests"] == 200
    assert figures(document)["failed"] == 0
    assert 200 <= successes(document) <= 210
    assert resumed(document) == 0
    assert said(document, "agree with ab's connections, 200 to 210")


def test_ab_with_kept_connections(server: Nginx) -> None:
    document = loaded(server, "ab", "-k", "-n", "200", "-c", "10", url(server))
    assert figures(document)["kept alive"] == 200
    assert successes(document) == 10


def test_wrk_with_kept_connections(server: Nginx) -> None:
    """It makes as many connections as all its threads can have in equal parts."""
    document = loaded(server, "wrk", "-t2", "-c5", "-d1s", url(server))
    assert figures(document)["requests"] > 0
    assert successes(document) == 4
    assert document["client"]["connections"]["least"] == 4


def test_wrk_with_a_connection_a_request(server: Nginx) -> None:
    """At the end of its time each of its connections may be on the way once more."""
    document = loaded(server, "wrk", "-t1", "-c4", "-d1s", "-H", "Connection: close", url(server))
    requests = figures(document)["requests"]
    assert requests <= successes(document) <= requests + 4
    assert resumed(document) == successes(document) - 4
    assert said(document, "wrk's latency holds none of the server's handshake")


def test_functions_as_well_and_a_server_by_its_pid(server: Nginx) -> None:
    words = ("-p", str(server.master_pid), "--functions", "--by", "resumed")
    document = loaded(server, *words, "h2load", "--h1", "-n", "20", "-c", "20", url(server))
    assert successes(document) == count(document, "SSL_do_handshake") == 20
    assert document["handshakes"]["by"] == ["resumed"]
    rows = [*document["functions"], *(part for group in document["handshakes"]["groups"] for part in group["parts"].values())]
    assert all(0 < row["min_ns"] <= row["total_ns"] / row["count"] <= row["max_ns"] for row in rows if row["total_ns"])


def test_a_tool_that_fails(server: Nginx) -> None:
    """Its exit status is told of; what the server saw is there."""
    words = ("s_time", "-connect", address(server), "-time", "1", "-new", "-tls1_2", "-cipher", "AES128-SHA")
    document = loaded(server, *words, status=1)
    assert endings(document) == {"failure": 1}
    assert [cause["reason"] for cause in document["handshakes"]["causes"]] == ["no shared cipher"]
    assert figures(document)["connections"] == 0
    assert said(document, "1 handshake didn't succeed")


def test_ctrl_c_ends_the_tool_and_prints_both_sides(server: Nginx, tmp_path: Path) -> None:
    kept = tmp_path / "both.json"
    command = [PROGRAM, "load", "--json", "wrk", "-t1", "-c4", "-d600s", url(server)]
    with kept.open("w") as file, subprocess.Popen(command, stdout=file, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        while not process.stderr.readline().startswith("Tracing"):
            assert process.poll() is None
        while server.status().active < 4:
            assert process.poll() is None
        time.sleep(0.5)  # so that each has shaken hands
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 0
    server.wait_idle()
    document = json.loads(kept.read_text())
    assert successes(document) == 4
    assert "elapsed" in figures(document)
    text = subprocess.run([PROGRAM, "report", kept], capture_output=True, text=True, timeout=TIMEOUT_S, check=True).stdout
    assert text.startswith("Client: wrk ")
    assert text.index("4 handshakes in ") < text.index("Both sides:")
