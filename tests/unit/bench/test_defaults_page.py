# SPDX-License-Identifier: Apache-2.0
"""The page about the defaults, of measurements that are known."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests import programs
from tests.waiting import wait_for

from bench.defaults.borders import END, START
from bench.defaults.half_load import P50, P99, quantile, times_us
from bench.defaults.page import half_table, kept_table
from bench.defaults.runs import commands, some
from bench.defaults.servers import bytes_acknowledged
from bench.defaults.turns import in_turns, make_page
from bench.defaults.twin import with_descendants
from bench.measuring.intervals import Pair
from bench.measuring.rounds import COST, Measured, Sample, Visit
from bench.measuring.tracers import AGAIN, BenchError, Tracer


def measured(**traced: list[float]) -> Measured:
    """Units that cost 10 without tracing."""

    def sample(value: float) -> Sample:
        return {COST: value, P50: value, P99: 3 * value}

    visits = {name: [Visit(sample(10), sample(value), sample(10)) for value in values] for name, values in traced.items()}
    return Measured(visits)


def test_what_is_kept_is_a_part_of_the_rate_and_what_was_not_measured_is_left_out() -> None:
    text = kept_table({"nginx": measured(trace=[10.0, 12.5], top=[10.0, 10.0]), "haproxy": measured(trace=[20.0, 20.0])})
    heading, _, trace, top = text.splitlines()
    assert heading == "|  | nginx | haproxy |"
    assert trace.startswith("| trace | 90.0 % (")
    assert trace.endswith("| 50.0 % (50.0 to 50.0) |")
    assert top == "| top | 100.0 % (100.0 to 100.0) |  |"


class Drifting:
    """A work that costs more each time, and 10 more with a tracer."""

    def __init__(self) -> None:
        self.cost = 90.0

    @contextmanager
    def round(self) -> Iterator[None]:
        yield

    def untraced(self) -> Sample:
        self.cost += 10.0
        return {COST: self.cost}

    def traced(self, tracer: Tracer) -> Sample:
        return {COST: self.untraced()[COST] + (10.0 if tracer.command else 0.0)}


def test_a_turn_is_compared_with_its_neighbours() -> None:
    pairs = in_turns(Drifting(), some("trace"), 2)
    assert pairs == {
        AGAIN: [Pair(110.0, 110.0), Pair(150.0, 150.0)],
        "trace": [Pair(130.0, 140.0), Pair(170.0, 180.0)],
    }


def test_a_page_of_turns_says_how_many_there_were() -> None:
    turns = {"nginx": {"trace": [Pair(9.0, 10.0)] * 5}}
    borders = {border: {"trace": [Pair(8.0, 10.0)] * 3} for border in (START, END)}
    text = make_page(turns, borders, "A hit takes 1 ns.", 1.0, (5, 3))
    assert "5 times" in text
    assert "run, 3 times" in text
    assert "| trace | 90.0 % (90.0 to 90.0) |" in text
    assert "| trace | 80.0 % (80.0 to 80.0) | 80.0 % (80.0 to 80.0) |" in text


def test_latencies_stand_beside_each_other() -> None:
    assert half_table(measured(trace=[11.0, 13.0])).splitlines()[-1] == "| trace | 10 | 12 | 30 | 36 |"


def test_requests_that_failed_have_no_time() -> None:
    assert times_us("1\t200\t30\n2\t500\t5\n3\t200\t10\n") == [10, 30]
    with pytest.raises(BenchError, match="no request succeeded"):
        times_us("1\t500\t5\n")
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 3.0
    assert quantile([1.0], 0.99) == 1.0


def test_what_a_port_has_sent_is_told_by_its_sockets() -> None:
    programs.needed("ss")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client, listening.accept()[0] as served:
            client.sendall(b"SELECT 1")
            served.sendall(b"x" * 1000)
            assert len(client.recv(1000, socket.MSG_WAITALL)) == 1000
            wait_for(lambda: bytes_acknowledged(port) >= 1000)  # TCP counts what opens and closes a connection, too
            assert bytes_acknowledged(port) <= 1002


def test_a_server_is_all_the_processes_that_it_started() -> None:
    with subprocess.Popen(["sh", "-c", "echo $$; sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, text=True) as shell:
        try:
            assert shell.stdout
            pids = [int(shell.stdout.readline()) for _ in range(2)]
            assert with_descendants(shell.pid) == pids
        finally:
            subprocess.run(["kill", *map(str, pids)], check=True)
    assert with_descendants(shell.pid) == []


def test_each_command_that_traces_has_a_row_and_nothing_but_a_target() -> None:
    names = {tracer.name for tracer in commands()}
    assert names == {AGAIN, "trace", "handshakes", "record", "snoop", "top", "watch", "export"}
    assert not any(word in ("--budget", "--exact") for tracer in commands() for word in tracer.command)
    assert [tracer.name for tracer in some("trace")] == [AGAIN, "trace"]
