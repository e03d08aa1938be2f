# SPDX-License-Identifier: Apache-2.0
"""Whose time it is in a Go program: a cause is planted in the server or in its client, and the parts, the sentence and the
client's own clock must agree on it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import pytest

from ssllatency.reports.diagnosis.numbers import FEWEST
from tests.live.clients.counted import TLS_1_2
from tests.live.clients.slow import slow_to_shake_hands
from tests.live.commands.handshakes import MEANWHILE, Shakes
from tests.live.go.test_go import NEEDED, built
from tests.live.handshakes.test_queue import said, sentences, sums
from tests.live.servers.queues import felt_ns, quota
from tests.machine import NEEDS_QUIET

pytestmark = [pytest.mark.usefixtures("tracing"), NEEDS_QUIET]
TIMES = 32
LATE_S = 0.05
PRIORITY = -15


@pytest.fixture
def prompt_clients() -> Iterator[None]:
    """The clients come before what else wants their processors, where this may be asked for."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    yield
    os.setpriority(os.PRIO_PROCESS, 0, before)


@contextmanager
def server(
    name: str, working: int = 0, signing: str = "0s", *, work: str = "busy", before: Sequence[str] = (), growth: str = "100"
) -> Iterator[tuple[int, int]]:
    """A server on one processor at a time, with so many goroutines at such a work (of tests/go/main.go), whose key works for so
    long: its PID and port. `before`: a command that becomes the server; `growth`: its GOGC."""
    process = subprocess.Popen(
        [*before, str(built(name)), work, str(working), signing],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"GOMAXPROCS": "1", "GOGC": growth},
    )
    try:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process.pid, int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


@pytest.mark.usefixtures("prompt_clients")
@pytest.mark.parametrize(("name", "work"), [*((name, "busy") for name in NEEDED), (NEEDED[-1], "littering")])
def test_goroutines_that_wait_for_others_are_in_the_servers_queue(name: str, work: str) -> None:
    """One that makes garbage all the time helps to collect it, too. The server comes before others as well, which are as true a
    cause."""
    first = ("nice", "-n", str(PRIORITY))
    with server(name, working=1, work=work, before=first) as (pid, port), Shakes(pid) as shakes:
        felt = [felt_ns(port) for _ in range(TIMES)]
    parts = sums(shakes)
    assert len(shakes.singles) == TIMES
    assert parts["queue"] > 0.5 * parts["client_wait"]
    assert parts["queue_goroutines"] + parts.get("queue_collections", 0) > 0.5 * parts["queue"]
    assert (parts.get("queue_collections", 0) > 0) == (work == "littering")
    assert sum(parts.get(part, 0) for part in MEANWHILE) <= parts["queue"]
    assert parts.get("wait_peer", 0) < 0.2 * parts["queue"]
    assert "wait_peer_or_server" not in parts
    assert parts["queue_start"] + parts["wall"] == parts["client_wait"]
    assert parts["wait_hello"] + parts["client_wait"] == pytest.approx(sum(felt), rel=0.15)
    assert said(shakes)[0].rule.name in {"other_goroutines", *(["collections"] if work == "littering" else [])}
    assert not any(shakes.document["losses"].values())


@pytest.mark.parametrize("name", NEEDED)
def test_collections_all_the_time_are_told_and_the_same_garbage_without_them_is_not(name: str) -> None:
    """A little garbage beside much that is kept: collected whenever that has grown by a hundredth, or never."""
    rules, collected = {}, {}
    for work in ("collecting", "hoarding"):
        with server(name, working=1, work=work) as (pid, port), Shakes(pid) as shakes:
            for _ in range(2 * TIMES):
                felt_ns(port)
        assert {single["ending"] for single in shakes.singles} == {"success"}
        assert not any(shakes.document["losses"].values())
        parts = sums(shakes)
        assert sum(parts.get(part, 0) for part in MEANWHILE) <= parts["queue"]
        collected[work] = parts.get("queue_collections", 0)
        assert collected[work] > parts.get("queue_goroutines", 0) or work == "hoarding"
        rules[work] = {diagnosis.rule.name for diagnosis in said(shakes)}
    assert "collections" in rules["collecting"]
    assert not {"collections", "other_goroutines"} & rules["hoarding"]
    assert collected["hoarding"] == 0


@pytest.mark.parametrize("name", NEEDED)
def test_goroutines_that_help_with_collections_are_told_and_without_any_they_give_no_help(name: str) -> None:
    """The garbage is the handshakes' own, beside much that is kept."""
    for work in ("collecting", "hoarding"):
        with server(name, work=work) as (pid, port), Shakes(pid) as shakes:
            for _ in range(3 * TIMES):
                felt_ns(port)
        assert not any(shakes.document["losses"].values())
        assert {single["ending"] for single in shakes.singles} == {"success"}
        assert all(single["parts_ns"].get("assists", 0) <= single["parts_ns"]["calls"] for single in shakes.singles)
        parts, rules = sums(shakes), {diagnosis.rule.name for diagnosis in said(shakes)}
        assert (parts.get("assists", 0) > 0) == (work == "collecting")
        assert "assists" not in rules or parts["assists"] > 0.04 * parts["client_wait"]


@pytest.mark.parametrize("name", NEEDED)
@pytest.mark.parametrize("growth", ["1", "off"])
def test_help_that_clients_feel_is_told_and_the_same_garbage_without_collections_is_not(name: str, growth: str) -> None:
    """Handshakes whose garbage has a hundredth of what is kept for its room, or all that it wants."""
    with server(name, work="wasteful", growth=growth) as (pid, port), Shakes(pid) as shakes:
        felt = [felt_ns(port) for _ in range(2 * TIMES)]
    assert {single["ending"] for single in shakes.singles} == {"success"}
    assert len(shakes.singles) == len(felt)
    assert not any(shakes.document["losses"].values())
    parts, rules = sums(shakes), {diagnosis.rule.name for diagnosis in said(shakes)}
    assert all("callbacks" in single["parts_ns"] for single in shakes.singles)
    assert all(single["parts_ns"].get("assists", 0) <= single["parts_ns"]["calls"] for single in shakes.singles)
    assert ("assists" in rules) == (growth == "1")
    if growth == "off":
        assert "assists" not in parts
    else:
        assert 0.1 * sum(felt) < parts["assists"] < sum(felt)


def test_a_quota_that_holds_a_go_program_is_told() -> None:
    with server(NEEDED[-1], working=1) as (pid, port), quota(pid, 0.1), Shakes(pid) as shakes:
        felt = [felt_ns(port) for _ in range(FEWEST)]
    parts = sums(shakes)
    assert parts["queue_throttled"] > 0.5 * parts["queue"]
    assert said(shakes)[0].rule.name == "cpu_quota"
    assert parts["wait_hello"] + parts["client_wait"] == pytest.approx(sum(felt), rel=0.05)
    assert not any(shakes.document["losses"].values())


def test_a_quota_that_is_not_reached_is_not_told() -> None:
    with server(NEEDED[-1]) as (pid, port), quota(pid, 0.9), Shakes(pid) as shakes:
        for _ in range(TIMES):
            felt_ns(port)
    assert {single["ending"] for single in shakes.singles} == {"success"}
    assert "queue_throttled" not in sums(shakes)
    assert not {"cpu_quota", "other_goroutines"} & {diagnosis.rule.name for diagnosis in said(shakes)}
    assert not any(shakes.document["losses"].values())


def test_a_slow_client_is_not_told_as_a_late_go_program() -> None:
    with server(NEEDED[-1]) as (pid, port), Shakes(pid) as shakes:
        for _ in range(TIMES):
            slow_to_shake_hands(TLS_1_2, port, lambda: time.sleep(LATE_S))
    parts = sums(shakes)
    assert parts["wait_peer"] > TIMES * LATE_S * 1e9
    assert parts["wait_peer"] > 0.8 * parts["wall"]
    assert parts["queue"] < 0.1 * parts["wait_peer"]
    assert not any(part in parts for part in ("queue_other", "queue_handshakes", "queue_asleep"))
    (sentence,) = sentences(shakes)
    assert "the clients take their time, or the network delays them, given" in sentence
    assert not any(shakes.document["losses"].values())


def test_nothing_is_said_of_a_prompt_go_program_and_prompt_clients() -> None:
    with server(NEEDED[-1]) as (pid, port), Shakes(pid) as shakes:
        for _ in range(2 * TIMES):
            felt_ns(port)
    assert {single["ending"] for single in shakes.singles} == {"success"}
    assert any("queue_server" in single["parts_ns"] for single in shakes.singles)
    assert [sentence for sentence in sentences(shakes) if "queue" in sentence or "waiting" in sentence] == []
    assert not any(shakes.document["losses"].values())
