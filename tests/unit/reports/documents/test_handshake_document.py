# SPDX-License-Identifier: Apache-2.0
"""Handshakes in the JSON document: the exact shape, the way back without loss, and a clear refusal."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.measured.handshakes import Shake, handshakes_of
from tests.unit.reports.documents.changes import JSON, assert_refused, assert_rendered_or_refused, changed, paths_of
from tests.unit.reports.handshake_samples import SAMPLES, distant, offloaded
from tests.unit.reports.report_samples import snapshot_of

from ssllatency.accept_queue import AcceptQueue
from ssllatency.errors import SsllatencyError
from ssllatency.model.handshakes import (
    Ending,
    Fact,
    Handshakes,
    Label,
    Part,
    Single,
)
from ssllatency.model.offload import Batches, Offload, PollingThread
from ssllatency.reports.documents.document import from_document, from_json, to_document, to_json
from ssllatency.reports.text.handshakes.report import render


@pytest.mark.parametrize("name", SAMPLES)
def test_round_trip_is_exact(name: str) -> None:
    assert from_json(to_json(SAMPLES[name]())) == SAMPLES[name]()


def test_without_handshakes_there_is_no_member() -> None:
    assert not {"handshakes", "async"} & set(to_document(snapshot_of()))
    assert "async" not in to_document(snapshot_of(handshakes=handshakes_of([])))


FACTS = {Fact.SOCKET: 1, Fact.FLIGHTS: 2, Fact.GONE: 1}


def test_the_wait_for_an_offload_stays_whole_where_its_queue_was_a_part_of_it() -> None:
    """As older versions wrote it, by the name that is still written beside the new one."""
    document = copy.deepcopy(to_document(offloaded()))
    assert isinstance(document["handshakes"], dict)
    [group] = document["handshakes"]["groups"]
    assert group["parts"]["offload_resumption"] == group["parts"]["queue_offload"]
    done, late = (group["parts"][part]["total_ns"] for part in ("offload_completion", "queue_offload"))
    for part in ("queue_offload", "queue_server", "queue", "queue_other", "queue_asleep"):
        del group["parts"][part]
    group["parts"]["wait_offload"] |= {"total_ns": done + late, "mean_ns": None}
    old = from_document(document).handshakes
    assert old
    assert old.groups[0].total_ns(Part.WAIT_OFFLOAD) == done + late
    assert Part.QUEUE_OFFLOAD not in old.groups[0].parts
    text = render(snapshot_of(handshakes=old))
    assert "submit to done" in text
    assert "queue" not in text


def test_what_is_known_of_the_peer_of_freed_ones_comes_back_and_else_is_not_there() -> None:
    known = (None, None), (False, True), (True, False), (True, True)
    freed = [
        Shake({Part.REST: 1_000}, {}, Ending.ABANDONED, reason="freed", peer_left=left, undelivered=undelivered)
        for left, undelivered in known
    ]
    one = Single(1.5, 17, 18, "nginx", Ending.ABANDONED, freed[0].parts, {}, 2, 1, "freed")
    slowest = tuple(replace(one, peer_left=left, undelivered=undelivered) for left, undelivered in known)
    snapshot = snapshot_of(handshakes=replace(handshakes_of([*freed, *freed]), slowest=slowest))
    written = to_document(snapshot)["handshakes"]
    assert isinstance(written, dict)
    for rows in (written["causes"], written["slowest"]):
        assert [(row.get("peer_left"), row.get("undelivered")) for row in rows] == list(known)
        assert not {"peer_left", "undelivered"} & rows[0].keys()
    assert [cause["count"] for cause in written["causes"]] == [2] * len(known)
    assert from_json(to_json(snapshot)) == snapshot


WEB = AcceptQueue(443, "0.0.0.0", 511, 7)


def whole() -> Handshakes:
    """One of everything."""
    labels = {Label.VERSION: "TLSv1.3", Label.RESUMED: None}
    failed = Shake(
        {Part.REST: 1_000}, labels, Ending.FAILURE, None, "no shared cipher", 0x0A0000C1, "handshake failure", True, "s"
    )
    signed = Shake({Part.PRIVATE_KEY: 3_000}, labels, key=("sign", "RSA-2048"), facts=FACTS)
    made = handshakes_of([signed, failed], (Label.RESUMED,))
    return replace(
        made,
        groups=(made.groups[0], replace(made.groups[1], labels={}, other=True)),
        slowest=(Single(1.5, 17, 18, "nginx", Ending.FAILURE, failed.parts, labels, 2, 1, "r", "a", "s"),),
        in_flight=1,
        dropped=2,
        unattributed=3,
        unsplit=5,
        slept=6,
        partial=4,
        inspections=7,
        off_cpu=True,
        unknown_labels={Label.GROUP: "why"},
        accept_queues=(WEB, replace(WEB, limit=None, overflows=9, network=17), AcceptQueue(8443, "*", None, 3)),
        overflows_untold=4,
        offload=Offload("qatengine", 1, None, 2, 3, 4, 5, (Batches("mbx", (0, 3, 1)),), (PollingThread(17, 19, "p", 6, None),)),
    )


DOCUMENT = to_document(snapshot_of(handshakes=whole()))


def timed(time_ns: int, bucket: int, **exponential: object) -> dict[str, Any]:
    """A row of one handshake whose time lies in this bucket."""
    return {
        "count": 1,
        **dict.fromkeys(("total_ns", "min_ns", "max_ns"), time_ns),
        "mean_ns": float(time_ns),
        **dict.fromkeys(("p50_ns", "p90_ns", "p99_ns", "p999_ns"), time_ns),
        "exponential": {"scale": 4, "grid": "s", "offset": bucket, "counts": [1], "underflow": 0, "overflow": 0, **exponential},
    }


# 1000 ns = base^-318.9 s, 3000 ns = base^-293.5 s.
ONE, THREE, ZERO = timed(1_000, -319), timed(3_000, -294), timed(0, -384, counts=[], underflow=1)
GROUPS = [
    {
        "labels": {"resumed": None},
        "ending": "success",
        "count": 1,
        "resumed": 0,
        "resumption_known": 0,
        "facts": {"socket": 1, "flights": 2, "gone": 1},
        "parts": {"wall": THREE, "calls": THREE, "private_key": THREE, "rest": ZERO, "client_wait": THREE},
    },
    {
        "labels": {},
        "other": True,
        "ending": "failure",
        "count": 1,
        "resumed": 0,
        "resumption_known": 0,
        "facts": {},
        "parts": {"wall": ONE, "calls": ONE, "rest": ONE, "client_wait": ONE},
    },
]
CAUSE = {
    "ending": "failure",
    "reason": "no shared cipher",
    "code": 0x0A0000C1,
    "library": "SSL routines",
    "alert": "handshake failure",
    "sent": True,
    "state": "s",
    "count": 1,
    "total_ns": 1_000,
}
SLOWEST = {
    "ended_s": 1.5,
    "pid": 17,
    "tid": 18,
    "comm": "nginx",
    "ending": "failure",
    "parts_ns": {"rest": 1_000, "calls": 1_000, "wall": 1_000, "client_wait": 1_000},
    "labels": {"version": "TLSv1.3", "resumed": None},
    "calls": 2,
    "pauses": 1,
    "reason": "r",
    "alert": "a",
    "state": "s",
}


def test_whole_document() -> None:
    assert DOCUMENT["handshakes"] == {
        "by": ["resumed"],
        "groups": GROUPS,
        "role": "server",
        "causes": [CAUSE],
        "keys": [{"operation": "sign", "key": "RSA-2048", "count": 1, "total_ns": 3_000}],
        "mix": {"version": {"TLSv1.3": 1}},
        "slowest": [SLOWEST],
        "in_flight": 1,
        "dropped": 2,
        "unattributed": 3,
        "unsplit": 5,
        "slept": 6,
        "partial": 4,
        "inspections": 7,
        "bounded": 0,
        "arrivals": True,
        "quotas": True,
        "off_cpu": True,
        "unknown_labels": {"group": "why"},
        "accept_queues": [
            {"port": 443, "address": "0.0.0.0", "limit": 511, "overflows": 7},
            {"port": 443, "address": "0.0.0.0", "overflows": 9, "network": 17},
            {"port": 8443, "address": "*", "overflows": 3},
        ],
        "overflows_untold": 4,
    }
    assert DOCUMENT["async"] == {
        "engine": "qatengine",
        "waiting": 1,
        "most_waiting": None,
        "pauses": 2,
        "handshakes": 3,
        "software": 4,
        "unseen": 5,
        "batches": [{"function": "mbx", "lanes": 2, "count": 4, "average_fill": 1.25, "fill": [0, 3, 1]}],
        "pollers": [{"pid": 17, "tid": 19, "comm": "p", "completions": 6, "cpu_s": None}],
    }
    assert from_json(json.dumps(DOCUMENT)).handshakes == whole()


HS, GROUP = "handshakes", ("handshakes", "groups", 0)


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ((HS,), None, "handshakes must be an object"),
        ((HS, "by"), ["weather"], r"handshakes.by\[0\] must be one of version, cipher"),
        ((HS, "by"), ["version"], r"groups\[0\].labels must be those of handshakes.by"),
        ((HS, "groups"), {}, "handshakes.groups must be a list"),
        ((HS, "groups", 1), ..., None),
        ((*GROUP, "ending"), "lost", "ending must be one of success, failure, abandoned"),
        ((*GROUP, "count"), 2, "count must be the sum of its exponential histogram, 1"),
        ((*GROUP, "resumption_known"), 2, "resumption_known must be at most that of the handshakes, 1"),
        ((*GROUP, "resumed"), 1, "resumed must be at most resumption_known, 0"),
        ((*GROUP, "facts", "socket"), 2, "facts.socket must be at most that of the handshakes, 1"),
        ((*GROUP, "facts", "gone"), 2, "facts.gone must be at most that of socket, 1"),
        ((*GROUP, "facts", "flights"), -1, "facts.flights must be a whole number"),
        ((*GROUP, "facts", "naps"), 1, "facts.naps must be one of socket, flights"),
        ((*GROUP, "facts"), ..., None),
        ((*GROUP, "other"), 1, "other must be true or false"),
        ((*GROUP, "labels", "resumed"), 5, "labels.resumed must be a string"),
        ((*GROUP, "parts", "wall"), ..., "parts.wall must be there"),
        ((*GROUP, "parts", "nap"), {}, "parts.nap must be one of wall, calls"),
        ((*GROUP, "parts", "wall", "total_ns"), 3_001, "parts must be times of which wall is the sum of calls and the waits"),
        ((*GROUP, "parts", "rest", "total_ns"), 1, "parts must be times of which calls is the sum of the phases"),
        ((*GROUP, "parts", "wall", "exponential"), ..., "parts.wall.exponential must be there"),
        ((HS, "groups", 1, "parts", "rest", "count"), 2, "rest.count must be the sum of its exponential histogram, 1"),
        ((HS, "causes", 0, "code"), -1, r"causes\[0\].code must be a whole number"),
        ((HS, "causes", 0, "sent"), ..., r"causes\[0\].sent must be there"),
        ((HS, "causes", 0, "peer_left"), None, r"causes\[0\].peer_left must be true or false"),
        ((HS, "slowest", 0, "undelivered"), 1, r"slowest\[0\].undelivered must be true or false"),
        ((HS, "keys", 0, "key"), None, r"keys\[0\].key must be a string"),
        ((HS, "mix", "version", "TLSv1.3"), 0.5, "mix.version.TLSv1.3 must be a whole number"),
        ((HS, "mix"), {"x": {}}, "mix.x must be one of"),
        ((HS, "slowest", 0, "ended_s"), 1e15, r"slowest\[0\].ended_s must be a time before the year 10000"),
        ((HS, "slowest", 0, "parts_ns", "calls"), ..., "parts_ns.calls must be there"),
        ((HS, "slowest", 0, "parts_ns", "calls"), 7, "parts_ns must be times of which"),
        ((HS, "dropped"), "2", "dropped must be a whole number"),
        ((HS, "off_cpu"), None, "off_cpu must be true or false"),
        ((HS, "unknown_labels", "group"), [], "unknown_labels.group must be a string"),
        (("async", "most_waiting"), -1, "async.most_waiting must be a whole number"),
        (("async", "batches", 0, "lanes"), 8, r"batches\[0\].lanes must be one less than fill is long, 2"),
        (("async", "batches", 0, "count"), 5, r"batches\[0\].count must be the sum of fill, 4"),
        (("async", "batches", 0, "fill"), [4], r"batches\[0\].fill must be a list of two or more numbers"),
        (("async", "pollers", 0, "cpu_s"), "much", r"pollers\[0\].cpu_s must be a number"),
        (("async",), ..., None),
    ],
)
def test_refusal_names_the_field(path: tuple[str | int, ...], value: object, sentence: str | None) -> None:
    document = changed(DOCUMENT, path, value)
    if sentence is None:
        assert from_document(document).handshakes != whole()
    else:
        assert_refused(document, sentence)


@pytest.mark.parametrize("place", [(HS, "groups"), (HS, "causes"), (HS, "keys"), ("async", "batches")])
def test_rows_that_occur_twice_are_refused(place: tuple[str, str]) -> None:
    document: Any = copy.deepcopy(DOCUMENT)
    rows = document[place[0]][place[1]]
    rows.append(rows[0])
    with pytest.raises(SsllatencyError, match=rf"\.{place[1]}\[{len(rows) - 1}\] must be the only one of its"):
        from_document(document)


def test_part_of_more_handshakes_than_there_were_is_refused() -> None:
    document: Any = copy.deepcopy(DOCUMENT)
    parts = document[HS]["groups"][0]["parts"]
    parts["wait_peer"] = {**parts["rest"], "count": 2, "exponential": {**parts["rest"]["exponential"], "underflow": 2}}
    with pytest.raises(SsllatencyError, match=r"wait_peer\.count must be at most that of wall, 1"):
        from_document(document)


@given(st.sampled_from(paths_of(DOCUMENT)), JSON)
def test_any_other_value_is_read_or_refused_in_one_sentence(path: tuple[str | int, ...], value: object) -> None:
    document = changed(DOCUMENT, path, value)
    absent = "" if "handshakes" in document else "there are none"
    assert_rendered_or_refused(document, lambda snapshot: render(snapshot) or absent)


@pytest.mark.parametrize("sample", [distant, offloaded])
def test_document_survives_reading(sample: Any) -> None:
    assert to_document(from_document(to_document(sample()))) == to_document(sample())
