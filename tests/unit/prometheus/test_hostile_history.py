# SPDX-License-Identifier: Apache-2.0
"""A Prometheus whose series bear our metrics' names and aren't ours: one sentence, never a defect, nor a recording that can't
be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from tests.fuzz.network_invariants import Answers, histories

from ssllatency.errors import SsllatencyError
from ssllatency.prometheus.client import Prometheus, Range
from ssllatency.prometheus.history import Wanted, read

Series = dict[str, list[dict[str, Any]]]


def history(change: Callable[[Series], object]) -> int:
    """How many runs are read of series that are changed so."""
    series = json.loads(histories()[0])
    change(series)
    return len(read(cast("Prometheus", Answers(series)), Wanted("nginx"), Range(1000.0, 1120.0, 60.0)).runs)


def relabel(family: str, label: str, value: str) -> Callable[[Series], object]:
    return lambda series: series[family][0]["metric"].update({label: value})


@pytest.mark.parametrize(
    "change",
    [
        relabel("ssllatency_call_duration_seconds", "outcome", "odd"),
        relabel("ssllatency_handshake_errors_total", "outcome", ""),
        relabel("ssllatency_handshake_duration_seconds", "outcome", "\x1b[2J"),
        lambda series: series.pop("ssllatency_handshake_calls_seconds"),
        lambda series: series["ssllatency_build_info"][0].update({"values": [[1000.0, "0"], [1060.0, "1e300"]]}),
        lambda series: series["ssllatency_handshake_errors_total"][0].update({"values": [[1000.0, "0"], [1060.0, "1e300"]]}),
    ],
    ids=["call's outcome", "no outcome", "escape", "no calls", "a time beyond the calendar", "a number beyond all"],
)
def test_series_of_others_are_refused(change: Callable[[Series], object]) -> None:
    with pytest.raises(SsllatencyError, match="aren't as `ssllatency export` writes them"):
        history(change)


def test_ours_are_read() -> None:
    assert history(lambda _: None) == 1
