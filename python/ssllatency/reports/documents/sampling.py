# SPDX-License-Identifier: Apache-2.0
"""The list "sampling" of a document: written, and read again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from ssllatency.model.histogram import OVERFLOW, UNDERFLOW
from ssllatency.model.sampling import Basis, Counts, Estimate, Function, Interval, Sampling, Stratum, Work
from ssllatency.model.snapshot import Outcome
from ssllatency.reports.documents.fields import DocumentField


def sampling_fields(sampling: Sequence[Sampling]) -> dict[str, object]:
    """The list as plain data."""
    return {"sampling": [_part(part) for part in sampling]}


def _part(part: Sampling) -> dict[str, object]:
    estimates = [{**asdict(estimate), "outcome": str(estimate.outcome)} for estimate in part.estimates]
    return {
        "functions": list(part.functions),
        "watched_s": part.watched_s,
        "duration_s": part.duration_s,
        "windows": part.windows,
        "unfinished": part.unfinished,
        "scaled_by": str(part.scaled_by),
        "dearer": part.dearer,
        "exact_share": part.exact_share,
        "estimates": estimates,
        "strata": [[_stratum(stratum) for stratum in chain] for chain in part.chains],
    }


def _stratum(stratum: Stratum) -> dict[str, object]:
    calls = [
        {"function": function, "outcome": str(outcome), "buckets": list(counts), "counts": list(counts.values())}
        for (function, outcome), counts in stratum.calls.items()
    ]
    work = {"whole": asdict(stratum.whole), "watched": asdict(stratum.watched)}
    return {"length_s": stratum.length_s, "watched_s": stratum.watched_s, **work, "calls": calls}


def read_sampling(root: DocumentField) -> tuple[Sampling, ...]:
    """The counts of the document's measurement that were seen in windows only."""
    sampling = root.optional("sampling")
    return tuple(_read_part(part) for part in sampling.items()) if sampling else ()


def _read_part(part: DocumentField) -> Sampling:
    return Sampling(
        functions=tuple(name.text() for name in part.get("functions").items()),
        watched_s=part.get("watched_s").number(),
        duration_s=part.get("duration_s").number(),
        windows=part.get("windows").whole(),
        unfinished=part.get("unfinished").whole(),
        estimates=part.get("estimates").rows(_read_estimate, "function and outcome"),
        scaled_by=scaled_by.one_of(Basis) if (scaled_by := part.optional("scaled_by")) else Basis.TIME,
        dearer=dearer.number() if (dearer := part.optional("dearer")) else 1.0,
        exact_share=share.number() if (share := part.optional("exact_share")) and share.value is not None else None,
        chains=tuple(_read_chain(chain) for chain in strata.items()) if (strata := part.optional("strata")) else (),
    )


def _read_chain(chain: DocumentField) -> tuple[Stratum, ...]:
    return tuple(_read_stratum(stratum) for stratum in chain.items())


def _read_stratum(stratum: DocumentField) -> Stratum:
    watched, length = stratum.get("watched_s"), stratum.get("length_s")
    if not 0 <= watched.number() <= length.number() or not length.number():
        watched.refuse("0 or more, and at most length_s, which is above 0")
    calls = dict(_read_calls(calls) for calls in stratum.get("calls").items())
    works = (_read_work(stratum.get(name)) for name in ("whole", "watched"))
    return Stratum(length.number(), watched.number(), calls, *works)


def _read_work(work: DocumentField) -> Work:
    values = work.record(Work).items()
    return Work(**{name: None if value.value is None else value.number() for name, value in values})


def _read_calls(calls: DocumentField) -> tuple[Function, Counts]:
    buckets = [_read_bucket(bucket) for bucket in calls.get("buckets").items()]
    counts = [count.number() for count in calls.get("counts").items()]
    if len(counts) != len(buckets):
        calls.get("counts").refuse("as long as buckets")
    key = calls.get("function").text(), calls.get("outcome").one_of(Outcome)
    return key, dict(zip(buckets, counts, strict=True))


def _read_bucket(bucket: DocumentField) -> int:
    number = bucket.value
    if type(number) is not int or not UNDERFLOW <= number <= OVERFLOW:
        bucket.refuse("the number of a bucket")
    return number


def _read_estimate(estimate: DocumentField) -> tuple[object, Estimate]:
    function, outcome = estimate.get("function").text(), estimate.get("outcome").one_of(Outcome)
    p99 = estimate.get("p99_ns")
    times = None if p99.value is None else _read_interval(p99)
    return (function, outcome), Estimate(function, outcome, _read_interval(estimate.get("count")), times)


def _read_interval(interval: DocumentField) -> Interval:
    low, high = interval.get("low"), interval.get("high")
    bounds = (None if bound.value is None else bound.number() for bound in (low, high))
    return Interval(interval.get("value").number(), *bounds)
