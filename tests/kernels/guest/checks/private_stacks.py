# SPDX-License-Identifier: Apache-2.0
"""What becomes of a uprobe program's private stack, shown by tests/kernels/private_stack, which uses nothing of ssllatency's.

It fails on the first kernel that leaves such stacks alone: then `gives_private_stacks` of `host.preemption` can end there.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from ssllatency.engines.bpf import kernel
from ssllatency.host.kernel import release
from ssllatency.host.preemption import gives_private_stacks, is_preemptible
from tests.kernels.guest.ways import Refused, ways

_FOLDER = Path("/checkout/tests/kernels/private_stack")
_OPTIONS: dict[kernel.Method, tuple[str, ...]] = {kernel.Method.PERF: (), kernel.Method.MULTI: ("-m",)}
_SECONDS = "1"  # for each of two programs
_COUNTS = re.compile(r"^(\w+): (\d+) runs, (\d+) corrupted$", re.MULTILINE)


def overwritten() -> dict[str, Any]:
    """By each way of attaching, a program's stack is overwritten exactly where the kernel gives it a private one and may
    preempt it; that of the same program with a tail call that is never made is overwritten nowhere."""
    if not (_FOLDER / "private_stack").exists():
        raise Refused("tests/kernels/private_stack is compiled for the host's own architecture only")
    name = os.uname()
    endangered = gives_private_stacks(name.machine, release(name.release))
    endangered = endangered and is_preemptible(Path("/"), name.release, name.version)
    facts = {str(method): _counts(*_OPTIONS[method]) for method in ways() if method in _OPTIONS}
    for method, counts in facts.items():
        assert all(runs > 0 for runs, _ in counts.values()), f"a program never ran, attached by {method}: {counts}"
        assert counts["guarded"][1] == 0, f"the thread's own stack was overwritten, attached by {method}: {counts}"
        assert (counts["unguarded"][1] > 0) is endangered, f"attached by {method} on a kernel of which {endangered=}: {counts}"
    return facts


def _counts(*options: str) -> dict[str, tuple[int, int]]:
    """By program, how often it ran, and in how many of these runs its stack was overwritten. A real-time thread makes sure that
    threads are preempted in the program."""
    command = [_FOLDER / "private_stack", "-r", "-t", _SECONDS, *options, _FOLDER / "private_stack.bpf.o"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    counts = {program: (int(runs), int(corrupted)) for program, runs, corrupted in _COUNTS.findall(done.stdout)}
    assert set(counts) == {"unguarded", "guarded"}, f"it said: {done.stdout}"
    return counts
