# SPDX-License-Identifier: Apache-2.0
"""What in a kernel's log means that something went wrong in the kernel, or that a probed process died of it."""

from __future__ import annotations

import re

# As the kernel prints them: lib/dump_stack.c, kernel/panic.c, kernel/locking/lockdep.c, arch/*/kernel/traps.c.
_COMPLAINTS = (
    r"\bBUG: ",
    r"\bBUG at ",
    r"\bOops\b",
    r"\bWARNING: CPU: ",
    r"\bWARNING: .* at ",
    r"\bWARNING: (possible|inconsistent|suspicious|bad unlock)",
    r"\bKernel panic\b",
    r"\bUnable to handle kernel ",
    r"\binvalid opcode: ",
    r"\bgeneral protection fault\b",
    r"\bdouble fault\b",
    r"\bCall Trace:",
    r"\bCall trace:",
    r"\bexited with (irqs disabled|preempt_count)",
    r"\bscheduling while atomic\b",
    r"\bpossible recursive locking\b",
    r"\b(soft|hard) lockup\b",
    r"\bself-detected stall\b",
    r"\bdetected stalls\b",
    r"\bINFO: task .* blocked for more than ",
    r"\bUBSAN: ",
    r"\bKASAN: ",
    r"\brefcount_t: ",
    r"\buprobe: .*(failed|omit)",
    r"\btraps: ",  # a process killed by a trap, as by a breakpoint that nobody owns
    r"\]: segfault at ",
)
_COMPLAINT = re.compile("|".join(_COMPLAINTS))
_STAMP = re.compile(r"^\[ *\d+\.\d+\]\s*")


def complaints(log: str) -> list[str]:
    """The lines of a kernel's log, or of a console, that complain; in their order, each once, without their time stamps."""
    lines = (_STAMP.sub("", line).strip() for line in log.splitlines())
    return list(dict.fromkeys(line for line in lines if _COMPLAINT.search(line)))
