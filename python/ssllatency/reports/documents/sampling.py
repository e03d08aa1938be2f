# SPDX-License-Identifier: Apache-2.0
"""The list "sampling" of a document: written, and read again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from ssllatency.model.sampling import Estimate, Interval, Sampling
from ssllatency.model.snapshot import Outcome
from ssllatency.reports.documents.fields import Field


def sampling_fields(sampling: Sequence[Sampling]) -> dict[str, object]:
    """The list as plain data."""
    return {"sampling": [_part(part) for part in sampling]}


def _part(part: Sampling) -> dict[str, object]:
    estimates = [{**asdict(estimate), "outcome": str(estimate.outcome)} for estimate in part.estimates]
    return {**asdict(part), "functions": list(part.functions), "estimates": estimates}


def read_sampling(root: Field) -> tuple[Sampling, ...]:
    """What the document's measurement saw in windows only."""
    sampling = root.optional("sampling")
    return tuple(_read_part(part) for part in sampling.items()) if sampling else ()


def _read_part(part: Field) -> Sampling:
    return Sampling(
        functions=tuple(name.text() for name in part.get("functions").items()),
        watched_s=part.get("watched_s").number(),
        duration_s=part.get("duration_s").number(),
        windows=part.get("windows").whole(),
        unfinished=part.get("unfinished").whole(),
        estimates=part.get("estimates").rows(_read_estimate, "function and outcome"),
    )


def _read_estimate(estimate: Field) -> tuple[object, Estimate]:
    function, outcome = estimate.get("function").text(), estimate.get("outcome").one_of(Outcome)
    p99 = estimate.get("p99_ns")
    times = None if p99.value is None else _read_interval(p99)
    return (function, outcome), Estimate(function, outcome, _read_interval(estimate.get("count")), times)


def _read_interval(interval: Field) -> Interval:
    low, high = interval.get("low"), interval.get("high")
    bounds = (None if bound.value is None else bound.number() for bound in (low, high))
    return Interval(interval.get("value").number(), *bounds)
