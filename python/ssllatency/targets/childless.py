# SPDX-License-Identifier: Apache-2.0
"""Whether a process can have children at all, as far as the kernel itself rules that out.

systemd's LimitNPROC=1 does. A seccomp filter may as well, but it can't be read without stopping the process; a cgroup's
pids.max can be left by whoever may write to another cgroup.
"""

from __future__ import annotations

from pathlib import Path

from ssllatency.host.kernel_text import kernel_fields, kernel_lines
from ssllatency.targets.processes import PROC


def can_have_children(pid: int, proc: Path = PROC) -> bool:
    """False only where each fork of the process fails until somebody else changes its limits: it may run one process alone (the
    hard limit, which it can't raise), it isn't root's, has no capabilities and can gain none, by no program that it executes.
    """
    try:
        status = kernel_fields(proc / str(pid) / "status")
        limits = kernel_lines(proc / str(pid) / "limits")
    except OSError:
        return True
    bound = (
        status.get("Uid", "0").split()[:1] != ["0"]
        and status.get("Threads") == "1"  # each thread has capabilities of its own
        and status.get("CapPrm", "?").strip("0") == ""
        and status.get("NoNewPrivs") == "1"
    )
    return not (bound and _most_processes(limits) in ("0", "1"))


def _most_processes(limits: list[str]) -> str:
    """The hard limit of "Max processes", which is RLIMIT_NPROC; "" where it isn't listed."""
    row = next((line for line in limits if line.startswith("Max processes ")), "")
    return next(iter(row.split()[3:4]), "")
