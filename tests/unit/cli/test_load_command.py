# SPDX-License-Identifier: Apache-2.0
"""`ssllatency load`: what it refuses before anything is traced, how a tool's end is told of, and the line on a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ssllatency.cli.command_line import run
from ssllatency.cli.live import load
from ssllatency.errors import SsllatencyError
from ssllatency.load.arguments import Endpoint
from ssllatency.load.run import StopReason, ToolOutput
from ssllatency.load.tools.choice import TOOLS
from ssllatency.model.snapshot import Snapshot
from ssllatency.output.printing import tell
from ssllatency.output.progress import Progress
from ssllatency.targets import Selection
from ssllatency.tracing.load import driving

OUTPUTS = Path(__file__).parents[1] / "load" / "outputs"
SNAPSHOT = Snapshot("web1", "6.1", "libbpf", "2030-01-31T12:00:00Z", 1.0, (), ())


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["load"], 2, "are required: tool"),
        (["load", "curl", "https://127.0.0.1/"], 2, "invalid choice: 'curl'"),
        (["load", "wrk", "--", "http://127.0.0.1/"], 2, "wrk would speak HTTP without TLS"),
        (["load", "--program", "/bin/sh", "wrk", "-t1"], 2, "contain no https:// URL"),
        (["load", "--program", "no-such-tool", "ab", "https://127.0.0.1/"], 1, "Debian's package apache2-utils has it"),
    ],
)
def test_misuse(arguments: list[str], status: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == status
    told = capsys.readouterr().err
    assert words in told
    assert told.count("\n") == 1


# A server with a worker that has its socket as well; it ends with its standard input.
SERVER = """
import os, socket, sys
server = socket.create_server(("127.0.0.1", 0))
worker = os.fork()
if worker:
    print(os.getpid(), server.getsockname()[1], flush=True)
sys.stdin.read()
if worker:
    os.waitpid(worker, 0)
"""


def test_a_server_is_found_by_its_port() -> None:
    with subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin
        assert server.stdout
        pid, port = map(int, server.stdout.readline().split())
        try:
            assert driving.serving_there(Endpoint("localhost", port)) == Selection(pids=(pid,))
            with pytest.raises(SsllatencyError, match=r"No process on this host listens on 192\.0\.2\.1"):
                driving.serving_there(Endpoint("192.0.2.1", port))
        finally:
            server.stdin.close()
    with pytest.raises(SsllatencyError, match=f"listens on 127.0.0.1 port {port}"):
        driving.serving_there(Endpoint("127.0.0.1", port))


@pytest.mark.parametrize("host", ["name.invalid", "my..host", f"{'x' * 64}.example", "\udcff"])
def test_a_host_without_an_address(host: str) -> None:
    with pytest.raises(SsllatencyError, match=f"{re.escape(host)} can't be found: "):
        driving.serving_there(Endpoint(host, 443))


def ended(output: ToolOutput, tool: str = "wrk") -> tuple[Snapshot, int]:
    return load._with_client(SNAPSHOT, output, TOOLS[tool], [tool, "-t1"], "4.1")


def text_of(name: str) -> str:
    (file,) = OUTPUTS.glob(f"*/{name}.txt")
    return file.read_text()


def test_a_tool_that_did_its_work(capsys: pytest.CaptureFixture[str]) -> None:
    snapshot, status = ended(ToolOutput(text_of("real-wrk-keep"), "a word of warning\n", 0, 2.0))
    assert status == 0
    assert snapshot.client
    assert (snapshot.client.version, snapshot.client.command) == ("4.1", ("wrk", "-t1"))
    assert capsys.readouterr().err == ""


def test_a_tool_that_failed_is_told_of_and_its_figures_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    snapshot, status = ended(ToolOutput(text_of("real-wrk-keep"), "\x1b[31mbad\nworse\n", 5, 2.0))
    assert status == 1
    assert snapshot.client
    assert snapshot.client.figure("requests")
    assert capsys.readouterr().err.splitlines() == [
        "ssllatency: wrk ended with status 5.",
        "ssllatency: wrk: \\x1b[31mbad",
        "ssllatency: wrk: worse",
    ]


def test_a_tool_that_said_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    snapshot, status = ended(ToolOutput("", "unable to connect\n", 1, 0.1))
    assert (status, snapshot.client) == (1, None)
    told = capsys.readouterr().err
    assert "wrk: unable to connect" in told
    assert "This isn't the output of wrk" in told


def test_a_tool_that_took_too_long(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(ToolOutput(text_of("real-wrk-close"), "", 0, 61.0, StopReason.TIMEOUT))[1] == 1
    assert "wrk was ended after 61 s: --timeout gives it longer." in capsys.readouterr().err


def test_a_tool_that_was_interrupted_by_the_user(capsys: pytest.CaptureFixture[str]) -> None:
    snapshot, status = ended(ToolOutput(text_of("real-h2load-interrupted"), "", -2, 1.0, StopReason.STOPPED), "h2load")
    assert status == 0
    assert snapshot.client
    assert snapshot.client.facts["protocol"] == "TLSv1.3"
    assert capsys.readouterr().err == ""


def test_a_tool_that_was_killed_and_one_that_printed_too_much(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(ToolOutput(text_of("real-wrk-keep"), "", -9, 1.0))[1] == 1
    assert "wrk was killed by signal 9." in capsys.readouterr().err
    assert ended(ToolOutput(text_of("real-wrk-keep"), "", 0, 1.0, cut_bytes=17))[1] == 0
    assert "17 bytes of it weren't kept" in capsys.readouterr().err


def test_how_long_a_tool_may_run() -> None:
    assert [driving.timeout_s(None, 10.0), driving.timeout_s(None, None), driving.timeout_s(5.0, 10.0)] == [70, 3600, 5]


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    primary, secondary = pty.openpty()
    with os.fdopen(secondary, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with Progress(20.0) as progress:
            progress.show(5.2, "17 handshakes")
            progress.show(5.3, "18 handshakes")  # too soon
        due, shown = "\r[#####---------------] 5 s of about 20 s, 17 handshakes\x1b[K\r\x1b[K", ""
        while len(shown) < len(due):
            shown += os.read(primary, 4096).decode()
    os.close(primary)
    assert shown == due


def test_what_is_said_meanwhile_takes_the_place_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    primary, secondary = pty.openpty()
    with os.fdopen(secondary, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with Progress(20.0, exact=True) as progress:
            progress.show(5.2, "Ctrl-C ends it sooner")
            tell("a note.")
        due = "\r[#####---------------] 5 s of 20 s, Ctrl-C ends it sooner\x1b[K\r\x1b[Kssllatency: a note.\r\n"
        shown = ""
        while len(shown) < len(due):
            shown += os.read(primary, 4096).decode()
    os.close(primary)
    assert shown == due


def test_no_progress_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        progress.show(1.0, "17 handshakes")
    assert capsys.readouterr().err == ""
