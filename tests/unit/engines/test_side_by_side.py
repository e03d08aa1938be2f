# SPDX-License-Identifier: Apache-2.0
"""Calls in threads: all are made, at the same time, and what they return or raise comes back."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from ssllatency.engines.side_by_side import side_by_side

PYTHON = Path(__file__).resolve().parents[3] / "python"


@pytest.mark.parametrize("number", [0, 1, 2, 300])
def test_results_come_in_the_order_of_the_calls(number: int) -> None:
    assert side_by_side([partial(int, str(place)) for place in range(number)]) == list(range(number))


def test_calls_wait_beside_each_other() -> None:
    all_there = threading.Barrier(5, timeout=20)
    side_by_side([all_there.wait] * 5)


def test_what_one_raises_is_raised_once_all_are_over() -> None:
    made: list[int] = []

    def fail() -> None:
        raise OSError("refused")

    with pytest.raises(OSError, match="refused"):
        side_by_side([fail, partial(made.append, 1), partial(made.append, 2)])
    assert sorted(made) == [1, 2]


def test_where_no_thread_can_be_started_all_are_made_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert side_by_side([threading.get_ident] * 3) == [threading.get_ident()] * 3


@pytest.mark.parametrize("calls", [[partial(int, "1")] * 3, [partial(int, "x")] * 3], ids=["made", "failed"])
def test_nothing_is_left_for_the_collector(calls: list[partial[int]]) -> None:
    gc.collect()
    gc.disable()
    try:
        with suppress(ValueError):
            side_by_side(calls)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_it_brings_in_nothing_slow() -> None:
    """Its first call comes while whoever hits the probes pays for these in full."""
    script = (
        f"import sys; sys.path.insert(0, {str(PYTHON)!r}); from ssllatency.engines.attach.links import close_all;"
        " close_all([]); print({'concurrent.futures', 'logging'} & sys.modules.keys())"
    )
    ran = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"
