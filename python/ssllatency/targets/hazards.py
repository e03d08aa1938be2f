# SPDX-License-Identifier: Apache-2.0
"""Hazards of probes to a process: a seccomp filter, a shadow stack. Read from /proc/PID/task/TID/status."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ssllatency.data_class import dataclass
from ssllatency.host.kernel_text import kernel_fields, kernel_text
from ssllatency.targets.processes import PROC

_SECCOMP_FILTER = "2"  # SECCOMP_MODE_FILTER of linux/seccomp.h


@dataclass(frozen=True)
class Hazards:
    """`seccomp`: a thread runs under a seccomp filter. `shadow_stack`: a thread runs with a user shadow stack (CET).

    aarch64's guarded control stack isn't one of them: the first kernels that could have it together with uprobes, Linux 6.18,
    change it along (commits 4a601714bb24, efb07ac534e2, cc66c711e58f).
    """

    seccomp: bool = False
    shadow_stack: bool = False


def hazards(pids: Iterable[int], proc: Path = PROC) -> Hazards:
    """The hazards of all threads of these processes together. A process that has ended, or may not be read, adds none."""
    fields = [_status(status) for pid in pids for status in _statuses(proc / str(pid) / "task")]
    return Hazards(
        seccomp=any(status.get("Seccomp") == _SECCOMP_FILTER for status in fields),
        shadow_stack=any("shstk" in status.get("x86_Thread_features", "").split() for status in fields),
    )


def possible_hazards(proc: Path = PROC) -> Hazards:
    """The hazards of processes that may start later: a filter always, a shadow stack if the processor has them."""
    try:
        flags = kernel_text(proc / "cpuinfo")
    except OSError:
        flags = ""
    return Hazards(seccomp=True, shadow_stack="user_shstk" in flags.split())


def _statuses(tasks: Path) -> list[Path]:
    try:
        return [task / "status" for task in tasks.iterdir()]
    except OSError:
        return []


def _status(path: Path) -> dict[str, str]:
    try:
        return kernel_fields(path)
    except OSError:
        return {}
