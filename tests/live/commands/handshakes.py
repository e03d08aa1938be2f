# SPDX-License-Identifier: Apache-2.0
"""`ssllatency handshakes` as a person would run it, with every handshake by itself, and what its books must come to."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ssllatency.model.histogram import ExponentialHistogram
from ssllatency.reports.documents.timed import exponential_fields
from tests import schema
from tests.live.commands.trace import Document, Trace
from tests.waiting import wait_for

PHASES = ("private_key", "key_exchange", "peer_verification", "session_lookup", "callbacks", "rest")
WAITS = (
    "wait_peer",
    "queue_server",
    "wait_peer_or_server",
    "wait_window",
    "wait_offload",
    "wait_application",
    "wait_unknown",
)
QUEUE = ("queue_start", "queue_server")
MEANWHILE = (
    "queue_handshakes",
    "queue_other",
    "queue_goroutines",
    "queue_collections",
    "queue_runnable",
    "queue_throttled",
    "queue_asleep",
)
LABELS = ("version", "cipher", "resumed", "group", "signature", "client_certificate", "role")
ALWAYS = ("wall", "calls", "rest")

Shake = dict[str, Any]


class Shakes(Trace):
    """`ssllatency handshakes --json --over 0s` from `with` to the end of the block; `singles` are they as they ended."""

    SUBCOMMAND = "handshakes"

    def __init__(self, *pids: int, options: tuple[str, ...] = (), exact: bool = True) -> None:
        super().__init__(*pids, options=("--over", "0s", *options), exact=exact)
        self.singles: list[Shake] = []

    def printed(self, text: str) -> int:
        """How often this text is in what has been printed so far."""
        file = self._output.fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode().count(text)

    def learn(self, shake_hands: Callable[[], object]) -> None:
        """Has handshakes made until the tool has learned that their server reads its sockets itself, and watches those reads:
        only then is the ClientHello's arrival known."""

        def has_learned() -> bool:
            shake_hands()
            return self.printed("wait_hello") > 0

        wait_for(has_learned)

    def learn_port(self, port: int, shake_hands: Callable[[], object]) -> None:
        """The same until handshakes have this port: the first ones of such a server have none."""

        def is_known() -> bool:
            shake_hands()
            return self.printed(f'"port": "{port}"') > 0

        wait_for(is_known)

    def _keep(self, text: str) -> None:
        *lines, last = text.splitlines()
        self.singles = [json.loads(line)["handshake"] for line in lines]
        self.document = json.loads(last)
        for document in (*map(json.loads, lines), self.document):
            schema.check(document)

    def ended(self, ending: str) -> list[Shake]:
        """Those that ended so."""
        return [single for single in self.singles if single["ending"] == ending]


class SlowLines(Trace):
    """`ssllatency handshakes --over TIME` in text from `with` to the end of the block; `text` is what it printed."""

    SUBCOMMAND = "handshakes"

    def __init__(self, *pids: int, over: str) -> None:
        super().__init__(*pids, options=("--over", over))
        self._command.remove("--json")
        self.text = ""

    def _keep(self, text: str) -> None:
        self.text = text


def endings(document: Document) -> dict[str, int]:
    """How many handshakes ended how."""
    found: Counter[str] = Counter()
    for group in document["handshakes"]["groups"]:
        found[group["ending"]] += group["count"]
    return dict(found)


def labels_of(singles: Iterable[Shake], *labels: str) -> list[tuple[str | None, ...]]:
    """These labels of each."""
    return [tuple(single["labels"][label] for label in labels) for single in singles]


def split(singles: Iterable[Shake]) -> list[Shake]:
    """Those whose calls are split into on and off the processor."""
    return [single for single in singles if {"on_cpu", "off_cpu"} & single["parts_ns"].keys()]


def spent_ns(singles: Iterable[Shake], part: str) -> int:
    """How long this part took in all of them; nothing in those that don't have it."""
    return sum(single["parts_ns"].get(part, 0) for single in singles)


def for_peer_ns(single: Shake) -> int:
    """How long it waited for its peer: where it wasn't seen when bytes arrived, or for the server to come back for them."""
    parts = single["parts_ns"]
    return int(parts.get("wait_peer", 0) + parts.get("wait_peer_or_server", 0))


def assert_books(shakes: Shakes) -> None:
    """Each handshake's parts add up, the rows are the sums of the handshakes, and nothing was lost."""
    handshakes = shakes.document["handshakes"]
    for single in shakes.singles:
        _assert_adds_up(single)
    for group in handshakes["groups"]:
        _assert_sum(group, [single for single in shakes.singles if _belongs(single, group, handshakes)])
    assert sum(endings(shakes.document).values()) == len(shakes.singles)
    causes = Counter((single["ending"], single["reason"], single["alert"], single["state"]) for single in _bad(shakes))
    found: Counter[tuple[str, ...]] = Counter()
    for cause in handshakes["causes"]:
        found[cause["ending"], cause["reason"], cause["alert"], cause["state"]] += cause["count"]
    assert found == causes
    assert sum(cause["total_ns"] for cause in handshakes["causes"]) == sum(one["parts_ns"]["wall"] for one in _bad(shakes))
    assert {name: number for name, number in shakes.document["losses"].items() if number} == {}
    assert handshakes["dropped"] == handshakes["unattributed"] == 0
    assert handshakes["off_cpu"]
    assert handshakes["unsplit"] == len(shakes.singles) - len(split(shakes.singles))


def _bad(shakes: Shakes) -> list[Shake]:
    return [single for single in shakes.singles if single["ending"] != "success"]


def _assert_adds_up(single: Shake) -> None:
    parts = single["parts_ns"]
    total = {name: sum(parts.get(part, 0) for part in kinds) for name, kinds in (("phases", PHASES), ("waits", WAITS))}
    assert parts["wall"] == parts["calls"] + total["waits"]
    assert parts["calls"] == total["phases"]
    if {"on_cpu", "off_cpu"} & parts.keys():
        assert parts["calls"] == parts.get("on_cpu", 0) + parts.get("off_cpu", 0)
    assert parts.get("off_cpu_throttled", 0) <= parts.get("off_cpu_runnable", 0)
    assert parts.get("off_cpu_runnable", 0) + parts.get("rest_asleep", 0) <= parts.get("off_cpu", 0)
    assert parts.get("rest_asleep", 0) <= parts["rest"]
    assert parts.get("gone", 0) <= parts["calls"]
    assert parts.get("assists", 0) <= parts["calls"]
    assert parts.get("losses", 0) <= parts.get("wait_peer", 0)
    assert parts.get("offload_completion", 0) <= parts.get("wait_offload", 0)
    assert parts.get("queue_offload", 0) <= parts.get("queue_server", 0)
    assert parts.get("queue_offload") == parts.get("offload_resumption"), "under its former name as well"
    assert parts.get("queue", 0) == sum(parts.get(part, 0) for part in QUEUE)
    assert sum(parts.get(part, 0) for part in MEANWHILE) <= parts.get("queue", 0)
    assert parts.get("round_trips", 0) <= parts.get("wait_peer", 0)
    assert single["calls"] > single["pauses"]


def _belongs(single: Shake, group: Shake, handshakes: Shake) -> bool:
    """Whether the row counts this handshake."""
    if single["ending"] != group["ending"]:
        return False
    if group.get("other"):
        rows = (row for row in handshakes["groups"] if not row.get("other"))
        return not any(_belongs(single, row, handshakes) for row in rows)
    own = {**single["labels"], "process": f"{single['comm']}({single['pid']})"}
    return all(own[label] == value for label, value in group["labels"].items())


def _assert_sum(group: Shake, singles: Sequence[Shake]) -> None:
    assert group["count"] == len(singles)
    resumed = [single["labels"]["resumed"] for single in singles if group["ending"] == "success"]
    resumption = [resumed.count("yes"), len(resumed) - resumed.count(None)]
    assert [group["resumed"], group["resumption_known"]] == resumption
    parts = {part for single in singles for part in single["parts_ns"]} | set(ALWAYS)
    assert set(group["parts"]) == parts
    for part in parts:
        times = [single["parts_ns"].get(part, 0) for single in singles if part in single["parts_ns"] or part in ALWAYS]
        found = group["parts"][part]
        expected = {"count": len(times), "total_ns": sum(times), "min_ns": min(times), "max_ns": max(times)}
        assert {name: found[name] for name in expected} == expected, part
        assert found["exponential"] == exponential_fields(ExponentialHistogram.from_values(times)), part
