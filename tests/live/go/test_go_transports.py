# SPDX-License-Identifier: Apache-2.0
"""Handshakes over all kinds of transports of a Go program, with clients that are late: where it isn't known whom they wait
for, that is said, and it is never told as the server's own work. And goroutines that never come back, more than there is room
for."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.live.commands.handshakes import PHASES, Shakes, endings, spent_ns
from tests.live.commands.trace import Trace, losses
from tests.live.go.test_go import NEEDED, built, traced
from tests.live.go.test_go_handshakes import started
from tests.live.handshakes.test_queue import said

pytestmark = pytest.mark.usefixtures("tracing")

TIMES = 20  # of tests/go/transports.go
OWN_WORK = {"private_key", "key_exchange", "peer_verification", "session_lookup", "callbacks", "own_work", "asleep_in_calls"}
ROOM = 49_152  # goroutines with a call that runs, of one process
SILENT = 50_000
FEW = "80"
EMBEDDED = ("embedded", "larger", "pointed", "wrapped-embedded", "embedded-beside")  # a *net.TCPConn
OTHERS = ("second-of-two", "second-of-two-embedded")


def shaken(name: str, transport: str) -> tuple[Shakes, int]:
    """Its handshakes at the server, each of which succeeded, and how long the clients were late in all."""
    with started(name, transport) as program, Shakes(program.pid, options=("--by", "port,peer")) as shakes:
        late_ns = program.run()["late_ns"]
    assert endings(shakes.document) == {"success": TIMES}
    assert losses(shakes.document) == {}
    for parts in (single["parts_ns"] for single in shakes.singles):
        assert parts["calls"] == sum(parts.get(phase, 0) for phase in PHASES)
    return shakes, late_ns


@pytest.mark.parametrize("name", NEEDED)
@pytest.mark.parametrize("transport", ["tcp", "unix", "wrapped", "wrapped-twice", *EMBEDDED])
def test_over_a_socket_it_waits_for_its_peer(name: str, transport: str) -> None:
    """Also where another package has put something around the socket, as an interface or as what it is. Of a Unix socket it
    isn't seen when bytes arrive."""
    shakes, late_ns = shaken(name, transport)
    is_local = transport == "unix"
    assert spent_ns(shakes.singles, "wait_peer_or_server" if is_local else "wait_peer") >= 0.9 * late_ns
    assert spent_ns(shakes.singles, "wait_unknown") == shakes.document["handshakes"]["slept"] == 0
    assert spent_ns(shakes.singles, "calls") < late_ns
    assert {single["labels"]["port"] == "none" for single in shakes.singles} == {is_local}
    assert {single["labels"]["peer"] for single in shakes.singles} == {"unix socket" if is_local else "127.0.0.0/24"}


@pytest.mark.parametrize("name", NEEDED)
def test_a_look_at_what_has_come_is_no_wait(name: str) -> None:
    """The server looks whether there is anything to read, finds nothing, and is as late as its clients then."""
    shakes, late_ns = shaken(name, "peeking")
    assert 0.9 * late_ns <= spent_ns(shakes.singles, "wait_peer") < 1.5 * late_ns
    assert spent_ns(shakes.singles, "rest") >= 0.9 * late_ns
    assert spent_ns(shakes.singles, "wait_unknown") == spent_ns(shakes.singles, "wait_window") == 0
    assert shakes.document["handshakes"]["slept"] == 0


@pytest.mark.parametrize("name", NEEDED)
@pytest.mark.parametrize("transport", ["hidden", "behind", "neighbour", *OTHERS])
def test_what_is_around_a_socket_in_another_way_is_not_known(name: str, transport: str) -> None:
    """Its socket isn't what comes first: a number does, or a pointer behind which another connection's lies, or a socket that
    it doesn't read, which is the one whose port and peer may be told."""
    shakes, late_ns = shaken(name, transport)
    assert spent_ns(shakes.singles, "wait_unknown") >= 0.9 * late_ns
    assert spent_ns(shakes.singles, "wait_peer") == spent_ns(shakes.singles, "queue_server") == 0
    assert spent_ns(shakes.singles, "calls") < late_ns
    if transport not in OTHERS:
        assert {(single["labels"]["port"], single["labels"]["peer"]) for single in shakes.singles} == {(None, None)}
    assert not OWN_WORK & {sentence.rule.name for sentence in said(shakes)}


@pytest.mark.parametrize("name", NEEDED)
@pytest.mark.parametrize("transport", ["pipe", "pumped"])
def test_waits_for_other_goroutines_are_not_told_as_the_servers_work(name: str, transport: str) -> None:
    """They are waits in channels, of which nothing is seen: of net.Pipe, and of a socket that a goroutine of its own reads."""
    shakes, late_ns = shaken(name, transport)
    assert shakes.document["handshakes"]["slept"] == TIMES, "the report says so"
    assert spent_ns(shakes.singles, "wait_peer") == 0
    assert spent_ns(shakes.singles, "rest") >= 0.9 * late_ns
    assert {single["labels"]["port"] is None for single in shakes.singles} == {transport == "pipe"}
    assert not OWN_WORK & {sentence.rule.name for sentence in said(shakes)}


@contextmanager
def silent(name: str) -> Iterator[subprocess.Popen[str]]:
    """A program whose goroutines are to begin so many handshakes that never end."""
    words = [str(built(name)), "silent", str(SILENT)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_goroutines_that_never_return_leave_room_for_another_program() -> None:
    name = NEEDED[-1]
    with (
        silent(name) as greedy,
        started(name, FEW) as honest,
        Trace(greedy.pid, honest.pid, options=("--role", "any")) as trace,
        Shakes(greedy.pid, honest.pid, options=("--role", "any", "--by", "role")) as shakes,
    ):
        assert greedy.stdin
        assert greedy.stdout
        print(file=greedy.stdin, flush=True)
        assert greedy.stdout.readline() == "all\n"
        own = honest.run()
    left = own["serverHandshake"]["left"]
    calls = traced(trace.document)
    assert losses(trace.document) == {"map_full": SILENT - ROOM}
    assert losses(shakes.document) == {"map_full": SILENT - ROOM, "left": left}
    assert trace.document["in_flight"] == ROOM
    assert calls == own
    ended = sum(sum(own[f"{role}Handshake"].values()) for role in ("server", "client")) - left
    assert len(shakes.singles) == ended
    told = shakes.document["handshakes"]
    assert told["in_flight"] + told["dropped"] == ROOM
