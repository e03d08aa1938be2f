# SPDX-License-Identifier: Apache-2.0
"""How long a thread was off the processor in a call, and in the phases of it, by its clocks at their borders."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator

import pytest

from ssllatency import abi
from ssllatency.engines.bpf.libbpf import BpfObject
from tests.bpf.compiling import SMALL, SMALL_TABLES, compiled, run

SLEEP_S = 0.2
SLEEP_NS, TICKS_NS = int(SLEEP_S * 1e9), 40_000_000  # a tick is 10 ms at most, by which a clock lags at either end
TRIES = 100


class BordersProbe(ctypes.Structure):
    _fields_ = (("thread", abi.Thread), ("handshake", abi.Handshake))


class Borders:
    """A call of this thread, whose steps are programs."""

    def __init__(self, loaded: BpfObject) -> None:
        self._loaded = loaded
        self.probe = loaded.live_section(".data.probe", BordersProbe)

    def do(self, *steps: str) -> None:
        """Takes these steps, between which it may sleep."""
        for step in steps:
            if step == "sleep":
                time.sleep(SLEEP_S)
            else:
                run(self._loaded.program_fd(step))

    @property
    def off_ns(self) -> int:
        """Off the processor in the call."""
        return int(self.probe.handshake.parts[abi.Part.OFF_CPU])

    @property
    def phases_ns(self) -> int:
        """The same in its phases."""
        return int(self.probe.thread.phases.off_ns)


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return compiled("borders_probe.bpf.c", tmp_path_factory.mktemp("bpf"))


@pytest.fixture
def borders(content: bytes) -> Iterator[Borders]:
    with BpfObject(content, "borders_probe") as opened:
        for table in SMALL_TABLES:
            opened.resize_map(table, SMALL)
        opened.load()
        yield Borders(opened)


def test_sleep_in_a_phase_is_in_the_call_too(borders: Borders) -> None:
    borders.do("begin_call", "begin_phase", "sleep", "end_phase", "end_call")
    assert borders.phases_ns >= SLEEP_NS - TICKS_NS
    assert borders.off_ns >= borders.phases_ns - TICKS_NS


@pytest.mark.parametrize(
    "steps",
    [
        ("begin_call", "sleep", "begin_phase", "end_phase", "end_call"),
        ("begin_call", "begin_phase", "end_phase", "sleep", "end_call"),
        ("begin_call", "begin_phase", "end_phase", "sleep", "begin_phase", "end_phase", "end_call"),
    ],
)
def test_sleep_before_or_after_a_phase_is_not_in_it(borders: Borders, steps: tuple[str, ...]) -> None:
    borders.do(*steps)
    assert borders.off_ns - borders.phases_ns >= SLEEP_NS - TICKS_NS


def test_a_call_in_which_the_thread_keeps_its_processor_has_no_time_off_it(borders: Borders) -> None:
    for _ in range(TRIES):
        borders.probe.handshake.parts[abi.Part.OFF_CPU] = 0
        borders.do("short_call")
        call, phase = borders.probe.thread.call, borders.probe.thread.phase
        if call.switches == phase.switches and not borders.off_ns:
            break
    assert (borders.off_ns, borders.phases_ns, phase.switches) == (0, 0, call.switches)
    assert phase.at_ns > call.at_ns
    assert phase.run_ns >= call.run_ns
    assert (phase.ahead_ns, phase.delay_ns) == (call.ahead_ns, call.delay_ns)
