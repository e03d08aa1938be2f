# SPDX-License-Identifier: Apache-2.0
"""The engines beside libbpf's: bcc, which compiles with the kernel's own headers, and bpftrace."""

from __future__ import annotations

import os
from typing import Any

from ssllatency.host import kernel, preemption
from tests.kernels.guest.checks.stress import preemption as preemption_said
from tests.kernels.guest.servers import traced
from tests.kernels.guest.ways import Refused, refusal


def by_bcc() -> dict[str, Any]:
    """Counts exactly in each way of attaching that the engine has."""
    return {**traced("--engine", "bcc"), **traced("--engine", "bcc", "--attach", "perf")}


def by_bpftrace() -> dict[str, Any]:
    """Counts exactly, or is refused where its programs could bring the kernel down."""
    if not _endangers_the_kernel():
        return traced("--engine", "bpftrace")
    words = "is preemptible and can be brought down by any uprobe program with a large stack"
    raise Refused(refusal(lambda: traced("--engine", "bpftrace"), words))


def _endangers_the_kernel() -> bool:
    """By the scheduler's own word, which the guest's debugfs gives, and by the version."""
    name = os.uname()
    private = preemption.gives_private_stacks(name.machine, kernel.release(name.release))
    return private and not any(f"({model})" in preemption_said() for model in ("none", "voluntary"))
