# SPDX-License-Identifier: Apache-2.0
"""Which processes can have no children: those whose every fork the kernel refuses, and no others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ssllatency.targets.childless import can_have_children

BOUND = {"Uid": "998\t998\t998\t998", "Threads": "1", "CapPrm": "0000000000000000", "NoNewPrivs": "1"}


def process(proc: Path, limit: str = "1                    1", **more: str) -> int:
    (proc / "10").mkdir()
    fields = {"Name": "server", **BOUND, **more}
    (proc / "10" / "status").write_text("".join(f"{name}:\t{value}\n" for name, value in fields.items() if value))
    (proc / "10" / "limits").write_text(
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max resident set          unlimited            unlimited            bytes     \n"
        f"Max processes             {limit}                    processes \n"
    )
    return 10


@pytest.mark.parametrize("limit", ["1                    1", "0                    0"])
def test_who_may_run_one_process_alone_has_no_children(tmp_path: Path, limit: str) -> None:
    assert not can_have_children(process(tmp_path, limit), tmp_path)


@pytest.mark.parametrize(
    "more",
    [
        {"Uid": "0\t998\t998\t998"},
        {"Threads": "2"},
        {"CapPrm": "0000000001000000"},  # CAP_SYS_RESOURCE
        {"NoNewPrivs": "0"},
        {"NoNewPrivs": ""},
        {"CapPrm": ""},
        {"Threads": ""},
        {"Uid": ""},
        {"limit": "1                    2"},  # which it may raise itself
        {"limit": "unlimited            unlimited"},
    ],
    ids=str,
)
def test_whatever_is_not_shown_is_possible(tmp_path: Path, more: dict[str, str]) -> None:
    assert can_have_children(process(tmp_path, **more), tmp_path)


def test_of_a_process_that_has_ended_nothing_is_shown(tmp_path: Path) -> None:
    assert can_have_children(10, tmp_path)
    assert can_have_children(os.getpid())


FORKING = """
import os, sys
def fork():
    try:
        pid = os.fork()
    except OSError:
        return "refused"
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return "forked"
print(fork(), flush=True)
sys.stdin.readline()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's process needs root")
@pytest.mark.parametrize(
    ("nproc", "privileges", "refused"),
    [(1, ["--no-new-privs"], True), (1000, ["--no-new-privs"], False), (1, [], None)],
)
def test_what_is_said_of_a_real_process_is_what_happens(nproc: int, privileges: list[str], refused: bool | None) -> None:
    """None: its fork fails as well, but a program that it executes may bring capabilities."""
    user = ["setpriv", "--reuid", "64991", "--regid", "64991", "--clear-groups", *privileges]
    command = ["prlimit", f"--nproc={nproc}:{nproc}", *user, sys.executable, "-c", FORKING]
    with subprocess.Popen(command, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        assert child.stdout.readline() == ("forked\n" if refused is False else "refused\n")
        assert can_have_children(child.pid) == (refused is not True)
        child.communicate("\n")
