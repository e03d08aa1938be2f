# SPDX-License-Identifier: Apache-2.0
"""What the diagnosis says beside what, of one of several groups, and of failures; and silence where nothing stands out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.measured.handshakes import handshakes_of
from tests.unit.reports.diagnosis.cases import Judge, alike, failed, gone, measured, two_names
from tests.unit.reports.diagnosis.told import MEANWHILE, names, told
from tests.unit.reports.handshake_samples import distant, failing, idle, near, offloaded

from ssllatency.model.handshakes import NO, PHASES, SAMPLED, WAITS, YES, Fact, Label, Part
from ssllatency.reports.diagnosis import calls, failures, network, offload, queue
from ssllatency.reports.diagnosis.case import Case
from ssllatency.reports.diagnosis.diagnosis import MOST_SENTENCES, diagnose, diagnoses
from ssllatency.reports.diagnosis.rule import About

# Several at a time.


def test_mixed_causes_are_told_in_order() -> None:
    mixed_ = {"queue_server": 4.0, "queue_other": 4.0, "wait_peer": 3.5, "round_trips": 3.0, "rest": 2.5}
    assert names(measured(**mixed_)) == ["blocked_loop", "far_clients"]
    assert names(measured(**{**mixed_, "wait_peer": 4.5, "round_trips": 4})) == ["far_clients", "blocked_loop"]


def test_one_sentence_about_a_subject_and_three_at_most() -> None:
    facts = {Fact.SOCKET: 1, Fact.FLIGHTS: 1, Fact.UNSENT: 1, Fact.HELLO_RETRY_KNOWN: 1, Fact.HELLO_RETRIES: 1}
    times = {"wait_peer": 40, "round_trips": 30, "queue_server": 40, "queue_other": 30, "private_key": 39, "rest": 1}
    shakes = [*alike(60, None, facts, **times), *failed(50)]
    assert names(handshakes_of(shakes)) == ["hello_retries", "one_reason", "blocked_loop"]


@pytest.mark.parametrize(("number", "order"), [(10, ["private_key", "one_reason"]), (12, ["one_reason", "private_key"])])
def test_failures_go_first_where_many_fail(number: int, order: list[str]) -> None:
    assert names(handshakes_of([*alike(100, private_key=9, rest=0.1), *failed(number)])) == order


def test_those_who_leave_are_told_after_what_they_waited_for() -> None:
    shakes = [*alike(40, queue_start=20, queue_handshakes=19, private_key=2, rest=0.1), *gone(60, private_key=2, rest=0.1)]
    assert names(handshakes_of(shakes)) == ["saturated", "work_in_vain"]


@pytest.mark.parametrize(
    ("times", "leaving", "order"),
    [
        ({"wait_peer": 90.0}, 50, ["abandoned", "private_key"]),
        ({"wait_peer": 90.0}, 49, ["private_key", "abandoned"]),
        ({"wait_peer": 1.5}, 50, ["abandoned", "private_key"]),
        ({"wait_peer": 90.0, "round_trips": 60.0}, 50, ["private_key", "abandoned"]),
        ({"wait_peer": 90.0, "losses": 90.0}, 50, ["private_key", "abandoned"]),
        ({"wait_peer": 4.0, "queue_start": 90.0}, 50, ["private_key", "abandoned"]),
    ],
)
def test_those_who_leave_for_no_reason_of_the_servers_or_the_networks_are_told_first(
    times: dict[str, float], leaving: int, order: list[str]
) -> None:
    """Where half of the handshakes and more are theirs: they didn't go on, or left in a moment."""
    assert names(handshakes_of([*alike(100 - leaving, private_key=9, rest=0.1), *gone(leaving, **times)])) == order


def test_who_is_silent_is_not_known_where_arrivals_were_not_seen() -> None:
    shakes = [*alike(50, private_key=9, rest=0.1), *gone(50, wait_peer=90)]
    assert names(replace(handshakes_of(shakes), arrivals=False)) == ["private_key", "abandoned"]


@pytest.mark.parametrize(
    ("old", "times", "order"),
    [
        (50, {"wait_peer": 31, "round_trips": 30}, ["old_version", "far_clients"]),
        (49, {"wait_peer": 31, "round_trips": 30}, ["far_clients", "old_version"]),
        (100, {"wait_peer": 90, "round_trips": 30}, ["slow_clients", "old_version"]),
        (100, {"wait_peer": 31, "round_trips": 30, "queue_start": 33, "queue_handshakes": 33}, ["saturated", "old_version"]),
    ],
)
def test_an_old_version_is_told_before_the_distance_that_makes_it_dear(
    old: int, times: dict[str, float], order: list[str]
) -> None:
    versions_ = [("TLSv1.2", old), ("TLSv1.3", 100 - old)]
    shakes = [
        shake
        for version, number in versions_
        for shake in alike(number, {Label.VERSION: version, Label.RESUMED: NO}, {Fact.SOCKET: 1, Fact.FLIGHTS: 1}, **times)
    ]
    assert names(handshakes_of(shakes))[:2] == order


@pytest.mark.parametrize(("sample", "sentences"), [(near, 2), (distant, 3), (offloaded, 1), (failing, 1), (idle, 0)])
def test_number_of_sentences(sample: Callable[[], object], sentences: int) -> None:
    handshakes = getattr(sample(), "handshakes")  # noqa: B009
    assert len(diagnose(handshakes)) == sentences


# One of several.


def test_a_group_is_not_slow_for_few_handshakes_or_a_few_slow_ones() -> None:
    assert names(two_names(5, number=30))[0] == "slow_group"
    assert "slow_group" not in names(two_names(5, number=29))
    spread = [
        *alike(100, {Label.PORT: "443"}, rest=0.4),
        *alike(90, {Label.PORT: "8443"}, rest=0.4),
        *alike(10, {Label.PORT: "8443"}, rest=0.4, wait_peer=90),
    ]
    assert "slow_group" not in names(handshakes_of(spread, (Label.PORT,)))


@pytest.mark.parametrize("label", [Label.SNI, Label.PORT, Label.PROCESS, Label.VERSION, Label.ALPN, Label.PEER])
def test_one_of_several_is_named_with_what_sets_it_apart(label: Label) -> None:
    shakes = [
        *alike(100, {label: "this"}, rest=0.4, wait_application=9),
        *alike(100, {label: "that"}, rest=0.4),
        *alike(50, {label: "other"}, rest=0.5),
        *alike(50, {label: None}, rest=0.5),
    ]
    first = diagnose(handshakes_of(shakes, (label,)))[0]
    assert "this wait 9.40 ms, 21.7 times as long as all others (433 us)" in first
    assert "the largest difference is wait: application, 9.00 ms more" in first


# Failures.


def test_alert_of_the_peer_is_explained_but_not_one_of_ours() -> None:
    theirs, ours = (
        told(failures.one_reason, handshakes_of(failed(50, "tlsv1 alert unknown ca", "unknown CA", sent=sent)))
        for sent in (False, True)
    )
    assert theirs.startswith(ours)
    assert "don't trust this certificate's issuer" in theirs


def test_states_that_are_spread_are_not_named() -> None:
    made = handshakes_of([*gone(20, "a"), *gone(21, "b"), *gone(20, "c")])
    assert "in state" not in told(failures.abandoned, made)
    assert '100 % of them in state "reading"' in told(failures.abandoned, handshakes_of(gone(40, "reading")))


# Silence.


def test_silence_where_nothing_stands_out() -> None:
    assert diagnose(measured(private_key=0.4, key_exchange=0.4, rest=0.4, wait_peer=0.9)) == []
    assert diagnose(measured(private_key=0.4, key_exchange=0.4, rest=0.4, wait_peer=1.999)) == []
    assert diagnose(measured(queue_start=0.04, queue_server=0.04, queue_handshakes=0.07, rest=0.04)) == []
    assert diagnose(handshakes_of([*alike(100, rest=0.1, wait_unknown=1.9), *failed(9)])) == []


@pytest.mark.parametrize(
    ("stall", "rule"),
    [
        ({"queue_start": 50, "queue_server": 250, "queue_other": 300}, queue.blocked_loop),
        ({"queue_start": 300}, queue.late_first_call),
        ({"queue_server": 300, "queue_runnable": 300}, queue.neighbours),
        ({"rest": 300, "off_cpu": 300, "off_cpu_runnable": 300}, queue.neighbours),
        ({"private_key": 300}, calls.private_key),
        ({"wait_peer": 300}, network.peer_waits),
        ({"wait_offload": 300}, offload.offload_waits),
    ],
)
def test_a_single_stall_is_no_cause(stall: dict[str, float], rule: Judge) -> None:
    """It makes most of the sum, and says nothing about the other handshakes; two of them are told."""
    facts = {Fact.SOCKET: 1}
    prompt, stalled = alike(98, facts=facts, rest=0.4), alike(1, facts=facts, rest=0.4 + stall.pop("rest", 0), **stall)
    assert diagnose(handshakes_of([*prompt, *stalled])) == []
    assert rule(Case(handshakes_of([*prompt, *stalled * 2])))


@pytest.mark.parametrize("part", SAMPLED)
def test_a_single_stall_among_the_watched_is_no_cause(part: Part) -> None:
    """Each of those stands for ten handshakes, whose stalls were never seen; two of them are told."""
    name = str(part)
    watched, stalled = alike(28, rest=12, **{name: 0.01}), alike(1, rest=12, **{name: 300})
    unwatched = alike(270, facts={Fact.UNPHASED: 1}, rest=20)
    rule = calls.assists if part is Part.ASSISTS else getattr(calls, name)
    assert rule(Case(handshakes_of([*watched, *stalled, *alike(1, rest=12), *unwatched]))) is None
    assert rule(Case(handshakes_of([*watched, *stalled * 2, *unwatched])))


@pytest.mark.parametrize(("watched", "told"), [(1, False), (2, True)])
def test_one_watched_handshake_does_not_speak_for_all(watched: int, told: bool) -> None:
    shakes = [*alike(watched, rest=1, callbacks=11), *alike(64 - watched, facts={Fact.UNPHASED: 1}, rest=12)]
    assert bool(calls.callbacks(Case(handshakes_of(shakes)))) == told


def up_to(most_ms: float) -> st.SearchStrategy[float]:
    return st.floats(0, most_ms)


@given(
    times=st.fixed_dictionaries(
        {
            "private_key": up_to(0.3),
            "key_exchange": up_to(0.2),
            "session_lookup": up_to(0.05),
            "callbacks": up_to(0.1),
            "peer_verification": up_to(0.2),
            "rest": up_to(0.4),
            "wait_peer": up_to(2.9),
            "queue_start": up_to(0.2),
            "queue_server": up_to(0.2),
        }
    ),
    meanwhile=st.sampled_from(list(MEANWHILE)),
    by=st.sampled_from([(), (Label.SNI,)]),
    resumed=st.integers(0, 50),
    failures_=st.integers(0, 9),
)
def test_nothing_is_said_of_a_healthy_server(
    times: dict[str, float], meanwhile: Part, by: tuple[Label, ...], resumed: int, failures_: int
) -> None:
    """Fast parts, near clients, some who come back and a few who fail or leave."""
    times |= {str(meanwhile): times["queue_start"] + times["queue_server"], "round_trips": times["wait_peer"] / 3}
    times |= {"off_cpu": times["rest"] / 3, "off_cpu_runnable": times["rest"] / 6, "rest_asleep": times["rest"] / 6}
    base = {Fact.SOCKET: 1, Fact.FLIGHTS: 1, Fact.FLIGHT_BYTES: 3000, Fact.HELLO_RETRY_KNOWN: 1}
    names_ = [{Label.SNI: name, Label.VERSION: "TLSv1.3"} for name in ("a.example", "b.example")]
    shakes = [
        *alike(40, names_[0] | {Label.RESUMED: NO}, base, **times),
        *alike(37, names_[1] | {Label.RESUMED: NO}, base, **times),
        *alike(3, names_[1] | {Label.RESUMED: NO}, base | {Fact.TICKETS_REFUSED: 1, Fact.HELLO_RETRIES: 1}, **times),
        *alike(resumed, names_[0] | {Label.RESUMED: YES}, base, **times),
        *failed(failures_),
        *gone(failures_, private_key=0.1),
    ]
    assert diagnose(handshakes_of(shakes, by)) == []


@given(
    part=st.sampled_from([*PHASES, *WAITS, Part.QUEUE_START]),
    long_ms=st.floats(4.001, 10_000),
    others=st.lists(st.tuples(st.sampled_from([*PHASES, *WAITS, Part.QUEUE_START]), st.floats(0, 1)), max_size=5),
    parts_of=st.dictionaries(
        st.sampled_from([*MEANWHILE, Part.ROUND_TRIPS, Part.LOSSES, Part.OFF_CPU, Part.OFF_CPU_RUNNABLE, Part.REST_ASLEEP]),
        st.floats(0, 1),
    ),
    arrivals=st.booleans(),
    facts=st.dictionaries(st.sampled_from(list(Fact)), st.integers(1, 1)),
)
def test_something_is_said_where_one_part_is_most_of_what_clients_wait_for(
    part: Part,
    long_ms: float,
    others: list[tuple[Part, float]],
    parts_of: dict[Part, float],
    arrivals: bool,
    facts: dict[Fact, int],
) -> None:
    """Others take less than the rest of the time; what is a part of a part is at most that."""
    times = {part: long_ms}
    left_ms = long_ms
    for other, fraction in others:
        if other not in times:
            times[other] = left_ms * fraction * 0.999
            left_ms -= times[other]
    called = sum(times.get(phase, 0) for phase in PHASES)
    queue_ms = times.get(Part.QUEUE_START, 0) + times.get(Part.QUEUE_SERVER, 0)
    whole = {
        **dict.fromkeys(MEANWHILE, queue_ms / 5),
        **dict.fromkeys((Part.ROUND_TRIPS, Part.LOSSES), times.get(Part.WAIT_PEER, 0)),
        **dict.fromkeys((Part.OFF_CPU, Part.OFF_CPU_RUNNABLE), called / 2),
        Part.REST_ASLEEP: times.get(Part.REST, 0),
    }
    times |= {inner: whole[inner] * fraction for inner, fraction in parts_of.items()}
    made = handshakes_of(alike(50, None, facts, **{str(name): time for name, time in times.items()}))
    sentences = diagnoses(replace(made, arrivals=arrivals))
    assert 0 < len(sentences) <= MOST_SENTENCES
    assert any(sentence.about is not About.FAILURES for sentence in sentences)
    assert len({sentence.rule.subject for sentence in sentences}) == len(sentences)


@given(
    parts=st.dictionaries(st.sampled_from([*PHASES, *WAITS, Part.QUEUE_START]), st.floats(0.1, 10_000)), arrivals=st.booleans()
)
def test_something_is_said_where_clients_wait_long(parts: dict[Part, float], arrivals: bool) -> None:
    parts = {**parts, Part.REST: parts.get(Part.REST, 0) + max(0.0, 10.001 - sum(parts.values()))}
    made = handshakes_of(alike(50, **{str(part): time for part, time in parts.items()}))
    assert diagnose(replace(made, arrivals=arrivals))


def test_names_of_a_target_stay_printable() -> None:
    hostile = "caf\u00e9\x1b[31m"
    slow = [*alike(50, {Label.SNI: hostile}, private_key=9), *alike(50, {Label.SNI: "b"}, rest=0.1)]
    sentences = [*diagnose(handshakes_of(failed(50, hostile))), *diagnose(handshakes_of(slow, (Label.SNI,)))]
    assert len(sentences) > 2
    assert all(sentence.isascii() and sentence.isprintable() for sentence in sentences)
