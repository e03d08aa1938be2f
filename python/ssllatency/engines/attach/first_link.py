# SPDX-License-Identifier: Apache-2.0
"""The kernel's wait before the first uprobe, which passes while something else is done.

While a uprobe is set no process may be forked. Where none has been set for some 10 ms, the kernel first waits until each
processor has been elsewhere, and those that follow needn't wait (dup_mmap_sem, a percpu_rw_semaphore). That takes 5 to 12 ms,
in which a start has nothing else to do by then; a little earlier it has.
"""

from __future__ import annotations

import os
from contextlib import suppress
from threading import Thread

from ssllatency.engines.bpf import kernel

_UNMAPPED = __file__  # nobody maps its code, so that no breakpoint is set


def wait_ahead(method: kernel.Method) -> None:
    """Has a thread wait now for what the first link would wait for. Where that can't be had, the first link does."""
    if method is not kernel.Method.PERF:  # the kernel takes 0.1 s to remove a perf event
        with suppress(RuntimeError):  # no more threads can be started
            Thread(target=_link, daemon=True).start()


def _link() -> None:
    """Sets a probe that nobody hits, and removes it."""
    with suppress(OSError):
        program = kernel.load_empty_program(kernel.TRACE_UPROBE_MULTI)
        try:
            kernel.create_link(program, _UNMAPPED, [(0, 0)]).close()
        finally:
            os.close(program)
