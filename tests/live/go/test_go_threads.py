# SPDX-License-Identifier: Apache-2.0
"""The time that a goroutine has a processor within its handshakes: known where it kept its thread, else absent. The kernel's
account of the process' threads is the most that it can come to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.live.commands.handshakes import Shakes, spent_ns, split
from tests.live.go.test_go import NEEDED
from tests.live.go.test_go_queues import TIMES, server
from tests.live.servers.queues import felt_ns, neighbours
from tests.machine import NEEDS_QUIET

pytestmark = [pytest.mark.usefixtures("tracing"), NEEDS_QUIET]
NEWEST = NEEDED[-1]  # before Go 1.26 a system call counts as if the goroutine had stopped
SIGNING, SIGNING_NS = "3ms", 3_000_000


def used_ns(pid: int) -> int:
    """How long the threads of the process have had a processor."""
    return sum(int(file.read_text().split()[0]) for file in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def shaken(pid: int, port: int) -> tuple[Shakes, int]:
    """Handshakes, one after the other, which have had no more of a processor than the process altogether: how long that was."""
    with Shakes(pid) as shakes:
        used = -used_ns(pid)
        for _ in range(TIMES):
            felt_ns(port)
        used += used_ns(pid)
    assert {single["ending"] for single in shakes.singles} == {"success"}
    assert len(shakes.singles) == TIMES
    assert spent_ns(split(shakes.singles), "on_cpu") <= used
    assert not any(shakes.document["losses"].values())
    assert shakes.document["handshakes"]["unsplit"] == 0
    return shakes, used


def test_a_goroutine_that_keeps_its_thread_has_all_of_its_time_on_a_processor() -> None:
    with server(NEWEST, signing=SIGNING) as (pid, port):
        shakes, used = shaken(pid, port)
    known = split(shakes.singles)
    assert len(known) > TIMES / 2
    assert all(single["parts_ns"]["private_key"] >= SIGNING_NS for single in known)
    assert all(
        single["parts_ns"]["calls"] == single["parts_ns"].get("on_cpu", 0) + single["parts_ns"].get("off_cpu", 0)
        for single in known
    )
    assert spent_ns(known, "on_cpu") > 0.5 * used * len(known) / TIMES
    slept = spent_ns(known, "off_cpu") - spent_ns(known, "off_cpu_runnable")
    assert slept < 0.1 * spent_ns(known, "calls"), "it works all the while"


def test_a_thread_without_a_processor_shows_in_its_handshakes() -> None:
    """Its signatures look slow, and it is told that they aren't."""
    processor = min(os.sched_getaffinity(0))
    with neighbours(processor, 2), server(NEWEST, signing=SIGNING, before=("taskset", "-c", str(processor))) as (pid, port):
        shakes, _ = shaken(pid, port)
    known = split(shakes.singles)
    assert known
    assert spent_ns(known, "off_cpu") > 0.03 * spent_ns(known, "calls"), "the scheduler favours who has slept"
    assert spent_ns(known, "off_cpu_runnable") > 0.9 * spent_ns(known, "off_cpu")


def test_nothing_is_told_of_a_goroutine_that_gave_way_to_another() -> None:
    """The runtime takes a processor away after 10 ms, of which no clock of the kernel's knows."""
    with server(NEWEST, working=1, signing="30ms") as (pid, port):
        shakes, _ = shaken(pid, port)
    assert split(shakes.singles) == []
    assert min(single["parts_ns"]["private_key"] for single in shakes.singles) >= 10 * SIGNING_NS
