# SPDX-License-Identifier: Apache-2.0
"""What a machine must have that no package brings. A test that needs it is not run elsewhere, and said not to be, in CI as
well: there all other skips are failures (conftest.py)."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path
from typing import NoReturn

import pytest

LIBRARIES = Path("/usr/lib", str(sysconfig.get_config_var("MULTIARCH")))  # where Debian has those of this architecture
CPUINFO = Path("/proc/cpuinfo")
MEMINFO = Path("/proc/meminfo")


class Lacking(pytest.skip.Exception):
    """The machine lacks what the test needs; the message says what."""


def needs_cpu_flag(flag: str, for_what: str, cpuinfo: Path = CPUINFO) -> None:
    """Leaves the test out where the CPU hasn't the instructions that /proc/cpuinfo calls `flag`."""
    if flag not in _flags(cpuinfo):
        _leave_out(f"this machine's CPU has no {flag}, which {for_what}")


def needs_memory(needed: int, for_what: str, meminfo: Path = MEMINFO) -> None:
    """Leaves the test out where less than `needed` bytes are available by /proc/meminfo."""
    lines = (line.partition(":") for line in meminfo.read_text().splitlines())
    available = next((1024 * int(value.split()[0]) for name, _, value in lines if name == "MemAvailable"), 0)
    if available < needed:
        _leave_out(f"this machine has less than {needed >> 30} GiB of memory available, which {for_what}")


def needs_architecture(name: str, for_what: str) -> None:
    """Leaves the test out on a machine of another architecture, as uname names it."""
    if os.uname().machine != name:
        _leave_out(f"this machine isn't of {name}, {for_what}")


def needs_program(name: str, for_what: str) -> None:
    """Leaves the test out where the machine hasn't this program, which comes by no package that the set-up installs."""
    if shutil.which(name) is None:
        _leave_out(f"this machine has no {name}, which {for_what}")


def _flags(cpuinfo: Path) -> set[str]:
    lines = (line.partition(":") for line in cpuinfo.read_text().splitlines())
    return next((set(value.split()) for name, _, value in lines if name.strip() == "flags"), set())


def _leave_out(reason: str) -> NoReturn:
    raise Lacking(reason)
