# SPDX-License-Identifier: Apache-2.0
"""What the short report of two recordings says: new failures with their reasons, whom the change affects, whose time it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from tests.measured.handshakes import Shake, handshakes_of
from tests.measured.recordings import interval_of, shakes_of

from ssllatency.model.handshakes import Ending, Label, Part
from ssllatency.model.recording import Recording
from ssllatency.model.statistics.compare import compare
from ssllatency.model.statistics.comparison import Verdict
from ssllatency.model.statistics.failures import chance, share_change
from ssllatency.reports.html.change import findings
from ssllatency.reports.text import diff
from ssllatency.reports.text.page import Page

WIDE = Page(400)
NAMES = ("a.example", "b.example", "c.example")


def failures(number: int, reason: str = "no shared cipher") -> list[Shake]:
    return [Shake({Part.REST: 100_000}, {Label.SNI: "a.example"}, Ending.FAILURE, reason=reason) for _ in range(number)]


def recording(
    seed: int, failed: Sequence[int] = (0,) * 6, each: int = 132, slow: str = "", by: tuple[Label, ...] = ()
) -> Recording:
    """So many handshakes in each of six intervals, spread over NAMES, of which one may be slow; and some that failed."""
    random, intervals = Random(seed), []
    for number, bad in enumerate(failed):
        shakes = shakes_of(random, each)
        shakes = [replace(one, labels={Label.SNI: NAMES[place % 3]}) for place, one in enumerate(shakes)]
        if slow:
            shakes = [
                replace(one, times={**one.times, Part.QUEUE_SERVER: 4_000_000}) if one.labels[Label.SNI] == slow else one
                for one in shakes
            ]
        made = interval_of(number, [])
        intervals.append(replace(made, handshakes=handshakes_of([*shakes, *failures(bad)], by)))
    return Recording.of(intervals, f"{seed}.jsonl")


def text(before: Recording, after: Recording) -> str:
    return diff.render(before, after, compare(before, after), WIDE)


def test_a_few_new_failures_are_told_with_their_reason() -> None:
    before, after = recording(1), recording(2, failed=(2, 3, 2, 3, 2, 3))
    sentence = (
        "Failed handshakes: 0 of 792 before and 15 of 807 (1.9 %) after: more."
        ' By reason: "no shared cipher" (new, 0 before, 15 after).'
    )
    assert f"==> {sentence}" in text(before, after)
    assert sentence in [finding.text for finding in findings(compare(before, after))]


def test_failures_that_are_new_are_not_called_by_their_time_alone() -> None:
    report = text(recording(1), recording(2, failed=(8,) * 6))
    assert "  new: failed handshakes, wall" in report


def test_everyday_failures_are_noise() -> None:
    assert ": no change beyond noise." in text(recording(1, failed=(2,) * 6), recording(2, failed=(2, 3, 2, 3, 2, 1)))
    assert "Failed" not in text(recording(1), recording(2))


def test_a_reason_may_change_though_the_number_does_not() -> None:
    before, after = recording(1, failed=(3,) * 6), recording(2)
    other = [
        replace(interval, handshakes=handshakes_of([*shakes_of(Random(3), 132), *failures(3, "unsupported protocol")]))
        for interval in after.intervals
    ]
    report = text(before, Recording.of(other, "other.jsonl"))
    assert "18 of 810 (2.2 %) before and 18 of 810 (2.2 %) after: no change beyond noise. By reason: " in report
    assert '"unsupported protocol" (new, 0 before, 18 after)' in report
    assert '"no shared cipher" (18 before, 0 after)' in report


def test_who_is_affected_is_told_and_the_others_are_one_line() -> None:
    by = (Label.SNI,)
    before, after = recording(1, by=by), recording(2, slow="b.example", failed=(3,) * 6, by=by)
    lines = text(before, after).splitlines()
    place = lines.index("Affected:")
    assert lines[place + 1].split() == ["SNI", "HANDSHAKES", "FAILED", "MEAN", "CHANGE"]
    rows = {line.split()[0]: line for line in lines[place + 2 : place + 4]}
    assert set(rows) == {"a.example", "b.example"}
    assert "0 -> 18" in rows["a.example"]
    assert rows["a.example"].endswith("more failures")
    assert rows["b.example"].endswith("slower")
    assert lines[place + 4] == "  1 group without change."


def test_where_no_group_changed_that_is_one_line() -> None:
    by = (Label.SNI,)
    assert "\nAffected: none of 3 groups changed beyond noise.\n" in text(recording(1, by=by), recording(2, by=by))


def test_groups_of_one_side_only_are_not_compared() -> None:
    report = text(recording(1, by=(Label.SNI,)), recording(2))
    assert "Whom it affects isn't known: grouped by SNI before and by nothing after." in report
    assert "Affected" not in text(recording(1), recording(2))


def test_time_is_told_by_its_owner() -> None:
    report = text(recording(1), recording(2, slow="b.example"))
    owners = [line.split("  ")[1] for line in report.splitlines() if line.startswith(("  server's ", "  peer and network"))]
    assert owners[0] == "server's queue"
    assert set(owners) == {"server's queue", "server's calls", "peer and network"}


def test_noise_is_one_line() -> None:
    before, after = recording(1), recording(2)
    assert len(text(before, after).splitlines()) < 20
    whole = diff.render(before, after, compare(before, after), WIDE, all_rows=True)
    assert "Handshakes:" in whole
    assert "noise: no change beyond" in whole


def test_chance_is_fishers() -> None:
    """Of tables whose probabilities are easily written out."""
    assert chance((0, 1), (1, 1)) == 1
    assert abs(chance((0, 3), (3, 3)) - 2 / 20) < 1e-9
    assert abs(chance((1, 9), (10, 10)) - 2 * (10 * 10 + 1) / 184756) < 1e-9
    assert chance((0, 15), (792, 807)) < 1e-3
    assert share_change(Ending.FAILURE, (0, 1), (800, 800)).verdict is Verdict.NOISE


def test_of_many_failures_it_is_as_good_by_the_normal_distribution() -> None:
    assert 0.3 < chance((5000, 5100), (100_000, 100_000)) < 0.4
    assert chance((5000, 5600), (100_000, 100_000)) < 1e-8
