# SPDX-License-Identifier: Apache-2.0
"""The diagnosis: each rule speaks first where its cause is planted and not at all short of its threshold; each sentence says
what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.measured.handshakes import handshakes_of, times_of
from tests.unit.reports.diagnosis.cases import SECOND, SIDES, Judge, failed, gone, measured
from tests.unit.reports.diagnosis.told import names

from ssllatency.model.handshakes import Handshakes, Times
from ssllatency.reports.diagnosis import calls, failures, queue
from ssllatency.reports.diagnosis.case import Case
from ssllatency.reports.diagnosis.diagnosis import conclusion, diagnose, diagnoses
from ssllatency.reports.diagnosis.numbers import FEWEST
from ssllatency.reports.diagnosis.rules import RULES

DOCS = Path(__file__).resolve().parents[4] / "docs"


@pytest.mark.parametrize(("rule", "handshakes", "beginning"), SIDES)
def test_threshold(rule: Judge, handshakes: Callable[[int], Handshakes], beginning: str) -> None:
    assert rule.__name__ not in names(handshakes(0))
    assert rule.__name__ in names(handshakes(1))
    assert names(handshakes(1))[0] == rule.__name__ or (not beginning and rule in SECOND)
    assert diagnose(handshakes(1))[0].startswith(beginning)


def test_every_rule_is_tested_on_both_sides_and_documented() -> None:
    assert {rule for rule, _, _ in SIDES} == {rule.evidence for rule in RULES}
    assert len({rule.name for rule in RULES}) == len(RULES)
    reference, symptoms = ((DOCS / file).read_text(encoding="utf-8") for file in ("reference/handshakes.md", "symptoms.md"))
    assert not [rule.name for rule in RULES if f"[`{rule.name}`](../symptoms.md#{rule.anchor})" not in reference]
    assert not [rule.anchor for rule in RULES if f"](#{rule.anchor})" not in symptoms]


def test_sleep_in_calls_that_may_be_for_the_peer_is_nobodys() -> None:
    """Before reads and writes were watched, it isn't known what calls slept for."""
    asleep = next(handshakes(1) for rule, handshakes, _ in SIDES if rule is calls.asleep_in_calls)
    count = sum(group.count for group in asleep.groups)
    assert names(asleep)[0] == "asleep_in_calls"
    assert names(replace(asleep, slept=count // 4))[0] == "asleep_in_calls"
    assert names(replace(asleep, slept=count)) == []


def test_every_rule_is_held_against_a_planted_cause() -> None:
    """In a live test, but for the one about measurements of older versions."""
    tests = "".join(file.read_text() for file in (DOCS.parent / "tests" / "live").rglob("test_*.py"))
    assert {rule.name for rule in RULES if f'"{rule.name}"' not in tests} <= {"off_cpu"}


def test_every_sentence_says_what_to_do() -> None:
    for _, handshakes, _ in SIDES:
        for diagnosis in diagnoses(handshakes(1)):
            evidence = diagnosis.rule.evidence(Case(handshakes(1)))
            assert evidence
            assert evidence.step or diagnosis.rule.step
            assert diagnosis.sentence.endswith(".")


OF_OTHERS = [*vars(failures).values(), queue.accept_queue_full]  # than those that succeeded


@pytest.mark.parametrize(("rule", "handshakes", "_"), [side for side in SIDES if side[0] not in OF_OTHERS])
def test_no_sentence_about_few_handshakes(rule: Judge, handshakes: Callable[[int], Handshakes], _: str) -> None:
    made = handshakes(1)
    if made.offload:
        made = replace(made, offload=replace(made.offload, handshakes=9, software=20))
    few = [
        replace(group, parts={part: _few(group.parts[part]) for part in group.parts}, facts=dict.fromkeys(group.facts, 29))
        for group in made.groups[:1]
    ]
    assert rule(Case(replace(made, groups=tuple(few)))) is None


def _few(times: Times) -> Times:
    return replace(times, exponential=times_of([1000] * (FEWEST - 1)).exponential)


def test_what_is_said_where_no_rule_speaks() -> None:
    """That nothing stands out is only said of as many as rules judge by."""
    few = "Too few successful handshakes to tell what is slow: {}, and 30 are needed."
    assert conclusion(measured(FEWEST, rest=0.1)) == [f"Nothing stands out in {FEWEST} successful handshakes."]
    assert conclusion(measured(FEWEST - 1, rest=60_000)) == [few.format(29)]
    assert conclusion(handshakes_of(failed(5))) == [few.format(0)]
    assert conclusion(handshakes_of([])) == []
    dear = measured(FEWEST, private_key=9)
    assert conclusion(dear) == diagnose(dear) != []


def test_thirty_are_enough() -> None:
    assert calls.callbacks(Case(measured(FEWEST - 1, callbacks=9))) is None
    assert calls.callbacks(Case(measured(FEWEST, callbacks=9))) is not None
    for rule, shakes in ((failures.one_reason, failed), (failures.abandoned, gone)):
        assert rule(Case(handshakes_of(shakes(FEWEST - 1)))) is None
        assert rule(Case(handshakes_of(shakes(FEWEST)))) is not None
