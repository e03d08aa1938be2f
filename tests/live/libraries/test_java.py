# SPDX-License-Identifier: Apache-2.0
"""Java's own TLS, as the JVM's Flight Recorder tells of it: what clients did is counted exactly, and nothing is left behind.
No probe is set, so that these tests run where nothing can be traced."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests import schema
from tests.live.clients.accepting import accepting
from tests.live.clients.bad import unknown_ca
from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client
from tests.live.commands.trace import PROGRAM
from tests.live.servers import embedded
from tests.live.servers.nginx import Certificate, free_ports, make_certificate
from tests.programs import java_machines
from tests.waiting import wait_for

TIMES = 6
RUN_TIMES = java_machines()
PROGRAMS = Path(embedded.__file__).parent / "java"
SERVER, CLIENT = PROGRAMS / "JsseServer.java", PROGRAMS / "JsseClient.java"
OPTIONS = ("-Xmx128m", "-XX:TieredStopAtLevel=1")
TIMED = {"key exchange: key derived", "peer's certificates checked"}  # within a handshake, and not within each other
COMMAND = (str(PROGRAM), "handshakes", "--jfr", "--json", "-d", "60")


def listens(port: int) -> bool:
    with socket.socket() as peer:
        return peer.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def serving(java: Path, certificates: Path, *options: str) -> Iterator[tuple[int, int]]:
    """The server's PID and port."""
    pair, (port,) = make_certificate("ecdsa", certificates), free_ports(1)
    command = [java, *OPTIONS, *options, SERVER, pair.certificate, pair.key, str(port)]
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


@contextmanager
def closing_at_once(pair: Certificate) -> Iterator[int]:
    """A server of OpenSSL's that shakes hands with one client after another and closes; its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)

    def serve(connection: socket.socket) -> None:
        with suppress(OSError):
            context.wrap_socket(connection, server_side=True).unwrap()

    with accepting(serve) as port:
        yield port


@contextmanager
def connecting(java: Path, pair: Certificate, port: int) -> Iterator[subprocess.Popen[str]]:
    """The client, once it takes what it is asked."""
    command = [*map(str, (java, *OPTIONS, CLIENT, pair.certificate, port))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.terminate()


def asked(client: subprocess.Popen[str], line: str) -> list[str]:
    """What the client says to that."""
    assert client.stdin
    assert client.stdout
    client.stdin.write(f"{line}\n")
    client.stdin.flush()
    return client.stdout.readline().split()


@pytest.mark.parametrize("java", RUN_TIMES, ids=lambda java: java.parents[1].name)
def test_handshakes_of_clients_of_jsse_are_counted(java: Path, certificates: Path) -> None:
    pair = make_certificate("ecdsa", certificates)
    with closing_at_once(pair) as port, connecting(java, pair, port) as client, recording(client.pid) as command:
        told = {version: [asked(client, f"{version} trusting") for _ in range(TIMES)] for version in VERSIONS}
        assert [asked(client, f"{version} doubting") for version in VERSIONS] == [["failed"], ["failed"]]
        command.send_signal(signal.SIGINT)
        text, _ = command.communicate()
        assert command.returncode == 0
    assert {said[0] for said in told["TLSv1.2"]} == {"TLSv1.2"}
    assert {said[0] for said in told["TLSv1.3"]} == {"TLSv1.3"}
    [recorded] = json.loads(text)["flight_recordings"]
    assert {row["version"]: row["count"] for row in recorded["negotiated"]} == dict.fromkeys(VERSIONS, TIMES)
    if recorded["methods"] is not None:
        check_methods_of_a_client(recorded, sum(int(said[1]) * 1000 for rows in told.values() for said in rows))


def check_methods_of_a_client(told: dict[str, Any], waited_ns: int) -> None:
    """What only a client does, without checks that end by an exception; `waited_ns`: what its handshakes took by its clock."""
    counts, spent_ns = Counter[str](), 0
    for method in told["methods"]:
        counts[method["step"]] += method["count"]
        if method["step"] in TIMED:
            spent_ns += method["count"] * (method["mean_ns"] or 0)
    assert (counts["client: TLS 1.3 completed"], counts["client: TLS 1.2 completed"]) == (TIMES, TIMES)
    assert counts["peer's certificates checked"] == 2 * TIMES
    assert counts["key exchange: key derived"] == 2 * TIMES + 1  # the one who doubts the certificate comes to it in TLS 1.3
    assert not any(count for step, count in counts.items() if step.startswith(("server", "private key")))
    assert 0 < spent_ns < waited_ns
    assert sum(row["count"] for row in told["thrown"]) == len(VERSIONS)
    assert all("PKIX path building failed" in row["message"] for row in told["thrown"])
