# SPDX-License-Identifier: Apache-2.0
"""What a machine must have that no package brings. A test that needs it is not run elsewhere, and said not to be, in CI as
well: there all other skips are failures (conftest.py)."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path
from typing import NoReturn

import pytest

from ssllatency.host.kernel import release

LIBRARIES = Path("/usr/lib", str(sysconfig.get_config_var("MULTIARCH")))  # where Debian has those of this architecture
MEMINFO = Path("/proc/meminfo")
# For tests that plant a cause and hold what is said of whose time it was against it: whatever else the machine does meanwhile
# is as true a cause. Such a test is run again where it fails, and named as such. Counts are exact on any machine.
NEEDS_QUIET = pytest.mark.flaky(reruns=2)


class Lacking(pytest.skip.Exception):  # type: ignore[name-defined]
    """The machine lacks what the test needs; the message says what."""


def needs_memory(needed: int, for_what: str, meminfo: Path = MEMINFO) -> None:
    """Leaves the test out where less than `needed` bytes are available by /proc/meminfo."""
    lines = (line.partition(":") for line in meminfo.read_text().splitlines())
    available = next((1024 * int(value.split()[0]) for name, _, value in lines if name == "MemAvailable"), 0)
    if available < needed:
        leave_out(f"this machine has less than {needed >> 30} GiB of memory available, which {for_what}")


def needs_architecture(name: str, for_what: str) -> None:
    """Leaves the test out on a machine of another architecture, as uname names it."""
    if os.uname().machine != name:
        leave_out(f"this machine isn't of {name}, {for_what}")


def tells_receives() -> bool:
    """Whether this kernel has the tracepoints of receives and sends, and such as may be relied on."""
    return (6, 3) <= release() < (7,)


def needs_tracepoints() -> None:
    """Leaves the test out where receives and sends aren't told."""
    if not tells_receives():
        leave_out("this kernel has no tracepoints of receives and sends, or none that may be relied on")


def needs_every_tracepoint() -> None:
    """Leaves the test out where the kernel may leave out the program of a tracepoint."""
    if release() >= (7,):
        leave_out("this kernel may leave out programs at tracepoints")


def leave_out(reason: str) -> NoReturn:
    """Leaves the test out, for a reason that lies in the machine's hardware, or in an archive that has moved on."""
    raise Lacking(reason)
