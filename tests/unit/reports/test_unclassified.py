# SPDX-License-Identifier: Apache-2.0
"""What a library doesn't show is said at the beginning, for the share that it concerns."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.reports.handshake_samples import near
from tests.unit.reports.report_samples import busy, series_of, snapshot_of, spread

from ssllatency.model.handshakes import Ending, Part
from ssllatency.model.snapshot import Outcome
from ssllatency.reports.rows.unclassified import unclassified


def test_where_all_is_classified_nothing_is_said() -> None:
    assert unclassified(busy()) == unclassified(near()) == []


def test_calls_without_a_reason() -> None:
    retries = series_of("SSL_read", Outcome.RETRY, spread(30, 1_000, 2_000), 7, {"WANT_READ": 20, "unknown": 10})
    failures = series_of("SSL_read", Outcome.FAILURE, spread(10, 1_000, 2_000), 7, {"SSL": 10})
    assert unclassified(snapshot_of(retries, failures)) == [
        "25 % of the calls that didn't succeed (10 calls) can't be classified, as their library doesn't show why: those that"
        " failed may stand among the retries."
    ]


def test_handshakes_of_whose_waits_nothing_is_known() -> None:
    snapshot = near()
    handshakes = snapshot.handshakes
    assert handshakes
    first, *others = handshakes.groups
    unknown = replace(first, parts={**first.parts, Part.WAIT_UNKNOWN: first.parts[Part.WALL]})
    every = sum(group.count for group in handshakes.groups)
    [sentence] = unclassified(replace(snapshot, handshakes=replace(handshakes, groups=(unknown, *others))))
    assert sentence.startswith(
        f"What {100 * first.count / every:.0f} % of the handshakes ({first.count} handshakes) waited for"
    )
    failed = replace(unknown, ending=Ending.ABANDONED)
    [sentence] = unclassified(replace(snapshot, handshakes=replace(handshakes, groups=(failed, *others))))
    assert sentence.endswith(" Those that failed may stand among the abandoned ones.")
