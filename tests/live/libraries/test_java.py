# SPDX-License-Identifier: Apache-2.0
"""Java's own TLS, as the JVM's Flight Recorder tells of it: what clients did is counted exactly, and nothing is left behind.
No probe is set, so that these tests run where nothing can be traced."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import schema
from tests.live.clients.bad import unknown_ca
from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client
from tests.live.commands.trace import PROGRAM
from tests.live.servers import embedded
from tests.live.servers.nginx import free_ports, make_certificate
from tests.waiting import wait_for

TIMES = 6
RUN_TIMES = sorted({java.resolve() for java in Path("/usr/lib/jvm").glob("*/bin/java")})  # where Debian installs each
SERVER = Path(embedded.__file__).parent / "java" / "JsseServer.java"
COMMAND = (str(PROGRAM), "handshakes", "--jfr", "--json", "-d", "60")


def listens(port: int) -> bool:
    with socket.socket() as peer:
        return peer.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def serving(java: Path, certificates: Path, *options: str) -> Iterator[tuple[int, int]]:
    """The server's PID and port."""
    pair, (port,) = make_certificate("ecdsa", certificates), free_ports(1)
    command = [java, "-Xmx128m", "-XX:TieredStopAtLevel=1", *options, SERVER, pair.certificate, pair.key, str(port)]
    with subprocess.Popen([*map(str, command)]) as process:
        try:
            wait_for(lambda: listens(port))
            yield process.pid, port
        finally:
            process.terminate()  # so that it removes its own files


@contextmanager
def recording(pid: int) -> Iterator[subprocess.Popen[str]]:
    """The command, from when the JVM records."""
    with subprocess.Popen([*COMMAND, "-p", str(pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as command:
        assert command.stderr
        assert "Recording" in command.stderr.readline()
        yield command


def left_behind() -> set[str]:
    folder = Path("/tmp")
    return {file.name for pattern in ("ssllatency-*.jfr", ".attach_pid*") for file in folder.glob(pattern)}


def refused(port: int) -> None:
    """A client that has no cipher suite in common with the server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = TLS_1_2
    context.set_ciphers("AES128-CCM8")
    with socket.create_connection(("127.0.0.1", port)) as plain, pytest.raises((ssl.SSLError, OSError)):
        context.wrap_socket(plain)


@pytest.mark.parametrize("java", RUN_TIMES, ids=lambda java: java.parents[1].name)
def test_handshakes_of_jsse_are_counted(java: Path, certificates: Path) -> None:
    before = left_behind()
    with serving(java, certificates) as (pid, port), recording(pid) as command:
        Client(port, TLS_1_3).connect_times(TIMES)
        client, session = Client(port, TLS_1_2), None
        for _ in range(TIMES):
            session = client.connect(session=session).session
        unknown_ca(port)
        refused(port)
        command.send_signal(signal.SIGINT)
        text, _ = command.communicate()
        assert command.returncode == 0
        assert recordings_of(java, pid) == ""
        assert left_behind() == before
    document = json.loads(text)
    schema.check(document)
    [told] = document["flight_recordings"]
    by_version = {version: sum(row["count"] for row in told["negotiated"] if row["version"] == version) for version in VERSIONS}
    assert by_version == {"TLSv1.2": TIMES - 1, "TLSv1.3": TIMES}
    assert (told["pid"], told["peers"], told["lost_bytes"], told["cut"]) == (pid, 1, 0, False)
    check_methods(told)


VERSIONS = ("TLSv1.2", "TLSv1.3")


def recordings_of(java: Path, pid: int) -> str:
    """What of ours the JVM says that it records."""
    answer = subprocess.run([java.with_name("jcmd"), str(pid), "JFR.check"], capture_output=True, text=True, check=True)
    return "".join(line for line in answer.stdout.splitlines() if "ssllatency" in line)


def check_methods(told: dict[str, Any]) -> None:
    """JDK 25 and later time methods: those of failures are told as well."""
    if int(told["release"].split(".")[0]) < 25:
        assert told["methods"] is told["thrown"] is None
        return
    counts = {method["step"]: method["count"] for method in told["methods"]}
    assert counts["private key: TLS 1.3 signature"] == TIMES + 1
    assert counts["private key: TLS 1.2 key exchange signed"] == 1
    assert (counts["server: TLS 1.3 completed"], counts["server: TLS 1.2 completed"]) == (TIMES, TIMES)
    assert all(method["mean_ns"] > 0 for method in told["methods"] if method["count"])
    assert sum(row["count"] for row in told["thrown"]) == 2
    assert any("no cipher suites in common" in row["message"] for row in told["thrown"])


@pytest.mark.parametrize("java", RUN_TIMES[:1], ids=lambda java: java.parents[1].name)
def test_a_command_that_is_killed_leaves_no_recording(java: Path, certificates: Path) -> None:
    before = left_behind()
    with serving(java, certificates) as (pid, _):
        with recording(pid) as command:
            command.kill()
        wait_for(lambda: recordings_of(java, pid) == "" and left_behind() == before)
