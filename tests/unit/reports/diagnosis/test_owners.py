# SPDX-License-Identifier: Apache-2.0
"""Whose time the diagnosis says that it was: the key's, of a thread that didn't run, of the server's queue, the peer's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.measured.handshakes import handshakes_of
from tests.parameters import slow_except
from tests.unit.reports.diagnosis.cases import OFFLOAD, SIDES, alike, measured
from tests.unit.reports.diagnosis.told import MEANWHILE, names, told
from tests.unit.reports.report_samples import snapshot_of

from ssllatency.model.handshakes import NO, PHASES, YES, Fact, Handshakes, Label, Part, RequestedSide
from ssllatency.model.recording import Recording
from ssllatency.reports.diagnosis import calls
from ssllatency.reports.diagnosis.diagnosis import diagnose, diagnoses
from ssllatency.reports.html.page import page
from ssllatency.reports.text.handshakes.report import render

# The key, and what makes it cheaper.


def half_resumed(share: int) -> Handshakes:
    full = alike(100 - share, {Label.RESUMED: NO}, private_key=3, rest=0.1)
    return handshakes_of([*full, *alike(share, {Label.RESUMED: YES}, rest=0.1)])


@pytest.mark.parametrize(("share", "advised"), [(49, True), (50, False)])
def test_session_resumption_is_no_advice_where_half_are_resumed(share: int, advised: bool) -> None:
    sentence = diagnose(half_resumed(share))[0]
    assert f"; {share} % of the handshakes are resumed. An ECDSA" in sentence
    assert ("session resumption" in sentence) == advised


def test_advice_fits_the_key_and_the_offload() -> None:
    made = measured(private_key=9, rest=0.001)
    ecdsa = replace(made, keys=(replace(made.keys[0], key="ECDSA P-256"),), offload=OFFLOAD)
    assert diagnose(ecdsa)[0].endswith("is ECDSA P-256 signing. Session resumption would reduce it.")


@pytest.mark.parametrize(
    ("completion", "late", "split"),
    [
        (10.0, 1.0, " itself"),
        (9.9, 1.0, ", 99 % of that until completion: the offload itself"),
        (5.0, 1.0, ", 50 % of that until completion"),
        (1, 1.2, ""),
    ],
)
def test_waits_that_could_not_be_split_are_neither_the_offloads_nor_the_loops(
    completion: float, late: float, split: str
) -> None:
    """As of jobs that are resumed again and again before they are done."""
    made = measured(wait_offload=10, offload_completion=completion, queue_server=late, queue_offload=late, rest=1)
    (said,) = diagnoses(made)
    assert said.rule.name == "offload_waits"
    assert f"is spent waiting for the offload{split}" in said.sentence
    assert split or "completion" not in said.sentence


@pytest.mark.parametrize(("rsa", "named"), [(80, "RSA-2048 signing"), (79, "the private key")])
def test_key_is_named_where_nearly_all_of_its_time_is_of_one_kind(rsa: int, named: str) -> None:
    made = measured(private_key=9, rest=0.001)
    keys = (replace(made.keys[0], total_ns=rsa), replace(made.keys[0], key="RSA-4096", total_ns=100 - rsa))
    assert diagnose(replace(made, keys=keys))[0].partition(". ")[0].endswith(f"is {named}")
    unknown = replace(made, keys=(replace(made.keys[0], key=""),))
    assert "is the private key. Session" in diagnose(unknown)[0]


def test_a_key_whose_thread_sleeps_is_elsewhere() -> None:
    slept = {"off_cpu": 8, "off_cpu_runnable": 0.1}
    sentence = diagnose(measured(private_key=9, key_exchange=0.2, rest=0.3, rest_asleep=0.1, **slept))[0]
    assert "RSA-2048 signing, in which its thread is asleep for 84 % of the time or more. The key is elsewhere" in sentence
    assert "ECDSA certificate" not in sentence


def test_where_no_thread_was_ever_without_a_processor_it_slept() -> None:
    slept = {"session_lookup": 9, "rest": 0.3, "off_cpu": 8, "on_cpu": 1.3}
    assert "its thread is asleep or without a processor for" in diagnose(measured(**slept))[0]
    known = handshakes_of(alike(100, facts={Fact.SOCKET: 1}, **slept))
    assert "its thread is asleep for" in told(calls.session_lookup, known)


def test_clients_that_never_offer_a_session_are_told_beside_the_key() -> None:
    full = {"private_key": 3, "key_exchange": 0.1, "rest": 0.2}
    never = alike(95, {Label.RESUMED: NO}, **full)
    assert names(handshakes_of([*never, *alike(5, {Label.RESUMED: NO}, **full, session_lookup=0.01)])) == [
        "private_key",
        "never_offered",
    ]
    assert "never_offered" not in names(handshakes_of([*never, *alike(6, {Label.RESUMED: NO}, **full, session_lookup=0.01)]))
    assert "never_offered" not in names(handshakes_of(alike(100, {Label.RESUMED: NO}, private_key=3, rest=0.3)))


@pytest.mark.parametrize(
    ("name", "words"), [("secp384r1", "secp384r1. X25519 and P-256 cost"), ("x25519", "the group is a cheap")]
)
def test_prevailing_group_is_named(name: str, words: str) -> None:
    (sentence,) = diagnose(handshakes_of(alike(100, {Label.GROUP: name}, key_exchange=9)))
    assert words in sentence


# Who is blamed for a thread that didn't run.


def test_a_phase_is_not_blamed_for_a_thread_without_a_processor() -> None:
    stuck = {"private_key": 9, "off_cpu": 6, "off_cpu_runnable": 6}
    assert names(measured(**stuck, rest=0.1)) == ["neighbours"]
    assert names(measured(**{**stuck, "off_cpu_runnable": 1}, rest=0.1)) == ["private_key"]


@pytest.mark.parametrize(("split", "told"), [(0, True), (49, True), (50, False), (100, False)])
@pytest.mark.parametrize("times", [{"private_key": 9, "rest": 0.1}, {"rest": 9}], ids=["phase", "calls"])
def test_time_in_calls_that_may_have_been_a_wait_to_run_is_not_said_to_be_work(
    times: dict[str, float], split: int, told: bool
) -> None:
    """As of goroutines that gave way to others: how long they waited isn't known."""
    shakes = [*alike(split, **times, on_cpu=9.0), *alike(100 - split, **times)]
    (sentence,) = diagnose(replace(handshakes_of(shakes), off_cpu=True))
    assert ("; how much of that was waiting to run isn't known" in sentence) == told


@pytest.mark.parametrize("wait", ["wait_peer", "wait_application", "wait_unknown"])
def test_nor_is_it_beside_a_wait(wait: str) -> None:
    shakes = alike(100, **{wait: 90.0, "rest": 20.0})
    (sentence, *_) = diagnose(replace(handshakes_of(shakes), off_cpu=True))
    assert "own work is 20.0 ms; how much" in sentence


INSIDE = {"wait_peer": 1.0, "rest": 9.0, "off_cpu": 6.0, "off_cpu_runnable": 6.0}


def test_a_quota_is_told_from_neighbours_inside_calls_as_well() -> None:
    for held_ms, others_ms, rule, words in (
        (6.0, 0.0, "cpu_quota", "held by a CPU quota, 6.00 ms of it inside the library's calls. Look at cpu.max"),
        (5.0, 1.0, "cpu_quota", "held by a CPU quota, 5.00 ms of it inside the library's calls. Look at cpu.max"),
        (3.0, 3.0, "cpu_quota", "calls; for another 3.00 ms it was ready to run but had no processor. Look at cpu.max"),
        (2.0, 4.0, "neighbours", "calls; for another 2.00 ms it was held by a CPU quota. Look for what else runs"),
        (0.0, 6.0, "neighbours", "had no processor, 6.00 ms of it inside the library's calls. Look for what else runs"),
    ):
        (sentence,) = diagnoses(measured(**INSIDE, off_cpu_throttled=held_ms))
        assert sentence.rule.name == rule
        assert sentence.sentence.startswith(f"For {max(held_ms, others_ms) * 10:.0f} % of the time that clients wait")
        assert words in sentence.sentence
        assert "nr_throttled" not in sentence.sentence


def test_an_older_measurement_does_not_tell_a_quota_inside_calls() -> None:
    """Where one held the thread in its queue, it is taken for the reason in calls, too."""
    unknown = replace(measured(**INSIDE), quotas=False)
    assert names(unknown) == ["neighbours"]
    assert "its calls: others had it, or a CPU quota held it. Look" in diagnose(unknown)[0].replace("the library's", "its")
    assert "nr_throttled" in diagnose(unknown)[0]
    held = measured(queue_start=1, queue_server=2, queue_throttled=1, wait_peer=4, rest=4, off_cpu=3, off_cpu_runnable=3)
    assert names(replace(held, quotas=False))[0] == "cpu_quota"
    assert "held by a CPU quota, 3.00 ms of it inside" in diagnose(replace(held, quotas=False))[0]


@pytest.mark.parametrize(("inside", "told_of"), [(1.0, True), (0.99, False)])
def test_a_thread_without_a_processor_in_the_queue_is_told_of_calls_where_it_matters(inside: float, told_of: bool) -> None:
    waiting = measured(queue_server=6, queue_runnable=6, wait_peer=2, rest=2, off_cpu=inside, off_cpu_runnable=inside)
    assert ("; inside calls it was without a processor for another 1.00 ms" in diagnose(waiting)[0]) == told_of


def test_a_callback_that_sleeps_is_told_as_the_callback() -> None:
    (sentence,) = diagnose(measured(callbacks=20, rest=0.5, off_cpu=19.8, off_cpu_runnable=0.1))
    assert "the application's own callbacks, in which its thread is asleep for 96 % of the time or more" in sentence
    (sentence,) = diagnose(measured(callbacks=20, rest=0.5, off_cpu=19.8))
    assert "asleep or without a processor for 96 %" in sentence


def test_sleep_that_may_be_in_another_phase_is_nobodys() -> None:
    slept = {"off_cpu": 7, "off_cpu_runnable": 0.1, "rest_asleep": 0.1}
    (sentence,) = diagnose(measured(callbacks=9, session_lookup=4.5, rest=0.5, **slept))
    assert "asleep" not in sentence


def test_a_server_asleep_in_rest_is_told() -> None:
    (sentence,) = diagnose(measured(rest=20, rest_asleep=19.4, off_cpu=19.5, off_cpu_runnable=0.1, wait_peer=0.1))
    assert sentence.startswith("97 % of the time that clients wait, 19.4 ms of 20.1 ms a handshake, its thread is asleep")


# The queue.


@pytest.mark.parametrize(("part", "words"), MEANWHILE.items())
def test_a_queue_is_told_with_what_the_thread_did(part: Part, words: str) -> None:
    (sentence,) = diagnose(measured(queue_server=9, rest=0.4, **{str(part): 6}))
    assert [other for other in MEANWHILE.values() if other in sentence] == [words]


def test_two_things_that_make_most_of_the_queue_together_are_both_named() -> None:
    (sentence,) = diagnose(measured(queue_server=10, rest=0.4, queue_handshakes=4, queue_throttled=3.5))
    assert (
        "for 40 % of that time its thread was busy with other handshakes and for 35 % was held by a CPU quota. It is"
        in sentence
    )
    assert names(measured(queue_server=10, rest=0.4, queue_handshakes=4, queue_throttled=2.4)) == ["late_server"]


def test_a_queue_before_the_first_call_is_told_as_such() -> None:
    (sentence,) = diagnose(measured(queue_start=9, queue_server=1, queue_other=8, rest=0.4))
    assert "is this server's own queue, nearly all of it before the first call: their bytes" in sentence


def test_a_saturated_server_says_with_what_and_where() -> None:
    times = {"queue_start": 9, "queue_handshakes": 8, "private_key": 0.7, "rest": 0.3, "on_cpu": 1.0}
    shakes = [
        *alike(90, {Label.PROCESS: "nginx (41)"}, **times),
        *alike(90, {Label.PROCESS: "nginx (42)"}, rest=0.1, on_cpu=0.1),
    ]
    sentence = diagnose(handshakes_of(shakes, (Label.PROCESS,)), 0.1)[0]
    assert "busy with other handshakes, nearly all in nginx (41); handshakes use 0.99 of a processor; 64 %" in sentence
    assert "is RSA-2048 signing. It is saturated: more workers, more processors, an ECDSA certificate" in sentence
    assert "use 2.0 processors" in diagnose(handshakes_of(shakes, (Label.PROCESS,)), 0.05)[0]
    assert "processor;" not in diagnose(handshakes_of(shakes, (Label.PROCESS,)))[0]
    assert "nginx" not in diagnose(handshakes_of(shakes), 0.1)[0]


# The peer.


@pytest.mark.parametrize(
    ("round_trips", "words"),
    [
        (9, "they are far away, given that the shortest round trip explains 90 % of that"),
        (
            1,
            "the clients take their time, or the network delays them or loses packets, given that the shortest round trip"
            " explains 10 % of that",
        ),
    ],
)
def test_far_clients_are_told_from_slow_ones(round_trips: float, words: str) -> None:
    (sentence,) = diagnose(measured(wait_peer=10, round_trips=round_trips, rest=0.4))
    assert words in sentence


def test_near_and_prompt_clients_are_neither_far_nor_slow() -> None:
    """The round trips are short, and what is more than they."""
    assert names(measured(wait_peer=3.9, round_trips=1.95, rest=1)) == []
    assert names(measured(wait_peer=3.9, round_trips=1.85, rest=1)) == ["slow_clients"]


@pytest.mark.parametrize("fact", [Fact.HELLO_RETRIES, Fact.UNSENT])
@pytest.mark.parametrize(("queue_ms", "first"), [(7.0, True), (8.1, False)])
def test_a_round_trip_is_not_told_before_a_queue_that_is_many_times_as_long(fact: Fact, queue_ms: float, first: bool) -> None:
    facts = {Fact.SOCKET: 1, Fact.FLIGHTS: 2, Fact.HELLO_RETRY_KNOWN: 1, fact: 1}
    flights = 3 if fact is Fact.UNSENT else 2
    times = {"wait_peer": flights * 1.0, "round_trips": flights * 1.0, "queue_start": queue_ms, "queue_other": queue_ms}
    order = names(handshakes_of(alike(100, None, facts, **times)))
    assert len(order) == 2
    assert (order[0] == "blocked_loop") != first


@given(
    trip_ms=st.floats(1, 300),
    own=st.dictionaries(
        st.sampled_from([*PHASES, Part.QUEUE_SERVER, Part.QUEUE_START, Part.WAIT_APPLICATION]), st.floats(0, 1)
    ),
    meanwhile=st.sampled_from(list(MEANWHILE)),
)
def test_what_a_far_client_cannot_feel_is_not_told(trip_ms: float, own: dict[Part, float], meanwhile: Part) -> None:
    """Less than half of a round trip of a server's own time in all: each client waits for one at least."""
    whole = sum(own.values()) or 1
    times = {str(part): 0.499 * trip_ms * time / whole for part, time in own.items()}
    queue_ms = sum(times.get(part, 0) for part in (Part.QUEUE_SERVER, Part.QUEUE_START))
    times |= {"wait_peer": trip_ms, "round_trips": trip_ms, str(meanwhile): queue_ms}
    shakes = alike(40, {Label.RESUMED: NO}, {Fact.SOCKET: 1, Fact.FLIGHTS: 1}, **times)
    assert set(names(handshakes_of(shakes))) <= {"far_clients"}


def test_fewer_round_trips_are_advised_where_there_are_any_to_save() -> None:
    for old, advised in ((10, True), (9, False)):
        versions = [{Label.VERSION: "TLSv1.2"}] * old + [{Label.VERSION: "TLSv1.3"}] * (100 - old)
        shakes = [shake for labels in versions for shake in alike(1, labels, wait_peer=10, round_trips=9, rest=0.4)]
        (sentence,) = diagnose(handshakes_of(shakes))
        assert ("TLS 1.3, or session resumption" in sentence) == advised


def test_losses_are_told_instead_of_slow_clients_or_ruled_out() -> None:
    facts = {Fact.SOCKET: 1, Fact.RETRANSMITTED: 1}
    lossy = handshakes_of(alike(100, None, facts, wait_peer=10, losses=6, round_trips=1, rest=0.4))
    assert names(lossy) == ["losses"]
    (sentence,) = diagnose(handshakes_of(alike(100, None, {Fact.SOCKET: 1}, wait_peer=10, round_trips=1, rest=0.4)))
    assert "or the network delays them, given" in sentence


def test_the_key_is_named_beside_the_wait() -> None:
    (sentence,) = diagnose(measured(private_key=0.9, rest=0.1, wait_peer=9))
    assert "the server's own work is 1.00 ms, 90 % of it RSA-2048 signing." in sentence


def test_the_peer_is_not_blamed_where_arrivals_were_not_seen() -> None:
    (sentence,) = diagnose(replace(measured(wait_peer=10, rest=0.4), arrivals=False))
    assert sentence.startswith("96 % of the handshakes' time,")
    assert "whether the peer, the network or this server was late isn't known" in sentence


# What only a server can see of its clients.
OF_SERVERS = {
    "accept_queue_full",
    "late_first_call",
    "hello_retries",
    "tickets_refused",
    "cache_misses",
    "never_offered",
    "session_lookup",
}


@pytest.mark.parametrize("role", slow_except([RequestedSide.CLIENT, RequestedSide.ANY], RequestedSide.CLIENT))
def test_a_program_that_is_a_client_is_not_called_a_server(role: RequestedSide) -> None:
    for rule, handshakes, _ in SIDES:
        if rule.__name__ not in OF_SERVERS:
            text = told(rule, replace(handshakes(1), role=role)) + " ".join(diagnose(replace(handshakes(1), role=role)))
            others = "this server", "the server's", "clients take", "clients wait", "clients'", "clients send"
            assert not [words for words in others if words in text], text


def test_a_client_waits_for_its_servers() -> None:
    waits = replace(measured(rest=1, wait_peer=30, round_trips=0.1), role=RequestedSide.CLIENT)
    assert "the handshakes' time" in diagnose(waits)[0]
    assert "the servers take their time" in diagnose(waits)[0]
    assert "this program's own work is 1.00 ms. A capture on the other side" in diagnose(waits)[0]
    late = replace(measured(rest=1, queue_server=30, queue_other=29), role=RequestedSide.CLIENT)
    assert "is this program's own queue: the servers' bytes had arrived, and for 97 % of that time" in diagnose(late)[0]
    text = render(snapshot_of(handshakes=late))
    assert ("queue: program" in text, "queue: server" in text) == (True, False)
    assert "queue: program" in page(Recording.of([snapshot_of(handshakes=late)]))
