# SPDX-License-Identifier: Apache-2.0
"""Whose time it is: a cause is planted in the server or in its client, and the parts, the sentence and the client's own clock
must agree on it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

import pytest

from ssllatency.reports.diagnosis.diagnosis import Diagnosis, diagnoses
from ssllatency.reports.documents.document import from_document
from tests.live.clients.counted import TLS_1_2, h2load
from tests.live.clients.slow import slow
from tests.live.commands.handshakes import MEANWHILE, Shakes, SlowLines, assert_books
from tests.live.handshakes.test_diagnosis import prompt
from tests.live.servers.nginx import Nginx, Settings
from tests.live.servers.python_ssl import TlsServer, TlsSettings
from tests.live.servers.queues import Late, felt_at_once_ns, felt_ns, late_server, on_a_busy_processor, quota, stopped_often
from tests.machine import NEEDS_QUIET

pytestmark = [pytest.mark.usefixtures("tracing"), NEEDS_QUIET]
TIMES = 32
LATE_S = 0.03
# What is said of a queue by what the thread did meanwhile: the rule, and its words.
SAID = {
    "queue_handshakes": ("saturated", "busy with other handshakes"),
    "queue_other": ("blocked_loop", "busy with something else than handshakes"),
    "queue_runnable": ("neighbours", "ready to run but had no processor"),
    "queue_throttled": ("cpu_quota", "held by a CPU quota"),
    "queue_asleep": ("asleep_elsewhere", "slept elsewhere"),
}
Plant = Callable[[int], AbstractContextManager[None]]


def sums(shakes: Shakes, last: int = 0) -> dict[str, int]:
    """The time of each part in so many handshakes that came last; in all of them."""
    total: dict[str, int] = {}
    for single in shakes.singles[-last:]:
        for part, time_ns in single["parts_ns"].items():
            total[part] = total.get(part, 0) + time_ns
    return total


def said(shakes: Shakes) -> list[Diagnosis]:
    handshakes = from_document(shakes.document).handshakes
    assert handshakes
    return diagnoses(handshakes)


def sentences(shakes: Shakes) -> list[str]:
    return [diagnosis.sentence for diagnosis in said(shakes)]


def assert_said_first(shakes: Shakes, doing: str) -> None:
    """The queue, and what the thread did."""
    rule, words = SAID[doing]
    first = said(shakes)[0]
    assert first.rule.name == rule
    assert words in first.sentence


def nothing(_: int) -> AbstractContextManager[None]:
    return nullcontext()


# The server's own lateness and what is done to it, by what its thread does while bytes lie in its queue.
CAUSES: dict[str, tuple[Late, Plant]] = {
    "queue_asleep": (Late(sleep_s=LATE_S), nothing),
    "queue_other": (Late(spin_s=LATE_S), nothing),
    "queue_runnable": (Late(spin_s=LATE_S / 5), on_a_busy_processor),
    "queue_throttled": (Late(spin_s=LATE_S / 5), lambda pid: quota(pid, 0.1)),
}


@pytest.mark.parametrize("part", CAUSES)
def test_a_server_that_is_late_is_told_with_the_cause(certificates: Path, part: str) -> None:
    late, plant = CAUSES[part]
    with late_server(certificates, late) as (pid, port), plant(pid), Shakes(pid) as shakes:
        felt = [felt_ns(port) for _ in range(TIMES)]
    parts = sums(shakes)
    assert len(shakes.singles) == TIMES
    assert max(MEANWHILE, key=lambda name: parts.get(name, 0)) == part
    assert parts[part] > 0.5 * parts["queue"]
    assert parts.get("wait_peer", 0) < 0.2 * parts["queue"]
    assert "wait_peer_or_server" not in parts
    assert parts["queue_start"] + parts["wall"] == parts["client_wait"] == pytest.approx(sum(felt), rel=0.05)
    assert_said_first(shakes, part)
    assert_books(shakes)


def test_a_queue_before_the_first_call_makes_a_handshake_slow(certificates: Path) -> None:
    """No wall time is as long as the bound: what is before it counts as well."""
    bound_s = 1.5 * LATE_S
    with (
        late_server(certificates, Late(sleep_s=LATE_S)) as (pid, port),
        Shakes(pid, options=("--over", f"{bound_s}s")) as shakes,
    ):
        felt = [felt_ns(port) for _ in range(TIMES)]
    least, most = (sum(waited_ns > share * bound_s * 1e9 for waited_ns in felt) for share in (1.05, 0.95))
    assert 0 < least <= len(shakes.singles) <= most
    assert any(single["parts_ns"]["wall"] < bound_s * 1e9 for single in shakes.singles)


def test_slow_handshakes_are_shown_as_they_end_with_their_queue(certificates: Path) -> None:
    with late_server(certificates, Late(sleep_s=LATE_S)) as (pid, port), SlowLines(pid, over="1us") as slow_ones:
        felt = [felt_ns(port) for _ in range(3)]
    singles = slow_ones.text.partition(", kernel ")[0]  # before the report
    shown = re.findall(r"^  ([\d.]+) ms  .* \(\d+\), successful, .*\n    \|[b\u259e]+[^|]*\|$", singles, re.MULTILINE)
    assert len(shown) == len(felt)
    for waited_ms, client_ns in zip(map(float, shown), felt, strict=True):
        assert (
            LATE_S * 1e3 <= waited_ms <= 1.05 * client_ns / 1e6
        )  # the wall time of one that ended in a single call is far less
    assert len(re.findall(r"; queue [\d.]+ ms", " ".join(singles.split()))) == len(felt)
    assert re.search(r"; queue [\d.]+ ms \(asleep [\d.]+ ms", " ".join(singles.split()))


def test_a_server_that_is_stopped_is_asleep(certificates: Path) -> None:
    with late_server(certificates, Late()) as (pid, port), Shakes(pid) as shakes, stopped_often(pid, LATE_S, LATE_S / 10):
        felt = [felt_ns(port) for _ in range(TIMES)]
    parts = sums(shakes)
    assert parts["queue_asleep"] > 0.5 * parts["queue"]
    assert parts["queue_start"] + parts["wall"] == pytest.approx(sum(felt), rel=0.05)
    assert_said_first(shakes, "queue_asleep")
    assert_books(shakes)


def test_a_saturated_server_is_busy_with_other_handshakes(certificates: Path) -> None:
    with late_server(certificates, Late(callback_s=0.01)) as (pid, port), Shakes(pid) as shakes:
        felt = felt_at_once_ns(port, clients=6, times=10)
    parts = sums(shakes)
    assert parts["queue_handshakes"] > 0.5 * parts["queue"]
    assert parts["queue"] > parts["calls"]
    assert parts["queue_start"] + parts["wall"] == pytest.approx(sum(felt), rel=0.05)
    assert_said_first(shakes, "queue_handshakes")
    assert_books(shakes)


@pytest.mark.parametrize("clients", [20, 60])
def test_what_a_saturated_server_did_is_known_of_queues_of_any_length(certificates: Path, clients: int) -> None:
    """Of the time before the first call above all: its calls are short, and the queue of many clients reaches far back."""
    with Nginx(certificates, Settings(tickets=False)) as server, Shakes(server.master_pid) as shakes:
        assert h2load(server.port["rsa"], 1200, parallel=clients) == 1200
        server.wait_idle()
    parts = sums(shakes)
    assert sum(parts[part] for part in MEANWHILE if part in parts) > 0.9 * parts["queue"]
    assert_books(shakes)


def test_a_quota_is_told_from_neighbours_inside_calls(certificates: Path) -> None:
    """Nearly all of the server's work is its key's, so that the quota is used up in calls."""
    settings = TlsSettings("rsa4096", timeout_s=0)
    with TlsServer(certificates, settings) as server, quota(server.pid, 0.1), Shakes(server.pid) as shakes:
        prompt(server.port)
        server.ends()
    parts = sums(shakes)
    assert parts["off_cpu_throttled"] > 0.8 * parts["off_cpu_runnable"]
    assert_said_first(shakes, "queue_throttled")
    assert_books(shakes)


def test_an_application_that_writes_a_flight_late_owns_that_time(certificates: Path) -> None:
    """Its client waits for the flight meanwhile, and gets the last one as late, which no call comes after."""
    with late_server(certificates, Late(write_s=LATE_S, pieces=1)) as (pid, port), Shakes(pid) as shakes:
        shakes.learn(lambda: felt_ns(port))
        felt = [felt_ns(port) for _ in range(TIMES)]
    parts = sums(shakes, TIMES)
    assert parts["wait_application"] > TIMES * LATE_S * 1e9
    assert parts["wait_peer"] < 0.1 * parts["wait_application"]
    assert "wait_peer_or_server" not in parts
    assert parts["queue_start"] + parts["wall"] == pytest.approx(sum(felt) - TIMES * LATE_S * 1e9, rel=0.05)
    assert said(shakes)[0].rule.name == "application_waits"
    assert_books(shakes)


def test_whose_time_it_was_is_not_guessed_where_a_flight_is_written_in_pieces(certificates: Path) -> None:
    """The kernel may have held the last one back until the client had acknowledged the first."""
    with late_server(certificates, Late(write_s=LATE_S, pieces=3)) as (pid, port), Shakes(pid) as shakes:
        shakes.learn(lambda: felt_ns(port))
        for _ in range(TIMES):
            felt_ns(port)
    parts = sums(shakes, TIMES)
    assert parts["wait_peer_or_server"] > TIMES * LATE_S * 1e9
    assert "wait_application" not in parts
    assert parts.get("wait_peer", 0) < 0.1 * parts["wait_peer_or_server"]
    assert_books(shakes)


def test_a_slow_client_is_not_told_as_a_late_server(certificates: Path) -> None:
    with late_server(certificates, Late()) as (pid, port), Shakes(pid) as shakes:
        for _ in range(TIMES):
            with suppress(OSError):  # the server closes without reading the request
                slow(TLS_1_2, port, lambda: time.sleep(LATE_S))
    parts = sums(shakes)
    assert parts["wait_peer"] > TIMES * LATE_S * 1e9
    assert parts["wait_peer"] > 0.8 * parts["wall"]
    assert parts["round_trips"] < 0.1 * parts["wait_peer"]
    (sentence,) = sentences(shakes)
    assert "waiting for the peer and the network" in sentence
    assert "the clients take their time, or the network delays them, given" in sentence
    assert_books(shakes)


def test_nothing_is_said_of_a_prompt_server_and_prompt_clients(certificates: Path) -> None:
    with late_server(certificates, Late()) as (pid, port), Shakes(pid) as shakes:
        for _ in range(4 * TIMES):
            felt_ns(port)
    assert {single["ending"] for single in shakes.singles} == {"success"}
    assert any("queue_server" in single["parts_ns"] for single in shakes.singles)
    assert [sentence for sentence in sentences(shakes) if "queue" in sentence or "waiting" in sentence] == []
    assert_books(shakes)


def test_a_blocking_server_waits_for_its_client(certificates: Path) -> None:
    """Its thread sleeps in read(): what it waits for is the client, but for the moment until it runs again."""
    with TlsServer(certificates, TlsSettings(timeout_s=0)) as server, Shakes(server.pid) as shakes:
        for _ in range(8):
            slow(TLS_1_2, server.port, lambda: time.sleep(LATE_S))
    parts = sums(shakes)
    assert parts["wait_peer"] > 8 * LATE_S * 1e9
    assert parts["queue_server"] < 0.2 * parts["wait_peer"]
    assert_books(shakes)
