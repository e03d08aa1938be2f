# SPDX-License-Identifier: Apache-2.0
"""A stack is two folders and a line in each list: of a copy that has one for a made-up library, which returns 0 or a negative
code, calls are judged by its own header, its handshakes followed and labelled."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import programs
from tests.fixtures import made_up
from tests.live.commands import snoop, trace
from tests.live.commands.handshakes import Shakes, endings, labels_of
from tests.live.commands.snoop import Snoop
from tests.live.commands.trace import Trace, count, losses, reasons

pytestmark = pytest.mark.usefixtures("tracing")
TIMES = 20


@dataclass
class Server:
    """The program that calls the library."""

    process: subprocess.Popen[str]

    @property
    def pid(self) -> int:
        return self.process.pid

    def call(self) -> None:
        """Has it make the calls of TIMES connections that succeed, and of as many that fail."""
        assert self.process.stdin
        self.process.stdin.write(f"{TIMES}\n")
        self.process.stdin.flush()
        self.wait()

    def wait(self) -> None:
        assert self.process.stdout
        assert self.process.stdout.readline() == "ready\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    programs.needed("gcc", "clang", "make", "bpftool")
    made = tmp_path_factory.mktemp("made-up")
    made_up.package(made)
    made_up.compile_kernel_side(made)
    made_up.server(made)
    return made


@pytest.fixture(autouse=True)
def its_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (trace, snoop):
        monkeypatch.setattr(module, "PROGRAM", made_up.command(folder))


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    with subprocess.Popen([folder / "server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        started = Server(process)
        started.wait()
        yield started
        process.kill()


def test_its_calls_are_counted_by_what_they_return(server: Server) -> None:
    with Trace(server.pid) as traced:
        server.call()
    document = traced.document
    shakes = {outcome: count(document, "madeup_handshake", outcome) for outcome in ("success", "failure", "retry")}
    assert shakes == {"success": TIMES, "failure": TIMES, "retry": 3 * TIMES}
    assert reasons(document, "madeup_handshake", "retry") == {"WANT_READ": 2 * TIMES, "WANT_CLIENT_HELLO_CB": TIMES}
    reads = {outcome: count(document, "madeup_read", outcome) for outcome in ("success", "closed", "failure")}
    assert reads == {"success": TIMES, "closed": TIMES, "failure": 0}
    assert losses(document) == {}


def test_its_handshakes_are_followed_and_labelled(server: Server) -> None:
    with Shakes(server.pid) as shakes:
        server.call()
    assert endings(shakes.document) == {"success": TIMES, "failure": TIMES}
    assert labels_of(shakes.ended("success"), "version", "role") == [("TLSv1.3", "server")] * TIMES
    assert labels_of(shakes.ended("failure"), "version", "role") == [("TLSv1.2", "server")] * TIMES
    [cause] = shakes.document["handshakes"]["causes"]
    assert (cause["reason"], cause["count"]) == ("bad luck", TIMES)
    for single in shakes.ended("success"):  # what it waits for comes from its own header
        assert single["parts_ns"]["wait_application"] > 1_000_000
        assert single["parts_ns"]["private_key"] > 0


def test_its_calls_are_shown_one_by_one(server: Server) -> None:
    with Snoop(server.pid, options=("--json",)) as shown:
        server.call()
    events = [json.loads(line) for line in shown.output.splitlines()]
    told = Counter((event["function"], event["outcome"], event["returned"]) for event in events)
    assert told == {
        ("madeup_handshake", "retry", -28): 2 * TIMES,
        ("madeup_handshake", "retry", -29): TIMES,
        ("madeup_handshake", "success", 0): TIMES,
        ("madeup_handshake", "failure", -5): TIMES,
        ("madeup_read", "success", 8): TIMES,
        ("madeup_read", "closed", 0): TIMES,
    }
