# SPDX-License-Identifier: Apache-2.0
"""Running a load generator: it ends by itself, is interrupted, or is ended; and what was printed is kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from ssllatency.load.figures import LoadError
from ssllatency.load.run import StopReason, ToolOutput, run
from ssllatency.load.tools.choice import TOOLS, report_of, version_of

PATIENT = "trap 'echo results; exit 3' INT; echo begun; while :; do sleep 0.05; done"
STUBBORN = "trap '' INT; echo $$; while :; do sleep 0.05; done"


def shell(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


def test_a_tool_that_ends_by_itself() -> None:
    seen: list[float] = []
    output = run(shell("echo out; echo problem >&2; sleep 0.3; exit 7"), timeout_s=30, progress=seen.append)
    assert (output.stdout, output.stderr, output.status, output.ended) == ("out\n", "problem\n", 7, StopReason.ITSELF)
    assert len(seen) > 1
    assert seen == sorted(seen)


def test_one_that_takes_too_long_may_print_its_results() -> None:
    output = run(shell(PATIENT), timeout_s=0.3)
    assert (output.stdout, output.status, output.ended) == ("begun\nresults\n", 3, StopReason.TIMEOUT)


def test_one_that_is_stopped_may_print_its_results() -> None:
    began = time.monotonic()
    output = run(shell(PATIENT), timeout_s=30, stopped=lambda: time.monotonic() > began + 0.3)
    assert (output.stdout, output.ended) == ("begun\nresults\n", StopReason.STOPPED)


def test_ctrl_c_ends_the_tool_and_keeps_its_results() -> None:
    def press(elapsed_s: float) -> None:
        if elapsed_s > 0.3:
            os.kill(os.getpid(), signal.SIGINT)

    output = run(shell(PATIENT), timeout_s=30, progress=press)
    assert (output.stdout, output.ended) == ("begun\nresults\n", StopReason.STOPPED)


def test_signals_that_the_command_blocks_reach_the_tool() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        output = run(shell(PATIENT), timeout_s=0.3)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert output.stdout == "begun\nresults\n"


def test_one_that_will_not_end_is_terminated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ssllatency.load.run._GRACE_S", 0.2)
    output = run(shell(STUBBORN), timeout_s=0.3)
    assert output.status == -signal.SIGTERM
    assert not Path(f"/proc/{output.stdout.strip()}").exists()


def children() -> set[int]:
    """Those of this process."""
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


def test_an_error_meanwhile_ends_the_tool() -> None:
    pids: list[int] = []
    before = children()  # of other tests

    def fail(_: float) -> None:
        pids.extend(children() - before)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        run(shell(PATIENT), timeout_s=30, progress=fail)
    assert pids
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


# Starts a tool that never ends by itself, tells its PID, and is gone without a chance to end it.
KILLED = """
import os, signal
from ssllatency.load.run import run

def tell(elapsed_s):
    if elapsed_s > 0.3:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            print(file.read(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

run(["/bin/sleep", "60"], timeout_s=60, progress=tell)
"""


def test_a_tool_ends_with_the_process_that_started_it() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", KILLED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 10
    with suppress(FileNotFoundError, ProcessLookupError):
        while "(zombie)" not in Path(f"/proc/{int(done.stdout)}/status").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_one_that_has_closed_its_output_is_waited_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the next look would make the run longer than it was."""
    monkeypatch.setattr("ssllatency.load.run.LOOK_S", 1e6)  # a wait until then would meet the limit of the test
    output = run(shell("echo out; exec >&- 2>&-; sleep 0.1; exit 7"), timeout_s=1e6)
    assert (output.stdout, output.status, output.ended) == ("out\n", 7, StopReason.ITSELF)


def test_long_output_keeps_its_beginning_and_its_end() -> None:
    output = run(shell("echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last"), timeout_s=30)
    assert output.stdout.startswith("first\n")
    assert output.stdout.endswith("x\nlast\n")
    assert len(output.stdout) + output.cut_bytes == 3_000_000 + len("first\n\nlast\n")


def test_a_process_that_a_tool_leaves_behind_is_not_waited_for() -> None:
    output = run(shell("sleep 30 & echo $!"), timeout_s=20)
    os.kill(int(output.stdout), signal.SIGKILL)  # ProcessLookupError where it has been waited for
    assert output.ended is StopReason.ITSELF


def test_one_that_is_not_there() -> None:
    with pytest.raises(LoadError, match="no-such-tool can't be run: No such file or directory"):
        run(["no-such-tool"], timeout_s=1)
    with pytest.raises(LoadError, match=r"Debian's package apache2-utils has it\.$"):
        version_of(TOOLS["ab"], "no-such-ab")


def test_the_version_that_a_program_tells(tmp_path: Path) -> None:
    program = tmp_path / "wrk"
    program.write_text("#!/bin/sh\necho 'wrk debian/4.1.0-3+b2 [epoll] Copyright (C) 2012'\nexit 1\n")
    program.chmod(0o755)
    assert version_of(TOOLS["wrk"], str(program)) == "4.1.0-3+b2"


def test_a_rate_by_our_clock_where_the_connections_are_known() -> None:
    text = "10 connections in 0.10s; 100.00 connections/user sec, bytes read 0\n10 connections in 2 real seconds"
    report = report_of(TOOLS["s_time"], ToolOutput(text, "", 0, 2.0), ("openssl", "s_time"), "3.0.22")
    rate = report.figure("connections a second")
    assert rate is not None
    assert (rate.value, rate.unit, report.version, report.command) == (5.0, "1/s", "3.0.22", ("openssl", "s_time"))


def test_the_torn_last_line_of_a_killed_tool_is_not_read() -> None:
    text = "This is ApacheBench, Version 2.3\nComplete requests:      20\nFailed requests:        1"
    report = report_of(TOOLS["ab"], ToolOutput(text, "", -9, 2.0), ("ab",))
    assert [figure.name for figure in report.figures] == ["requests"]


def test_the_marks_of_s_time_count_though_their_line_is_torn() -> None:
    text = "Collecting connection statistics for 9 seconds\n****"
    report = report_of(TOOLS["s_time"], ToolOutput(text, "", -2, 2.0), ("openssl", "s_time"))
    assert report.figure("connections") is not None
    assert report.connections is not None
    assert (report.connections.least, report.connections.most) == (4, 5)
