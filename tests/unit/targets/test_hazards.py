# SPDX-License-Identifier: Apache-2.0
"""Seccomp filters and shadow stacks, of any thread."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ssllatency.targets import Hazards, hazards, possible_hazards


def thread(proc: Path, pid: int, tid: int, *lines: str) -> None:
    folder = proc / str(pid) / "task" / str(tid)
    folder.mkdir(parents=True)
    (folder / "status").write_text("\n".join(["Name:\tnginx", *lines]) + "\n")


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["Seccomp:\t0", "x86_Thread_features:\t"], Hazards()),
        (["Seccomp:\t1"], Hazards()),
        (["Seccomp:\t2", "Seccomp_filters:\t1"], Hazards(seccomp=True)),
        (["x86_Thread_features:\tshstk wrss"], Hazards(shadow_stack=True)),
        (["x86_Thread_features_locked:\tshstk"], Hazards()),
    ],
)
def test_one_thread_is_enough(tmp_path: Path, lines: list[str], found: Hazards) -> None:
    thread(tmp_path, 10, 10, "Seccomp:\t0")
    thread(tmp_path, 10, 11, *lines)
    assert hazards([10], tmp_path) == found
    assert hazards([9, 10], tmp_path) == found
    assert hazards([9], tmp_path) == Hazards()


FILTERED = """
import ctypes, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
allow = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FFF0000), 8)  # BPF_RET | BPF_K, SECCOMP_RET_ALLOW
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(allow)), 16)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0
print("filtered", flush=True)
sys.stdin.readline()
"""


def test_a_real_process_under_a_filter() -> None:
    command = [sys.executable, "-c", FILTERED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        assert child.stdout.readline() == "filtered\n"
        assert hazards([child.pid]).seccomp
        assert hazards([os.getpid(), child.pid]).seccomp
        child.communicate("\n")


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ("flags\t\t: fpu sse", False),
        ("flags\t\t: fpu user_shstk sse", True),
        ("Features\t: fp asimd paca pacg bti gcs", False),  # aarch64's, which the kernel keeps right under probes
    ],
)
def test_what_a_later_process_could_bring(tmp_path: Path, flags: str, found: bool) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{flags}\n")
    assert possible_hazards(tmp_path) == Hazards(seccomp=True, shadow_stack=found)
