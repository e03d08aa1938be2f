# SPDX-License-Identifier: Apache-2.0
"""Outputs that are closed, or behind which the disk is full, and Ctrl-C before the command line is read."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ssllatency import abi

PACKAGE = Path(abi.__file__).parent
RECORDED = Path(__file__).resolve().parents[3] / "examples/recorded/after.jsonl"
MAIN = "import sys; sys.path.insert(0, sys.argv.pop(1)); from ssllatency.cli.main import main; main()"
COMMANDS = ("--help", "--version", "trace --help", "doctor", f"report {shlex.quote(str(RECORDED))}")

pytestmark = pytest.mark.skipif(not os.access("/dev/full", os.W_OK), reason="no /dev/full here")


def ended(command: str, redirections: str) -> tuple[int, str, str]:
    """Exit status and outputs of the command under a shell."""
    python = shlex.join([sys.executable, "-I", "-c", MAIN, str(PACKAGE.parent)])
    done = subprocess.run(
        ["/bin/sh", "-c", f"exec {python} {command} {redirections}"], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("redirection", "why"), [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")], ids=["full", "closed"]
)
def test_what_standard_output_does_not_take_is_told(command: str, redirection: str, why: str) -> None:
    assert ended(command, redirection) == (1, "", f"ssllatency: standard output can't be written: {why}.\n")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("redirections", [">/dev/full 2>/dev/full", "<&- >&- 2>&-", ">/dev/full 2>&-"])
def test_where_nothing_can_be_told_the_exit_status_tells(command: str, redirections: str) -> None:
    assert ended(command, redirections) == (1, "", "")


@pytest.mark.parametrize("redirections", ["2>/dev/full", "2>&-", "<&- 2>&-"])
def test_without_standard_error_results_are_printed(redirections: str) -> None:
    status, printed, _ = ended("report " + shlex.quote(str(RECORDED)), redirections)
    assert status == 0
    assert "handshakes" in printed
    assert ended("report nowhere.json", redirections)[0] == 1


INTERRUPTED = """
import os, signal, sys
class Finder:
    def find_spec(name, *_):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)
module, folder = sys.argv[1:3]
del sys.argv[1:3]
sys.meta_path.insert(0, Finder)
sys.path.insert(0, folder)
from ssllatency.cli.main import main
main()
"""  # a signal comes while that module is looked for


@pytest.mark.parametrize(
    "module",
    [
        "ssllatency.output.streams",
        "ssllatency.tracing.planning.fork_server",
        "ssllatency.cli.command_line",
        "argparse",
        "ssllatency.cli.live.trace",
        "ssllatency.targets",
    ],
)
def test_ctrl_c_while_the_command_is_brought_in_leaves_no_traceback(module: str) -> None:
    command = [sys.executable, "-I", "-c", INTERRUPTED, module, str(PACKAGE.parent), "trace", "-p", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
