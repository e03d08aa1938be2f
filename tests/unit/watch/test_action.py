# SPDX-License-Identifier: Apache-2.0
"""The command of --run: no shell, no descriptor of ours, a limited time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import wait_for

from ssllatency.errors import SsllatencyError
from ssllatency.watch.action import Action

TELL = """
import json, os, signal, sys
blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
told = {"arguments": sys.argv[2:], "fact": os.environ.get("FACT"), "blocked": sorted(map(int, blocked)),
        "descriptors": [os.readlink(f"/proc/self/fd/{n}") for n in range(3, 50) if os.path.exists(f"/proc/self/fd/{n}")]}
with open(sys.argv[1] + ".draft", "w") as file:
    json.dump(told, file)
os.rename(sys.argv[1] + ".draft", sys.argv[1])
"""


@pytest.mark.parametrize(
    ("line", "sentence"),
    [("", "there is no program in it"), ("'", "No closing quotation"), ("no-such-program -x", "there is no program no-such-")],
)
def test_what_cannot_be_run_is_refused_at_once(line: str, sentence: str) -> None:
    with pytest.raises(SsllatencyError, match=sentence) as caught:
        Action(line, 10)
    assert caught.value.status == 2


def test_no_shell_and_no_descriptor(tmp_path: Path) -> None:
    (tmp_path / "tell.py").write_text(TELL)
    told = tmp_path / "told"
    action = Action(f"{sys.executable} {tmp_path}/tell.py {told} '$(touch {tmp_path}/owned)' ;true", 30)
    with (tmp_path / "ours").open("w") as ours:
        os.set_inheritable(ours.fileno(), True)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            action.start({"FACT": "`touch owned`"})
            action.wait()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    what = json.loads(told.read_text())
    assert what["arguments"] == [f"$(touch {tmp_path}/owned)", ";true"]
    assert what["fact"] == "`touch owned`"
    assert not {signal.SIGINT, signal.SIGTERM} & set(what["blocked"])
    assert str(tmp_path / "ours") not in what["descriptors"]
    assert not (tmp_path / "owned").exists()


def test_it_is_ended_with_what_it_has_started(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = f"sleep 600 & echo $! >{tmp_path}/child; echo to standard output; wait"
    action = Action(f"sh -c '{script}'", 0.5)
    action.start({})
    wait_for(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text().strip())
    action.start({})
    action.wait()
    child = (tmp_path / "child").read_text().strip()
    wait_for(lambda: not Path(f"/proc/{child}/cmdline").exists() or not Path(f"/proc/{child}/cmdline").read_bytes())
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "to standard output" in printed.err
    assert "sh still runs for the incident before: it isn't run for this one." in printed.err
    assert "sh was ended after 0.5 s: --run-timeout gives it longer." in printed.err


KILLED = """
import os, signal, sys
from ssllatency.watch.action import Action
Action(f"sh -c 'echo $$ >{sys.argv[1]}.draft; mv {sys.argv[1]}.draft {sys.argv[1]}; exec sleep 600'", 600).start({})
while not os.path.exists(sys.argv[1]):
    pass
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_is_ended_where_we_are_killed(tmp_path: Path) -> None:
    """Nobody would end it when its time is over."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", KILLED, tmp_path / "pid"], env=environment, timeout=60, check=False)
    command = Path("/proc", (tmp_path / "pid").read_text().strip(), "cmdline")
    try:
        wait_for(lambda: not command.exists() or not command.read_bytes())
    finally:
        if command.exists() and command.read_bytes():
            os.kill(int(command.parent.name), signal.SIGKILL)


@pytest.mark.parametrize(
    ("script", "words"), [("exit 7", "sh ended with status 7."), ("kill -9 $$", "sh was killed by signal 9.")]
)
def test_how_it_failed_is_said(capfd: pytest.CaptureFixture[str], script: str, words: str) -> None:
    action = Action(f"sh -c '{script}'", 30)
    action.start({})
    action.wait()
    assert capfd.readouterr().err == f"ssllatency: {words}\n"


def test_a_program_that_went_away_ends_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    action = Action(str(program), 30)
    program.unlink()
    action.start({})
    action.wait()
    assert "can't be run: No such file or directory." in capfd.readouterr().err
