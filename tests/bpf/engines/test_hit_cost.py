# SPDX-License-Identifier: Apache-2.0
"""What a hit costs here, measured on this program's own code by every way of attaching that the kernel has."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import pytest

from ssllatency.engines import hit_cost
from ssllatency.engines.bpf import kernel
from ssllatency.probes.costs import REFERENCE

METHODS = [method for method in (kernel.Method.PERF, kernel.Method.MULTI) if not kernel.lacks(method)]


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("method", METHODS)
def test_a_hit_costs_what_the_kernel_does_for_it(method: kernel.Method) -> None:
    """A trap costs something, stepping over an instruction more, and a return more than its entry alone."""
    gc.collect()  # what other tests have left
    before = descriptors()
    costs = hit_cost.measure(method)
    assert costs.optimised > 0
    assert 0 < costs.emulated < costs.single_stepped
    assert costs.returning > 0
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()  # the one that detaches
    assert descriptors() == before
    assert "ssllatency-hit-cost" not in Path("/proc/self/maps").read_text()


def test_returns_are_left_out_where_they_may_not_be_probed() -> None:
    assert hit_cost.measure(METHODS[-1], returns=False).returning == REFERENCE.returning
