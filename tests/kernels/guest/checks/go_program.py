# SPDX-License-Identifier: Apache-2.0
"""A Go program, the one of tests/go, whose goroutines change threads and whose stacks move: each count is its own. Its
goroutines are seen to wait for their peers, which some kernels tell by the register of a thread that is in a system call.

Labels, phases, callbacks, keys elsewhere and help with collections, whose sites are found in the code of each architecture, are
those that the program says."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.kernels.guest.servers import Handshakes
from tests.live.commands.trace import Trace, count, losses
from tests.live.servers.queues import felt_ns

PROGRAM = Path(__file__).resolve().parents[4] / "build" / "go-program"
_CONNECTIONS = "80"
_HANDSHAKES = ("serverHandshake", "clientHandshake")
_EVERY = ("--role", "any")
_NEGOTIATED = ("sni", "version", "cipher", "resumed", "alpn", "client_certificate")
_USED_NS = 3_000_000  # by each use of a key elsewhere, at least
_WASTEFUL = 8  # connections

Group = dict[str, Any]


@contextmanager
def _program(*arguments: str, **settings: str) -> Iterator[subprocess.Popen[str]]:
    """The program, ready, until the end of the block; with these in its environment."""
    assert PROGRAM.is_file(), "run tools/for-tests/setup-go"
    environment = os.environ | settings
    with subprocess.Popen(
        [PROGRAM, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process


def _run(process: subprocess.Popen[str]) -> Any:
    """Has it make its connections, and ends it; what it says of them."""
    said, _ = process.communicate("x", timeout=300)
    return json.loads(said)


def counted(*options: str) -> dict[str, Any]:
    """By `trace`, and by `handshakes` at the same time."""
    with (
        _program(_CONNECTIONS) as process,
        Trace(process.pid, options=(*_EVERY, *options)) as trace,
        Handshakes(process.pid, options=(*_EVERY, "--by", "role", *options)) as handshakes,
    ):
        own: dict[str, dict[str, int]] = _run(process)
    left = own["serverHandshake"].pop("left")
    assert losses(trace.document) == losses(handshakes.document) == {"left": left}
    seen = {
        name: {outcome: count(trace.document, f"tls.Conn.{name}", outcome) for outcome in outcomes}
        for name, outcomes in own.items()
    }
    assert seen == own, f"counted and expected differ: {seen} and {own}"
    ended = Counter[tuple[str, bool]]()
    for group in handshakes.document["handshakes"]["groups"]:
        ended[f"{group['labels']['role']}Handshake", group["ending"] == "success"] += group["parts"]["wall"]["count"]
    expected = {(name, outcome == "success"): number for name in _HANDSHAKES for outcome, number in own[name].items()}
    assert ended == expected, f"counted and expected differ: {ended} and {expected}"
    parts = Counter[str]()
    for group in handshakes.document["handshakes"]["groups"]:
        parts.update({part: times["count"] for part, times in group["parts"].items()})
    assert parts["wait_peer"] + parts["wait_peer_or_server"], f"no wait for a peer was seen: {parts}"
    return {"handshakes": sum(expected.values())}


def parts_told() -> dict[str, Any]:
    """Servers of several kinds at once: their labels, and the parts of their handshakes."""
    with ExitStack() as running:
        labels, signers, callbacks = (running.enter_context(_program(kind)) for kind in ("labels", "signers", "callbacks"))
        wasteful = [
            running.enter_context(_program("wasteful", "0", "0s", GOGC=growth, GOMAXPROCS="1")) for growth in ("1", "off")
        ]
        ports = [process.stdout.readline().strip() for process in wasteful if process.stdout]
        pids = [process.pid for process in (labels, signers, callbacks, *wasteful)]
        with Handshakes(*pids, options=("--by", ",".join((*_NEGOTIATED, "port")))) as command:
            negotiated, used, called = (_run(process) for process in (labels, signers, callbacks))
            for port in ports:
                for _ in range(_WASTEFUL):
                    felt_ns(int(port))
    assert losses(command.document) == {}, f"lost: {losses(command.document)}"
    groups: list[Group] = command.document["handshakes"]["groups"]
    assert {group["ending"] for group in groups} == {"success"}
    _assert_negotiated([group for group in groups if _name(group) in {words.split()[0] for words in negotiated}], negotiated)
    _assert_keys_elsewhere(groups, used)
    _assert_callbacks([group for group in groups if _name(group) in ("plain.test", "asked.test", "fresh.test")], called)
    _assert_help(*([group for group in groups if group["labels"]["port"] == port] for port in ports))
    return {"handshakes": _number(groups)}


def _name(group: Group) -> str | None:
    name: str | None = group["labels"]["sni"]
    return name


def _number(groups: list[Group], part: str = "wall") -> int:
    """How many of these handshakes have that part."""
    return sum(group["parts"][part]["count"] for group in groups if part in group["parts"])


def _ns(groups: list[Group], part: str) -> int:
    return sum(group["parts"][part]["total_ns"] for group in groups if part in group["parts"])


def _assert_negotiated(groups: list[Group], negotiated: dict[str, int]) -> None:
    seen = Counter[str]()
    for group in groups:
        seen[" ".join(str(group["labels"][label]) for label in _NEGOTIATED)] += group["count"]
    assert seen == negotiated, f"counted and expected differ: {seen} and {negotiated}"
    resumed = [group for group in groups if group["labels"]["resumed"] == "yes"]
    full = [group for group in groups if group["labels"]["resumed"] == "no"]
    assert _number(full, "private_key") == _number(full, "key_exchange") == _number(full)
    assert (_number(resumed, "private_key"), _number(resumed, "session_lookup")) == (0, _number(resumed))


def _assert_keys_elsewhere(groups: list[Group], used: dict[str, int]) -> None:
    """Each use takes its time; clients use as many as servers sign with."""
    elsewhere = [group for group in groups if _name(group) in ("signs-old.test", "signs-new.test", "decrypts.test")]
    assert _number(elsewhere, "private_key") == used["sign"] // 2 + used["decrypt"]
    assert all(group["parts"]["private_key"]["min_ns"] > _USED_NS for group in elsewhere)


def _assert_callbacks(groups: list[Group], called: dict[str, Any]) -> None:
    said_ns = called["Nanoseconds"]["server"] + called["Nanoseconds"]["server checks"]
    assert _number(groups, "callbacks") == _number(groups)
    assert said_ns <= _ns(groups, "callbacks") <= _ns(groups, "calls")


def _assert_help(collecting: list[Group], hoarding: list[Group]) -> None:
    assert _number(collecting) == _number(hoarding) == _WASTEFUL
    assert 0 < _ns(collecting, "assists") < _ns(collecting, "calls")
    assert _number(hoarding, "assists") == 0
