# SPDX-License-Identifier: Apache-2.0
"""Handshakes in some of which phases weren't watched: what is estimated of all, and how reports and documents show that."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.measured.handshakes import Shake, handshakes_of
from tests.unit.reports.report_samples import snapshot_of

from ssllatency.model.arithmetic.handshake_sums import difference, merge, total
from ssllatency.model.handshakes import WINDOWED, Ending, Fact, Group, Handshakes, Part, Single
from ssllatency.model.recording import Recording
from ssllatency.model.snapshot import Snapshot
from ssllatency.model.statistics.compare import compare
from ssllatency.model.statistics.resampling import Quantity
from ssllatency.reports.diagnosis.calls import asleep_in_calls
from ssllatency.reports.diagnosis.case import Case
from ssllatency.reports.diagnosis.resumption import tickets_refused
from ssllatency.reports.documents.document import from_json, to_json
from ssllatency.reports.html.page import page
from ssllatency.reports.rows.handshakes.endings import single_words
from ssllatency.reports.rows.handshakes.facts import facts_sentence
from ssllatency.reports.rows.parts import mean_ns, part_rows
from ssllatency.reports.rows.sampling import phases_sentence
from ssllatency.reports.text.handshakes.report import render
from ssllatency.watch.metrics import figure_of, handshake_subjects

TIMES = {
    Part.PRIVATE_KEY: 600_000,
    Part.KEY_EXCHANGE: 100_000,
    Part.CALLBACKS: 20_000,
    Part.REST: 80_000,
    Part.WAIT_PEER: 200_000,
}
WATCHED, NUMBER = 25, 100


def _unwatched(times: dict[Part, int]) -> Shake:
    """The same handshake as it is seen where only the private key's phase is watched."""
    hidden = sum(times.get(part, 0) for part in WINDOWED)
    kept = {part: time for part, time in times.items() if part not in WINDOWED}
    return Shake({**kept, Part.REST: times[Part.REST] + hidden}, facts={Fact.UNPHASED: 1})


def _handshakes(watched: int = WATCHED) -> Handshakes:
    return handshakes_of([Shake(TIMES)] * watched + [_unwatched(TIMES)] * (NUMBER - watched))


def _snapshot(handshakes: Handshakes) -> Snapshot:
    return snapshot_of(handshakes=handshakes)


def _group(handshakes: Handshakes) -> Group:
    group = total(handshakes, Ending.SUCCESS)
    assert group is not None
    return group


def test_the_estimate_is_what_all_handshakes_had() -> None:
    seen, all_of_them = _group(_handshakes()), _group(_handshakes(NUMBER))
    assert seen.unphased == NUMBER - WATCHED
    assert seen.total_ns(Part.KEY_EXCHANGE) == WATCHED * TIMES[Part.KEY_EXCHANGE]
    estimated = {part: times.total_ns for part, times in seen.estimated.parts.items()}
    assert estimated == {part: times.total_ns for part, times in all_of_them.parts.items()}
    assert all_of_them.estimated is all_of_them


def test_help_with_collections_is_estimated_beside_the_phases() -> None:
    """It lies in any of them, or in none, so nothing of it is in REST alone; and it is no more than the calls."""
    helping = handshakes_of([Shake({**TIMES, Part.ASSISTS: 40_000})] * WATCHED + [_unwatched(TIMES)] * (NUMBER - WATCHED))
    group = _group(helping)
    assert group.total_ns(Part.ASSISTS) == WATCHED * 40_000
    assert group.estimated.total_ns(Part.ASSISTS) == NUMBER * 40_000
    assert group.estimated.total_ns(Part.REST) == _group(_handshakes()).estimated.total_ns(Part.REST)
    assert {row.part: row.cells[1] for row in part_rows(group)}[Part.ASSISTS] == "~4.0 %"
    longest = handshakes_of([Shake({**TIMES, Part.ASSISTS: 800_000})] + [_unwatched({Part.REST: 1_000})] * 9)
    assert _group(longest).estimated.total_ns(Part.ASSISTS) <= _group(longest).total_ns(Part.CALLS)


def test_no_more_is_moved_out_of_rest_than_is_in_it() -> None:
    slow = {**TIMES, Part.KEY_EXCHANGE: 10_000_000}
    group = _group(handshakes_of([Shake(slow)] + [_unwatched(TIMES)] * 9))
    assert group.estimated.total_ns(Part.REST) >= 0
    phases = (Part.PRIVATE_KEY, *WINDOWED, Part.REST)
    assert group.estimated.total_ns(*phases) == group.total_ns(Part.CALLS) == group.total_ns(*phases)


def test_where_none_was_watched_nothing_is_estimated() -> None:
    handshakes = _handshakes(0)
    group = _group(handshakes)
    assert group.estimated is group
    assert phases_sentence(handshakes) == (
        "Phases but the private key's were watched in 0 % of the handshakes (0 of 100) to keep within the budget: in the others"
        " they are part of rest. --exact watches them in all."
    )


def test_estimates_are_marked() -> None:
    rows = {row.part: row.cells for row in part_rows(_group(_handshakes()))}
    assert rows[Part.KEY_EXCHANGE][:3] == ("25", "~10 %", "100 us")
    assert rows[Part.REST] == ("100", "~8.0 %", "~80.0 us", "-", "-", "-", "-")
    assert rows[Part.PRIVATE_KEY][:3] == ("100", "60 %", "600 us")
    exact = {row.part: row.cells for row in part_rows(_group(_handshakes(NUMBER)))}
    assert not any("~" in cell for cells in exact.values() for cell in cells)
    assert mean_ns(_group(_handshakes())) == mean_ns(_group(_handshakes(NUMBER)))


def test_sleep_in_rest_is_left_out() -> None:
    asleep = {**TIMES, Part.REST_ASLEEP: 10_000}
    handshakes = handshakes_of([Shake(asleep)] * 5 + [replace(_unwatched(TIMES), times={**asleep})] * 5)
    assert Part.REST_ASLEEP not in {row.part for row in part_rows(_group(handshakes))}


def test_nothing_is_said_of_sleep_outside_of_phases() -> None:
    """As what a callback slept that wasn't watched is part of rest."""
    sleeping = {**TIMES, Part.CALLBACKS: 5_000_000, Part.REST_ASLEEP: 0}
    hidden = _unwatched(sleeping)
    slept = replace(hidden, times={**hidden.times, Part.REST_ASLEEP: 5_000_000})
    assert asleep_in_calls(Case(handshakes_of([slept] * NUMBER))) is None
    assert asleep_in_calls(Case(handshakes_of([replace(slept, facts={})] * NUMBER))) is not None


def test_reports_say_how_many_were_watched_and_what_all_would_cost() -> None:
    handshakes = replace(_handshakes(), exact_share=0.131)
    sentence = (
        "Phases but the private key's were watched in 25 % of the handshakes (25 of 100) to keep within the budget: what has a"
        " ~ is estimated from these. --exact watches all the time, for about 13 % of the CPU time of the process that pays"
        " most."
    )
    assert phases_sentence(handshakes) == sentence
    assert sentence in " ".join(render(_snapshot(handshakes)).split())
    assert "is estimated from these" in page(Recording.of([_snapshot(handshakes)]))
    assert "estimated" not in render(_snapshot(_handshakes(NUMBER)))


def test_rules_judge_by_the_estimates() -> None:
    case, exact = Case(_handshakes()), Case(_handshakes(NUMBER))
    for part in (Part.KEY_EXCHANGE, Part.CALLBACKS, Part.REST, Part.PRIVATE_KEY):
        assert case.ns(part) == exact.ns(part)
        assert case.had(part) == exact.had(part) == NUMBER


def test_a_comparison_attributes_no_change_to_what_was_not_watched() -> None:
    before, after = (Recording.of([_snapshot(handshakes)]) for handshakes in (_handshakes(NUMBER), _handshakes()))
    comparison = compare(before, after)
    assert all(contribution.change_ns == 0 for contribution in comparison.contributions)
    rows = {row.subject.name: row.changes for row in comparison.rows}
    assert rows.keys() & {Part.PRIVATE_KEY, Part.REST, Part.KEY_EXCHANGE} == {Part.PRIVATE_KEY, Part.KEY_EXCHANGE}
    rates = [rows[part][Quantity.RATE] for part in (Part.PRIVATE_KEY, Part.KEY_EXCHANGE)]
    assert [(rate.before, rate.after) for rate in rates] == [(pytest.approx(rates[0].before),) * 2, (rates[0].before, None)]


@pytest.mark.parametrize(
    ("subject", "word", "value"),
    [
        ("key exchange", "p50", 100_000),
        ("key exchange", "share", 0.1),
        ("key exchange", "count", None),
        ("rest", "mean", None),
        ("rest", "share", None),
        ("private key", "share", 0.6),
        ("private key", "count", NUMBER),
    ],
)
def test_conditions_know_what_was_watched(subject: str, word: str, value: float | None) -> None:
    asked = handshake_subjects()[subject]
    figure = figure_of(asked, word)
    assert figure is not None
    found = figure.value([asked.sample(_snapshot(_handshakes()))])
    assert found == (value if value is None else pytest.approx(value, rel=0.1))


def test_documents_hold_it() -> None:
    single = Single(1.0, 1, 1, "nginx", Ending.SUCCESS, _unwatched(TIMES).parts, {}, 2, 0, unphased=True)
    handshakes = replace(_handshakes(), exact_share=0.25, slowest=(single,))
    read = from_json(to_json(_snapshot(handshakes)))
    assert read.handshakes == handshakes
    assert "phases not watched" in single_words(single).calls
    assert "not watched" not in single_words(replace(single, unphased=False)).calls


def test_sums_and_differences_hold_it() -> None:
    part, whole = replace(_handshakes(), exact_share=0.1), merge(_handshakes(), replace(_handshakes(), exact_share=0.2))
    assert (whole.unphased, whole.exact_share) == (2 * (NUMBER - WATCHED), 0.2)
    assert merge(part, part).exact_share == 0.1
    assert difference(whole, _handshakes()).unphased == NUMBER - WATCHED


def test_offered_sessions_are_those_of_handshakes_that_were_watched() -> None:
    """Refused sessions are as many of these, however few they are of all."""
    offering = Shake({**TIMES, Part.SESSION_LOOKUP: 5_000}, facts={Fact.OFFERED: 1})
    refused = replace(offering, facts={**offering.facts, Fact.TICKETS_REFUSED: 1})
    handshakes = handshakes_of([refused] * 32 + [offering] * 8 + [_unwatched(TIMES)] * 960)
    assert facts_sentence(handshakes) == ("Network and resumption: a session was offered in 100 %, a ticket refused in 80 %.")
    evidence = tickets_refused(Case(handshakes))
    assert evidence
    assert "80 % of the clients that offered a session (32 of 40)" in evidence.sentence


def test_phases_that_were_never_watched_changed_nothing() -> None:
    """Of a side of which they aren't known they are the rest on both sides."""
    watched, unwatched = (Recording.of([_snapshot(_handshakes(number))]) for number in (NUMBER, 0))
    for sides in ((watched, unwatched), (unwatched, watched)):
        changes = {contribution.part: contribution.change_ns for contribution in compare(*sides).contributions}
        assert not {*changes} & {*WINDOWED}
        assert not any(changes.values())
