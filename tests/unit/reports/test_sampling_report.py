# SPDX-License-Identifier: Apache-2.0
"""What was watched in windows only, as reports say it and documents hold it; and what can't be done with it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.reports.report_samples import busy

from ssllatency.errors import SsllatencyError
from ssllatency.model.arithmetic import merge
from ssllatency.model.recording import Recording
from ssllatency.model.sampling import Estimate, Interval, Sampling
from ssllatency.model.snapshot import Outcome
from ssllatency.model.statistics.compare import compare
from ssllatency.reports.documents.document import from_json, to_document, to_json
from ssllatency.reports.rows.sampling import sampling_rows, sampling_sentences
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


def test_a_document_holds_all_of_it() -> None:
    assert from_json(to_json(SAMPLED, by_process=True)) == SAMPLED
    assert "sampling" not in to_document(busy())


def test_windows_are_neither_added_up_nor_compared() -> None:
    reason = r"SSL_read, SSL_write of web1 were watched in windows only, which can't be {}: measure without --budget"
    with pytest.raises(SsllatencyError, match=reason.format("added up")):
        merge(busy(), SAMPLED)
    with pytest.raises(SsllatencyError, match=reason.format("compared")):
        compare(Recording.of([busy()]), Recording.of([SAMPLED]))
