# SPDX-License-Identifier: Apache-2.0
"""Go's crypto/tls: a program that is server and client at once, and counts its own calls. Its goroutines change threads, their
stacks grow, and some handshakes are left by a panic or runtime.Goexit."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.live.commands.snoop import Snoop
from tests.live.commands.trace import PROGRAM, Trace, count, losses
from tests.machine import leave_out

pytestmark = pytest.mark.usefixtures("tracing")

BUILT = Path(__file__).resolve().parents[3] / "build" / "go"
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
NEEDED = {"amd64": ("1.18.10-amd64", "1.27.3-amd64-pie"), "arm64": ("local-arm64",)}[ARCHITECTURE]
OTHERS = sorted({path.name.removesuffix(".made") for path in BUILT.glob(f"*-{ARCHITECTURE}*.made")} - {*NEEDED})
FUNCTIONS = ("serverHandshake", "clientHandshake", "Read", "Write", "Close")
OUTCOMES = ("success", "failure", "closed", "retry")
CONNECTIONS = 800  # an eighth of each kind of tests/go/counted.go, but twice as many that recover


def built(name: str) -> Path:
    """The program of that name."""
    path = BUILT / name
    if not path.is_file():
        missing = path.parent / f"{name}.missing"
        leave_out(missing.read_text().strip() if missing.is_file() else f"run tools/for-tests/setup-go {name}")
    return path


class GoProgram:
    """The program, which waits to be told to begin. `command`: what runs it, where that isn't the program itself."""

    def __init__(self, name: str, argument: str = str(CONNECTIONS), command: Sequence[str | Path] = ()) -> None:
        self._name, path = name, built(name)
        host = path.parent / f"{name}-host"  # of a library
        words = [*(command or ((host, path) if host.is_file() else (path,))), argument]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid
        assert self._process.stdout
        assert self._process.stdout.readline() == "ready\n"

    @property
    def keeps_group(self) -> bool:
        """Whether a connection keeps the group that it has agreed on: since Go 1.23."""
        return self._minor >= 23

    @property
    def _minor(self) -> int:
        version = self._name.split("-")[0]
        return 26 if version in ("local", "mode") else int(version.split(".")[1])

    def run(self) -> dict[str, Any]:
        """Has it make its connections, and ends it; what it counted."""
        said, _ = self._process.communicate("x", timeout=60)
        assert self._process.returncode == 0
        counted: dict[str, Any] = json.loads(said)
        return counted

    def kill(self) -> None:
        """Ends it where it hasn't ended."""
        self._process.kill()
        self._process.wait()


@pytest.fixture(params=[*NEEDED, *OTHERS])
def program(request: pytest.FixtureRequest) -> Iterator[GoProgram]:
    """Built by one of several versions of Go."""
    started = GoProgram(request.param)
    try:
        yield started
    finally:
        started.kill()


def traced(document: dict[str, Any]) -> dict[str, dict[str, int]]:
    """The calls that were counted, as the program has them; those that were left are in the losses."""
    calls = {
        name: {outcome: number for outcome in OUTCOMES if (number := count(document, f"tls.Conn.{name}", outcome))}
        for name in FUNCTIONS
    }
    if left := document["losses"].pop("left", 0):
        calls["serverHandshake"]["left"] = left
    return calls


def test_each_call_is_counted_with_its_outcome(program: GoProgram) -> None:
    with Trace(program.pid, options=("--role", "any")) as trace:
        own = program.run()
    assert own["serverHandshake"] == {"success": 600, "failure": 100, "left": 200}
    assert traced(trace.document) == own
    assert losses(trace.document) == {}
    assert trace.document["in_flight"] == 0


def test_each_call_is_a_line_of_snoop(program: GoProgram) -> None:
    with Snoop(program.pid, options=("--json", "--role", "any")) as snoop:
        own = program.run()
    assert snoop.status == 0
    lines = Counter((call["function"], call["outcome"]) for call in snoop.calls())
    assert lines == {
        (f"tls.Conn.{name}", outcome): number
        for name, outcomes in own.items()
        for outcome, number in outcomes.items()
        if outcome != "left"
    }
    assert {call["pid"] for call in snoop.calls()} == {program.pid}
    assert snoop.number("calls shown") == lines.total()
    assert "dropped" not in snoop.said


@pytest.mark.parametrize("name", [*NEEDED, *OTHERS])
def test_reads_and_writes_that_panics_leave_are_no_ends_of_others(name: str) -> None:
    """The runtime calls then what they defer, at whose entry others end."""
    program = GoProgram(name, "interrupted")
    try:
        with Trace(program.pid, options=("--role", "server")) as trace:
            own = program.run()
    finally:
        program.kill()
    assert own["Read"].keys() >= {"success", "left"}
    assert losses(trace.document) == {"left": sum(outcomes.pop("left", 0) for outcomes in own.values())}
    assert trace.document["in_flight"] == 0
    assert traced(trace.document | {"losses": {}}) == own | {"clientHandshake": {}}


def test_sides_are_told_apart(program: GoProgram) -> None:
    with Trace(program.pid, options=("--role", "client")) as trace:
        own = program.run()
    calls = traced(trace.document)
    assert calls["clientHandshake"] == own["clientHandshake"]
    assert calls["serverHandshake"] == {"left": 200}
    assert calls["Read"] == {"success": own["clientHandshake"]["success"], "retry": own["Read"]["retry"]}


def test_a_budget_takes_windows_and_loses_nothing(program: GoProgram) -> None:
    """Calls that run on when a window ends, or when the next begins, are none of its calls."""
    with Trace(program.pid, options=("--role", "any", "--budget", "1%")) as trace:
        own = program.run()
    calls = traced(trace.document)
    assert losses(trace.document) == {}
    assert all(calls[name].get(outcome, 0) <= number for name in own for outcome, number in own[name].items())


def test_no_return_probe_is_planned_in_go(program: GoProgram) -> None:
    """The runtime would end the program. Other stacks have some where they are cheaper, or nothing else is there."""
    listed = subprocess.run([PROGRAM, "probes", "-p", str(program.pid), "--json"], capture_output=True, check=True, timeout=60)
    [plan] = json.loads(listed.stdout)["files"]
    assert (plan["kind"], plan["stack"]) == ("crypto/tls", "go")
    assert {probe["role"] for operation in plan["operations"] for probe in operation["probes"]} == {"entry", "exit"}
