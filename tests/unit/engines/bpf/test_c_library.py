# SPDX-License-Identifier: Apache-2.0
"""Calls of the C library don't pile up garbage."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import suppress

import pytest

from ssllatency.engines.bpf import kernel, perf
from ssllatency.engines.resources import trim_heap

_NO_COMMAND = 1 << 20


def no_event() -> None:
    with suppress(OSError):
        perf.open_event(bytes(72), pid=-1, cpu=-1)


@pytest.mark.parametrize(
    "call",
    [lambda: kernel.bpf(_NO_COMMAND, b""), no_event, trim_heap],
    ids=["bpf", "perf_event_open", "malloc_trim"],
)
def test_many_calls_leave_no_more_garbage_than_one(call: Callable[[], object]) -> None:
    """One leaves the type of its buffer, which the next one takes again."""
    garbage = []
    gc.disable()
    try:
        for times in (1, 1, 20):
            for _ in range(times):
                call()
            garbage.append(gc.collect())
    finally:
        gc.enable()
    assert garbage[2] == garbage[1]
