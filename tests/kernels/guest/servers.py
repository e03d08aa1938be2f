# SPDX-License-Identifier: Apache-2.0
"""The guest's nginx, connections to it whose calls are known, and the commands that count them."""

from __future__ import annotations

import functools
import json
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ssllatency.engines.bpf import kernel
from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client, server_calls
from tests.live.commands import snoop, trace
from tests.live.commands.snoop import Snoop
from tests.live.commands.trace import Document, Trace, counts, losses
from tests.live.servers.nginx import Nginx, Settings, make_certificate

CONNECTIONS = tuple((key, version) for key in ("rsa", "ecdsa") for version in (TLS_1_2, TLS_1_3))
TIMES = 5
TRIES = 3  # while an emulated processor is held up by its host, a look may see that more was paid than there was to pay
SETTINGS = Settings(curve="X25519")  # OpenSSL 3.5's default is a hybrid group, of whose key exchange there are more calls


def allow_more_time() -> None:
    """Gives the commands, and the tests that wait for them, the time that an emulated processor takes."""
    trace.PROGRAM = snoop.PROGRAM = Path(__file__).with_name("ssllatency")
    trace.ATTACH_TIMEOUT_S = snoop.ATTACH_TIMEOUT_S = 520.0
    trace.STOP_TIMEOUT_S = snoop.STOP_TIMEOUT_S = 150.0


@functools.cache
def certificates() -> Path:
    """The folder of the certificates, made once."""
    folder = Path(tempfile.mkdtemp(prefix="certificates-"))
    folder.chmod(0o755)
    for kind in ("rsa", "ecdsa"):
        make_certificate(kind, folder)
    return folder


@functools.cache
def server() -> Nginx:
    """The nginx that most checks share. It ends with the guest."""
    return Nginx(certificates(), SETTINGS).__enter__()


def connect(to: Nginx, times: int = TIMES) -> dict[str, int]:
    """So many connections with each key and version of the protocol; the calls that the server must have made for them."""
    expected: Counter[str] = Counter()
    for key, version in CONNECTIONS:
        expected.update(server_calls(Client(to.port[key], version).connect_times(times), key))
    to.wait_idle()
    return dict(expected)


def assert_same(counted: Mapping[str, int], expected: Mapping[str, int]) -> dict[str, Any]:
    """That what was counted is what must be; the facts for the result."""
    wrong = {name: (counted.get(name, 0), number) for name, number in expected.items() if counted.get(name, 0) != number}
    assert not wrong, f"counted and expected differ: {wrong}"
    return {"handshakes": expected["SSL_do_handshake"]}


def assert_document(document: Document, expected: Mapping[str, int], late: int = 0) -> dict[str, Any]:
    """That a trace counted all of this, lost nothing and left nothing under way. So many processes may have mapped a library
    before it was traced, which a trace must say."""
    lost = losses(document)
    assert lost.pop("late_processes", 0) <= late, "more processes came late"
    assert lost == {}, f"lost: {lost}"
    assert document["in_flight"] == 0
    return assert_same(counts(document, list(expected)), expected)


class Handshakes(Trace):
    """`ssllatency handshakes`, whose document is another."""

    SUBCOMMAND = "handshakes"

    @property
    def successful(self) -> int:
        groups = self.document["handshakes"]["groups"]
        return sum(group["parts"]["wall"]["count"] for group in groups if group["ending"] == "success")


def traced(*options: str) -> dict[str, Any]:
    """A trace of the shared server with these options counts exactly."""
    nginx = server()
    with Trace(nginx.master_pid, options=options) as command:
        expected = connect(nginx)
    return assert_document(command.document, expected)


def handshakes(*options: str) -> dict[str, Any]:
    """`ssllatency handshakes` on the shared server counts each, and knows when the clients' bytes arrived."""
    nginx = server()
    with Handshakes(nginx.master_pid, options=options) as command:
        expected = connect(nginx)
    assert losses(command.document) == {}, f"lost: {losses(command.document)}"
    parts = {part for group in command.document["handshakes"]["groups"] for part in group["parts"]}
    assert {"wait_peer", "queue_server", "queue_start"} <= parts, f"when bytes arrived isn't known: {sorted(parts)}"
    assert "wait_peer_or_server" not in parts
    return assert_same({"SSL_do_handshake": command.successful}, {"SSL_do_handshake": expected["SSL_do_handshake"]})


def handshakes_of_whom() -> dict[str, Any]:
    """With every switch of threads, and each handshake's listener and peer: clients here are on the loopback network."""
    nginx = server()
    with Handshakes(nginx.master_pid, options=("--by", "sni,alpn,port,peer")) as command:
        expected = connect(nginx)
    assert losses(command.document) == {}, f"lost: {losses(command.document)}"
    groups = command.document["handshakes"]["groups"]
    whom = {(group["labels"]["port"], group["labels"]["peer"]) for group in groups}
    assert whom == {(str(port), "127.0.0.0/24") for port in nginx.port.values()}, f"from {whom}"
    return assert_same({"SSL_do_handshake": command.successful}, {"SSL_do_handshake": expected["SSL_do_handshake"]})


def within_budget() -> dict[str, Any]:
    """At a budget that the load stays below all is counted. At one that nothing stays below, reads and writes go first:
    into windows where this kernel can, else they are given up, which the report says; handshakes are counted on as long."""
    nginx = server()
    for _ in range(TRIES):
        # With links of its own, as the clients have the library as well, whose own budget is 3 % at most.
        with Trace(nginx.master_pid, options=("--budget", "99.99%", "--links", "process")) as command:
            expected = connect(nginx)
        if "sampling" not in command.document:
            break
    assert "sampling" not in command.document, f"{command.document['sampling']} at a cost of {command.document['cost']}"
    facts = assert_document(command.document, expected)
    sampled: set[str] = set()
    for _ in range(TRIES):  # on a busy machine it may look only once the load is over
        with Trace(nginx.master_pid, options=("--budget", "0.000001%")) as command:
            connect(nginx)
            time.sleep(1)
        sampled = {function for part in command.document.get("sampling", ()) for function in part["functions"]}
        if sampled:
            break
    assert sampled, "nothing went into windows or was given up"
    given_up = any("was given up" in note for note in command.document["notes"])
    assert given_up is (kernel.best_method() is kernel.Method.PERF), f"given up: {given_up}"
    with Handshakes(nginx.master_pid, options=("--budget", "0.000001%")) as command:
        first = connect(nginx)
        time.sleep(1)
        second = connect(nginx)
    groups = command.document["handshakes"]["groups"]
    unphased = sum(group["facts"].get("unphased", 0) for group in groups)
    assert command.successful == first["SSL_do_handshake"] + second["SSL_do_handshake"]
    assert unphased > 0, "phases were watched all the time"
    assert losses(command.document) == {}, f"lost: {losses(command.document)}"
    return {**facts, "given up": given_up, "unphased": unphased}


def recorded() -> dict[str, Any]:
    """`ssllatency record` of the shared server, rendered by `report`, counts exactly."""
    nginx = server()
    with tempfile.TemporaryDirectory() as folder:
        kept = str(Path(folder, "kept.jsonl"))
        with Record(nginx.master_pid, options=("-i", "1", "-o", kept)):
            expected = connect(nginx)
        command = [trace.PROGRAM, "report", kept, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return assert_document(json.loads(done.stdout), expected)


class Record(Trace):
    """`ssllatency record`, which writes a file and prints nothing."""

    SUBCOMMAND = "record"

    def __init__(self, *pids: int, options: tuple[str, ...] = ()) -> None:
        super().__init__(*pids, options=options)
        self._command.remove("--json")

    def _keep(self, text: str) -> None:
        assert text == "", f"it printed: {text}"


def snooped() -> dict[str, Any]:
    """`ssllatency snoop` on the shared server prints each call, none is dropped, and each handshake's end says whose it was."""
    nginx = server()
    with Snoop(nginx.master_pid, options=("--json", "--by", "sni,port,peer")) as command:
        expected = connect(nginx)
    ends = [call["labels"] for call in command.calls() if "labels" in call]
    whom = {(labels["sni"], labels["port"], labels["peer"]) for labels in ends}
    assert whom == {("none", str(port), "127.0.0.0/24") for port in nginx.port.values()}, f"from {whom}"
    assert len(ends) == expected["SSL_do_handshake"], f"{len(ends)} of them"
    dropped = [line for line in command.lines() if "dropped" in line]
    assert not dropped, f"dropped: {dropped}"
    return assert_same(Counter(call["function"] for call in command.calls() if call["outcome"] == "success"), expected)
