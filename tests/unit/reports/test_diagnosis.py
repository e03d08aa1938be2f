# SPDX-License-Identifier: Apache-2.0
"""The diagnosis: each rule on both sides of its threshold, which rule goes first, and silence where nothing stands out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.measured.handshakes import Shake, handshakes_of
from tests.unit.reports.handshake_samples import distant, failing, idle, near, offloaded

from ssllatency.model.handshakes import NO, YES, Batches, Ending, Handshakes, Label, Offload, Part, PollingThread
from ssllatency.reports.diagnosis import failures as diagnosis_failures
from ssllatency.reports.diagnosis import offload as diagnosis_offload
from ssllatency.reports.diagnosis import time as diagnosis_time
from ssllatency.reports.diagnosis import waits as diagnosis_waits
from ssllatency.reports.diagnosis.diagnosis import FAILURE_RULES, TIME_RULES, Rule, diagnose
from ssllatency.reports.diagnosis.numbers import FEWEST

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "reference" / "handshakes.md"
OFFLOAD = Offload("qatengine", 0, 9, 100, 100, 0, 0)


def alike(number: int = 100, labels: dict[Label, str | None] | None = None, **times: int) -> list[Shake]:
    """So many successful handshakes with the same parts."""
    key = ("sign", "RSA-2048") if "private_key" in times else None
    return [Shake({Part(name): time for name, time in times.items()}, labels or {}, key=key)] * number


def measured(number: int = 100, **times: int) -> Handshakes:
    return handshakes_of(alike(number, **times))


def failed(number: int, reason: str = "no shared cipher", alert: str = "", sent: bool = True, state: str = "") -> list[Shake]:
    return [Shake({Part.REST: 1000}, {}, Ending.FAILURE, None, reason, 1, alert, sent, state)] * number


def gone(number: int, state: str = "") -> list[Shake]:
    return [Shake({Part.REST: 1000, Part.WAIT_PEER: 999_000}, {}, Ending.ABANDONED, None, "freed", state=state)] * number


# Each rule with the handshakes just before it applies, those from where it does, and its sentence then.
SIDES: Sequence[tuple[Rule, Callable[[int], Handshakes], str]] = [
    (
        diagnosis_time.private_key,
        lambda side: measured(private_key=499 + side, rest=501 - side),
        "50 % of the time in calls is RSA-2048 signing:"
        " an ECDSA certificate, session resumption or an offload would reduce it.",
    ),
    (
        diagnosis_waits.server_queue,
        lambda side: measured(
            queue_start=300_000, queue_server=199_000 + 1_000 * side, queue_handshakes=400_000, wait_peer=250_000, rest=250_000
        ),
        "50 % of the time that clients wait, 500 us of 1.00 ms a handshake, is this server's own queue: their bytes had"
        " arrived, and for 80 % of that time its thread was busy with other handshakes. It is saturated: more workers or"
        " processors, session resumption or a cheaper key would shorten the queue.",
    ),
    (
        diagnosis_waits.peer_waits,
        lambda side: measured(wait_peer=2_500_000, wait_window=499_000 + 1_000 * side, rest=3_001_000 - 1_000 * side),
        "50 % of the handshakes' time is spent waiting for the peer and the network:"
        " the server's own work is 3.00 ms of 6.00 ms.",
    ),
    (
        diagnosis_waits.peer_or_server_waits,
        lambda side: measured(wait_peer_or_server=2_999_000 + 1_000 * side, rest=3_001_000 - 1_000 * side),
        "50 % of the handshakes' time is spent waiting for the peer's bytes: whether the peer, the network or this server was"
        " late isn't known, as it wasn't seen when they arrived. The server's own work is 3.00 ms of 6.00 ms.",
    ),
    (
        diagnosis_time.application_waits,
        lambda side: measured(wait_application=499_000 + 1_000 * side, rest=501_000 - 1_000 * side),
        "50 % of the handshakes' time is spent waiting for the application to call the library again:"
        " the server's own work is 500 us of 1.00 ms.",
    ),
    (
        diagnosis_time.off_cpu,
        lambda side: replace(measured(rest=1000, off_cpu=499 + side, on_cpu=501 - side), off_cpu=True),
        "50 % of the time in calls the thread is off the CPU: blocked inside them, or waiting for a processor.",
    ),
    (
        diagnosis_time.peer_verification,
        lambda side: measured(peer_verification=499_000 + 1_000 * side, rest=501_000 - 1_000 * side),
        "50 % of the time in calls, 500 us a handshake, is the check of the peer's certificate.",
    ),
    (
        diagnosis_time.session_lookup,
        lambda side: measured(session_lookup=499_000 + 1_000 * side, rest=501_000 - 1_000 * side),
        "50 % of the time in calls, 500 us a handshake, is the session lookup, in the server's session cache or its tickets.",
    ),
    (
        diagnosis_time.callbacks,
        lambda side: measured(callbacks=499_000 + 1_000 * side, rest=501_000 - 1_000 * side),
        "50 % of the time in calls, 500 us a handshake, is the application's own callbacks.",
    ),
    (
        diagnosis_time.key_exchange,
        lambda side: measured(key_exchange=499_000 + 1_000 * side, rest=501_000 - 1_000 * side),
        "50 % of the time in calls, 500 us a handshake, is the key exchange.",
    ),
    (
        diagnosis_offload.software_fallback,
        lambda side: replace(measured(rest=9), offload=replace(OFFLOAD, handshakes=90, software=9 + side)),
        "qatengine is there, but 10 % of the private-key operations (10) are done by OpenSSL itself: they aren't offloaded.",
    ),
    (
        diagnosis_offload.vain_resumptions,
        lambda side: replace(
            measured(wait_offload=900, rest=100),
            offload=replace(OFFLOAD, pauses=199 + side, unseen=99 + side, pollers=(PollingThread(1, 2, "poll", 100, None),)),
        ),
        "The jobs were paused 200 times for 100 completions, 2.0 times each: the event loop resumes jobs that aren't done,"
        " for example because a descriptor stays readable (nobody drains it), or because it polls every job.",
    ),
    (
        diagnosis_offload.late_resumption,
        lambda side: measured(
            wait_offload=800_000, offload_completion=401_000 - 1_000 * side, offload_resumption=399_000 + 1_000 * side, rest=9
        ),
        ">99 % of the handshakes' time is spent waiting for the offload, 50 % of that after completion, 400 us a handshake:"
        " the event loop is slow to resume the jobs that are done.",
    ),
    (
        diagnosis_offload.late_resumption,
        lambda side: measured(wait_offload=499 + side, offload_completion=100, offload_resumption=399 + side, rest=501 - side),
        "50 % of the handshakes' time is spent waiting for the offload, 80 % of that after completion, 400 ns a handshake:"
        " the event loop is slow to resume the jobs that are done.",
    ),
    (
        diagnosis_offload.offload_waits,
        lambda side: measured(wait_offload=499 + side, offload_completion=400, offload_resumption=100, rest=501 - side),
        "50 % of the handshakes' time is spent waiting for the offload, 80 % of that until completion: the offload itself.",
    ),
    (
        diagnosis_offload.batches_unfilled,
        lambda side: replace(
            measured(wait_offload=300, rest=700),
            offload=replace(OFFLOAD, batches=(Batches("mbx", (0, 0, 0, 0, 99 + side, 1 - side, 0, 0, 0)),)),
        ),
        "30 % of the handshakes' time is spent waiting for the offload, and its batches have an average fill of 4.0 of 8:"
        " too few are in flight at a time to fill them.",
    ),
    (
        diagnosis_offload.batches_unfilled,
        lambda side: replace(
            measured(wait_offload=249 + side, rest=751 - side),
            offload=replace(OFFLOAD, batches=(Batches("mbx", (0, 90, 0, 0, 0, 0, 0, 0, 10)),)),
        ),
        "25 % of the handshakes' time is spent waiting for the offload, and its batches have an average fill of 1.7 of 8:"
        " too few are in flight at a time to fill them.",
    ),
    (
        diagnosis_failures.one_reason,
        lambda side: handshakes_of([*failed(99 + side), *failed(51, "other"), *failed(50 - side, "others")]),
        '50 % of the failures (100 of 200, in 200 handshakes) are "no shared cipher":'
        " what clients offer and what this server's ciphers and key allow have nothing in common.",
    ),
    (
        diagnosis_failures.one_reason,
        lambda side: handshakes_of([*alike(90, rest=1), *failed(9 + side, "odd")]),
        '100 % of the failures (10 of 10, in 100 handshakes) are "odd".',
    ),
    (
        diagnosis_failures.abandoned,
        lambda side: handshakes_of([*alike(180, rest=1), *gone(19 + side)]),
        "10 % of the handshakes (20) were abandoned after 1.00 ms on average:"
        " given up in the middle, by the peer or by the server itself.",
    ),
    (
        diagnosis_failures.abandoned,
        lambda side: handshakes_of([*failed(20), *gone(19 + side, "reading")]),
        '50 % of the handshakes (20) were abandoned after 1.00 ms on average, 100 % of them in state "reading":'
        " given up in the middle, by the peer or by the server itself.",
    ),
    (
        diagnosis_failures.abandoned,
        lambda side: handshakes_of([*alike(30, rest=1), *gone(9 + side)]),
        "25 % of the handshakes (10) were abandoned after 1.00 ms on average:"
        " given up in the middle, by the peer or by the server itself.",
    ),
]


@pytest.mark.parametrize(("rule", "handshakes", "sentence"), SIDES)
def test_threshold(rule: Rule, handshakes: Callable[[int], Handshakes], sentence: str) -> None:
    assert rule(handshakes(0)) is None
    assert rule(handshakes(1)) == sentence


def test_every_rule_is_tested_on_both_sides_and_documented() -> None:
    rules = {*TIME_RULES, *FAILURE_RULES}
    assert {rule for rule, _, _ in SIDES} == rules
    text = DOCUMENT.read_text(encoding="utf-8")
    assert not [rule.__name__ for rule in rules if f"`{rule.__name__}`" not in text]


@pytest.mark.parametrize(("rule", "handshakes", "_"), [side for side in SIDES if side[0] in TIME_RULES])
def test_no_sentence_about_time_of_few_handshakes(rule: Rule, handshakes: Callable[[int], Handshakes], _: str) -> None:
    made = handshakes(1)
    if made.offload:
        made = replace(made, offload=replace(made.offload, handshakes=9, software=20))
    few = measured(FEWEST - 1, **{str(part): 1000 for part in made.groups[0].parts if part not in (Part.WALL, Part.CALLS)})
    assert rule(replace(made, groups=few.groups)) is None


def test_thirty_are_enough() -> None:
    assert diagnosis_time.callbacks(measured(FEWEST - 1, callbacks=9)) is None
    assert diagnosis_time.callbacks(measured(FEWEST, callbacks=9)) is not None
    assert diagnosis_failures.one_reason(handshakes_of(failed(FEWEST - 1))) is None
    assert diagnosis_failures.one_reason(handshakes_of(failed(FEWEST))) is not None
    assert diagnosis_failures.abandoned(handshakes_of(gone(FEWEST - 1))) is None
    assert diagnosis_failures.abandoned(handshakes_of(gone(FEWEST))) is not None


def resumed(share: int) -> Handshakes:
    return handshakes_of(
        [
            *alike(100 - share, {Label.RESUMED: NO}, private_key=900, rest=1),
            *alike(share, {Label.RESUMED: YES}, rest=1),
        ]
    )


def test_session_resumption_is_no_advice_where_half_are_resumed() -> None:
    assert diagnosis_time.private_key(resumed(50)) is None
    assert "; 49 % of the handshakes are resumed: an ECDSA certificate, session" in (
        diagnosis_time.private_key(resumed(49)) or ""
    )


def test_advice_fits_the_key_and_the_offload() -> None:
    made = measured(private_key=900, rest=1)
    ecdsa = replace(made, keys=(replace(made.keys[0], key="ECDSA P-256"),), offload=OFFLOAD)
    assert diagnosis_time.private_key(ecdsa) == (
        ">99 % of the time in calls is ECDSA P-256 signing: session resumption would reduce it."
    )


@pytest.mark.parametrize(("rsa", "named"), [(80, "RSA-2048 signing"), (79, "the private key")])
def test_key_is_named_where_nearly_all_of_its_time_is_of_one_kind(rsa: int, named: str) -> None:
    made = measured(private_key=900, rest=1)
    keys = (replace(made.keys[0], total_ns=rsa), replace(made.keys[0], key="RSA-4096", total_ns=100 - rsa))
    assert f"is {named}: " in (diagnosis_time.private_key(replace(made, keys=keys)) or "")
    unknown = replace(made, keys=(replace(made.keys[0], key=""),))
    assert "is the private key: session" in (diagnosis_time.private_key(unknown) or "")


def test_prevailing_group_is_named() -> None:
    made = handshakes_of(alike(100, {Label.GROUP: "secp384r1"}, key_exchange=9))
    assert (diagnosis_time.key_exchange(made) or "").endswith("is the key exchange, secp384r1.")


def test_off_cpu_is_judged_only_where_it_was_measured() -> None:
    assert diagnosis_time.off_cpu(measured(rest=1000, off_cpu=900)) is None


def test_alert_of_the_peer_is_explained_but_not_one_of_ours() -> None:
    theirs = diagnosis_failures.one_reason(handshakes_of(failed(50, "tlsv1 alert unknown ca", "unknown ca", sent=False)))
    ours = diagnosis_failures.one_reason(handshakes_of(failed(50, "tlsv1 alert unknown ca", "unknown ca", sent=True)))
    assert theirs is not None
    assert ours is not None
    assert theirs.startswith(ours[:-1])
    assert "don't trust this certificate's issuer" in theirs


def test_states_that_are_spread_are_not_named() -> None:
    made = handshakes_of([*gone(20, "a"), *gone(21, "b"), *gone(20, "c")])
    assert "in state" not in (diagnosis_failures.abandoned(made) or "in state")


def test_what_passes_the_wall_time_goes_before_what_takes_the_calls() -> None:
    (sentence,) = diagnose(measured(private_key=900_000, rest=100_000, wait_peer=9_000_000))
    assert sentence.endswith("the server's own work is 1.00 ms of 10.0 ms, 90 % of it RSA-2048 signing.")


@pytest.mark.parametrize(("sample", "sentences"), [(near, 1), (distant, 2), (offloaded, 1), (failing, 1), (idle, 0)])
def test_at_most_one_sentence_about_time_and_one_about_failures(sample: Callable[[], object], sentences: int) -> None:
    handshakes = getattr(sample(), "handshakes")  # noqa: B009
    assert len(diagnose(handshakes)) == sentences


# What the server's thread did while bytes lay in its queue, and what that is called.
MEANWHILE = {
    Part.QUEUE_HANDSHAKES: "busy with other handshakes",
    Part.QUEUE_OTHER: "busy with something else than handshakes",
    Part.QUEUE_RUNNABLE: "ready to run but had no processor",
    Part.QUEUE_THROTTLED: "held by a CPU quota",
    Part.QUEUE_ASLEEP: "slept elsewhere",
}


@pytest.mark.parametrize(("part", "words"), MEANWHILE.items())
def test_a_queue_is_told_with_what_the_thread_did(part: Part, words: str) -> None:
    (sentence,) = diagnose(handshakes_of([Shake({Part.QUEUE_SERVER: 9_000_000, part: 6_000_000, Part.REST: 400_000})] * 50))
    assert words in sentence
    assert [other for other in MEANWHILE.values() if other in sentence] == [words]


def test_a_queue_is_told_where_it_is_not_known_what_the_thread_did() -> None:
    (sentence,) = diagnose(measured(queue_start=9_000_000, queue_other=2_000_000, rest=400_000))
    assert sentence.endswith("this server's own queue: their bytes had arrived, and it was late to come back for them.")


def test_no_queue_is_told_of_a_healthy_server() -> None:
    assert diagnose(measured(queue_start=40_000, queue_server=40_000, queue_handshakes=70_000, rest=40_000)) == []


def test_a_longer_wait_for_the_peer_is_told_instead_of_the_queue() -> None:
    (sentence,) = diagnose(measured(queue_server=9_000_000, queue_other=9_000_000, wait_peer=12_000_000, rest=400_000))
    assert "waiting for the peer and the network" in sentence


@pytest.mark.parametrize(
    ("round_trips", "words"),
    [
        (9_000_000, "they are far away, as the shortest round trip explains 90 % of that"),
        (
            1_000_000,
            "the clients take their time, or the network delays or loses, as the shortest round trip explains 10 % of that",
        ),
    ],
)
def test_far_clients_are_told_from_slow_ones(round_trips: int, words: str) -> None:
    (sentence,) = diagnose(measured(wait_peer=10_000_000, round_trips=round_trips, rest=400_000))
    assert words in sentence


def test_the_peer_is_not_blamed_where_arrivals_were_not_seen() -> None:
    (sentence,) = diagnose(replace(measured(wait_peer=10_000_000, rest=400_000), arrivals=False))
    assert "whether the peer, the network or this server was late isn't known" in sentence


def test_silence_where_nothing_stands_out() -> None:
    assert diagnose(measured(private_key=400, key_exchange=400, rest=400, wait_peer=900)) == []
    assert diagnose(measured(private_key=400, key_exchange=400, rest=400, wait_peer=1_999_000)) == []
    assert diagnose(handshakes_of([*alike(100, rest=1, wait_unknown=99), *failed(9)])) == []


def test_names_of_a_target_stay_printable() -> None:
    sentences = diagnose(handshakes_of(failed(50, "caf\u00e9\x1b[31m")))
    assert sentences
    assert all(sentence.isascii() and sentence.isprintable() for sentence in sentences)
