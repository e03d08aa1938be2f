# SPDX-License-Identifier: Apache-2.0
"""Whether a thread that runs a uprobe program may be preempted, and whether that endangers the kernel.

Since Linux 6.13 the JIT may give such a program a private stack in per-CPU memory, which the program of the next thread
overwrites: bpf/common/stack.bpf.h, docs/internals/kernel-safety.md. ssllatency's own programs are kept from it,
bpftrace's aren't.
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path

from ssllatency.host import kernel
from ssllatency.host.kernel_text import kernel_text

# Since Linux 6.13 (commit a76ab5731e32) on x86-64, since 6.17 on aarch64.
_PRIVATE_STACKS_SINCE = {"x86_64": (6, 13), "aarch64": (6, 17)}
_NEVER_IN_THE_KERNEL = ("none", "voluntary")  # preemption models that let a thread in the kernel run on
# Since then tracepoints no longer keep their programs from being preempted, but the kernel still runs none of them twice on a
# processor: it leaves out those of other threads meanwhile.
_TRACEPOINTS_SINCE = (7, 0)
# Since Linux 7.0 (commit 7dadeaa6e851) x86-64 and aarch64 have no others, and pass over another on the command line.
_ONLY_MODELS_SINCE, _ONLY_MODELS = (7, 0), "full|lazy"


def gives_private_stacks(machine: str, version: tuple[int, ...]) -> bool:
    """Whether the JIT of this kernel gives uprobe programs private stacks."""
    since = _PRIVATE_STACKS_SINCE.get(machine)
    return since is not None and version[:2] >= since


def loses_tracepoints(version: tuple[int, ...]) -> bool:
    """Whether the kernel may leave out a program at a tracepoint of a thread's own system call."""
    return version[:2] >= _TRACEPOINTS_SINCE


def preemption_model(root: Path, release: str, build: str) -> str:
    """ "none", "voluntary", "full" or "lazy"; "" where the kernel doesn't tell.

    `build` is what `uname -v` says. Where the model can be changed at run time, the scheduler's own word counts, then the
    command line that the kernel was booted with, if it names a model that this kernel has, then what it was built for.
    """
    if "PREEMPT" not in build:
        return "none"  # or voluntary: neither preempts
    if "PREEMPT_RT" in build:
        return "full"
    asked = _ONLY_MODELS if kernel.release(release) >= _ONLY_MODELS_SINCE else r"\w+"
    for text, pattern in (
        (_text(root / "sys/kernel/debug/sched/preempt"), r"\((\w+)\)"),
        (_text(root / "proc/cmdline"), rf"(?:^|\s)preempt=({asked})\b"),
        (_configuration(root, release), r"^CONFIG_PREEMPT_(NONE|VOLUNTARY|LAZY)=y$"),
    ):
        if model := re.search(pattern, text, re.MULTILINE):
            return model[1].lower()
    return ""


def is_preemptible(root: Path, release: str, build: str) -> bool:
    """Whether threads may be preempted in the kernel, or nothing shows that they aren't."""
    return preemption_model(root, release, build) not in _NEVER_IN_THE_KERNEL


def _configuration(root: Path, release: str) -> str:
    import gzip  # takes a while to bring in, and few starts need it

    try:
        return gzip.decompress((root / "proc/config.gz").read_bytes()).decode(errors="replace")
    except (OSError, EOFError, zlib.error):
        return _text(root / "boot" / f"config-{release}")


def _text(path: Path) -> str:
    try:
        return kernel_text(path)
    except OSError:
        return ""
