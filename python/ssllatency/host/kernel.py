# SPDX-License-Identifier: Apache-2.0
"""The running kernel: its version, for which processor it is, and whether its return probes kill processes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from ssllatency.host.seccomp import decides_on_return_probes


def machine() -> str:
    """The name that plans have for the processor of this machine: "x86-64", "aarch64", or its name of uname."""
    name = os.uname().machine
    return "x86-64" if name == "x86_64" else name


def release(text: str | None = None) -> tuple[int, int, int]:
    """The kernel's version, for the few facts that it can't be asked for; (6, 13, 2) of "6.13.2-arch1"."""
    numbers = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text if text is not None else os.uname().release)
    return (int(numbers[1]), int(numbers[2]), int(numbers[3] or 0)) if numbers else (0, 0, 0)


def return_probes_kill(
    version: tuple[int, int, int],
    *,
    seccomp: bool,
    shadow_stack: bool,
    decides: Callable[[], bool] = decides_on_return_probes,
) -> str:
    """Return why a return probe would kill a process of such a kind on this kernel; "" where it wouldn't.

    Linux 6.11 to 6.13.2 return through a system call that seccomp filters don't know. Kernels with the fix are recognised by
    asking (`decides`). Before Linux 6.11 the return address on the shadow stack wasn't changed along with the one on the stack.
    """
    if seccomp and (6, 11, 0) <= version < (6, 13, 3) and decides():
        return "this kernel, between Linux 6.11 and 6.13.2, kills a process with a seccomp filter at a return probe"
    if shadow_stack and version[:2] < (6, 11):
        return "before Linux 6.11 a process with a shadow stack dies at a return probe"
    return ""
