# SPDX-License-Identifier: Apache-2.0
"""Accept queues that were full, in the sentences after a report."""

from __future__ import annotations

from dataclasses import replace

from tests.measured.handshakes import handshakes_of
from tests.unit.reports.report_samples import snapshot_of

from ssllatency.accept_queue import CLOSED, TOGETHER, AcceptQueue
from ssllatency.reports.rows.losses import notes


def said(*queues: AcceptQueue, untold: int = 0) -> list[str]:
    return notes(snapshot_of(handshakes=replace(handshakes_of([]), accept_queues=queues, overflows_untold=untold)))


def test_each_that_was_full_is_named_with_what_is_known_of_it() -> None:
    web, closed = AcceptQueue(443, "::", 511, 9), AcceptQueue(*CLOSED, None, 2)
    assert said(web, closed, AcceptQueue(*TOGETHER, None, 1, 17), AcceptQueue(80, "::", 511, 0)) == [
        "Accept queues that were full when a connection came: [::]:443 (holds 511) 9 times, closed sockets 2 times,"
        " one of several sockets (network namespace 17) 1 time."
    ]


def test_those_of_which_it_is_not_known_whose_they_are_count_by_themselves() -> None:
    (sentence,) = said(AcceptQueue(443, "::", None, 0), untold=7)
    assert sentence.startswith("Accept queues were full 7 more times when a connection came; whether they were")
    assert said(AcceptQueue(443, "::", None, 0)) == said() == []
