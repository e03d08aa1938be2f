# SPDX-License-Identifier: Apache-2.0
"""What was watched in windows only, as reports say it and documents hold it; and what can't be done with it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.measured.handshakes import Shake, handshakes_of
from tests.unit.reports.report_samples import busy

from ssllatency.errors import SsllatencyError
from ssllatency.model.arithmetic.snapshots import merge
from ssllatency.model.handshakes import Part
from ssllatency.model.recording import Recording
from ssllatency.model.sampling import Basis, Estimate, Interval, Sampling, Stratum, Work
from ssllatency.model.snapshot import Outcome, Snapshot
from ssllatency.model.statistics.compare import compare
from ssllatency.model.statistics.comparison import FUNCTION
from ssllatency.model.statistics.resampling import Quantity
from ssllatency.reports.documents import diff as diff_document
from ssllatency.reports.documents.document import from_json, to_document, to_json
from ssllatency.reports.html.change import findings
from ssllatency.reports.rows.sampling import sampling_rows, sampling_sentences, unprinted
from ssllatency.reports.text import diff as diff_text
from ssllatency.reports.text.trace import render

SAMPLING = Sampling(
    functions=("SSL_read", "SSL_write"),
    watched_s=0.6,
    duration_s=10.0,
    windows=9,
    unfinished=0,
    estimates=(
        Estimate("SSL_read", Outcome.SUCCESS, Interval(20_000, 18_000, 22_000), Interval(7_000, 6_000, 9_000)),
        Estimate("SSL_write", Outcome.RETRY, Interval(30, None, None), None),
    ),
)
SAMPLED = replace(busy(), sampling=(SAMPLING,))


def test_a_sentence_says_how_much_was_watched() -> None:
    assert sampling_sentences([SAMPLING]) == [
        "SSL_read, SSL_write: watched 6.0 % of the time (600 ms in 9 windows) to keep within the budget; the counts above are"
        " what was seen then."
    ]
    [late] = sampling_sentences([replace(SAMPLING, unfinished=2)])
    assert late.endswith(" 2 calls ran on after their window and aren't counted.")


def test_before_the_first_window_has_ended_there_is_nothing_to_estimate() -> None:
    assert sampling_sentences([replace(SAMPLING, watched_s=0.0, duration_s=0.0, windows=0, estimates=())]) == [
        "SSL_read, SSL_write: watched in windows to keep within the budget, none of which has ended yet."
    ]


def test_estimates_have_their_bounds_where_these_are_known() -> None:
    assert [(row.names, row.cells) for row in sampling_rows([SAMPLING])] == [
        (("SSL_read", "success"), ("20000 (18000 to 22000)", "7.00 us (6.00 us to 9.00 us)")),
        (("SSL_write", "retry"), ("30", "-")),
    ]


def test_the_report_marks_estimates_as_such() -> None:
    report = render(SAMPLED)
    assert "ESTIMATED CALLS" in report
    assert "20000 (18000 to 22000)" in report
    assert "ESTIMATED" not in render(busy())


WORK = Work(io_calls=30.0, own_ns=2e6, cost_ns=None)
STRATUM = Stratum(2.5, 0.1, {("SSL_read", Outcome.SUCCESS): {30: 2, 31: 1.5}}, WORK * 20, WORK)


@pytest.mark.parametrize(
    "part",
    [
        SAMPLING,
        replace(SAMPLING, exact_share=0.31),
        replace(SAMPLING, scaled_by=Basis.IO_CALLS, dearer=2.1, chains=((STRATUM, STRATUM), (STRATUM,))),
    ],
)
def test_a_document_holds_all_of_it(part: Sampling) -> None:
    sampled = replace(busy(), sampling=(part,))
    assert from_json(to_json(sampled, by_process=True)) == sampled
    assert "sampling" not in to_document(busy())


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("watched_s", 3.0, "watched_s must be 0 or more, and at most length_s"),
        ("watched_s", -1, "watched_s must be a number of 0 or more"),
        ("calls", [{"function": "f", "outcome": "success", "buckets": [30], "counts": []}], "counts must be as long"),
        (
            "calls",
            [{"function": "f", "outcome": "success", "buckets": [10**6], "counts": [1]}],
            "must be the number of a bucket",
        ),
        ("whole", {}, "whole must be an object with the fields of Work"),
    ],
)
def test_strata_that_cannot_be_are_refused(field: str, value: object, reason: str) -> None:
    document = json.loads(to_json(replace(busy(), sampling=(replace(SAMPLING, chains=((STRATUM,),)),))))
    document["sampling"][0]["strata"][0][0][field] = value
    with pytest.raises(SsllatencyError, match=reason):
        from_json(json.dumps(document))


def test_what_the_estimates_follow_is_said() -> None:
    slow = replace(SAMPLING.estimates[0], p99_ns=Interval(7_000, 0.0, 9_000))
    [sentence] = sampling_sentences([replace(SAMPLING, scaled_by=Basis.IO_CALLS, estimates=(slow,), dearer=2.3)])
    assert sentence.endswith(
        " Estimates follow the processes' read and write system calls, as these do less while they are watched. Calls took"
        " longer than they would have unwatched: for p99 only an upper bound is known. A hit cost 2.3 times what was measured"
        " at the start; the budget was kept by the higher figure."
    )
    [row] = sampling_rows([replace(SAMPLING, estimates=(slow,))])
    assert row.cells[1] == "at most 9.00 us"


def test_windows_are_not_added_up_where_it_is_not_told_what_each_saw() -> None:
    reason = r"SSL_read, SSL_write of web1 were watched in windows only, "
    with pytest.raises(SsllatencyError, match=reason + "and it isn't told what was seen in each"):
        merge(busy(), SAMPLED)


def test_a_function_is_new_beside_functions_that_are_left_out() -> None:
    """Where others were called in windows alone, it is known that this one wasn't called."""
    handshakes = handshakes_of([Shake({Part.REST: 5})])
    series = tuple(series for series in SAMPLED.series if series.function == "SSL_read")
    reads = replace(SAMPLED, series=series, handshakes=handshakes)
    comparison = compare(Recording.of([reads]), Recording.of([replace(busy(), handshakes=handshakes)]))
    rates = [row.changes[Quantity.RATE] for row in comparison.rows if row.subject.name == "SSL_do_handshake"]
    assert rates
    assert all(rate.before == 0 and rate.after for rate in rates)


@pytest.mark.parametrize("sides", [(busy(), SAMPLED), (SAMPLED, busy()), (SAMPLED, SAMPLED)])
def test_what_was_watched_in_windows_is_left_out_of_a_comparison(sides: tuple[Snapshot, Snapshot]) -> None:
    before, after = (Recording.of([side]) for side in sides)
    comparison = compare(before, after)
    names = {row.subject.name for row in comparison.rows if row.subject.kind == FUNCTION}
    assert comparison.left_out == ("SSL_read", "SSL_write")
    assert "SSL_do_handshake" in names
    assert not names & {"SSL_read", "SSL_write"}
    assert comparison.handshake == compare(*(Recording.of([busy()]) for _ in sides)).handshake
    told = "Not compared, as either recording watched them in windows only: SSL_read, SSL_write."
    assert told in " ".join(diff_text.render(before, after, comparison).split())
    assert json.loads(diff_document.to_json(before, after, comparison))["left_out"] == ["SSL_read", "SSL_write"]
    assert told in findings(comparison)[-1].text


@pytest.mark.parametrize(("share", "cost"), [(0.312, "about 31 %"), (1.7, "more than 95 %")])
def test_it_is_said_how_to_watch_all_and_what_that_costs(share: float, cost: str) -> None:
    sampled = replace(SAMPLING, exact_share=share)
    said = f" --exact watches all the time, for {cost} of the CPU time of the process that pays most."
    assert sampling_sentences([sampled])[0].endswith(said)
    [line] = unprinted([sampled])
    assert line.startswith("SSL_read, SSL_write: calls were watched ")
    assert line.endswith(said)


def test_where_all_calls_were_printed_nothing_is_said() -> None:
    assert unprinted([]) == []
    assert unprinted([replace(SAMPLING, duration_s=0.0)]) == []
