# SPDX-License-Identifier: Apache-2.0
"""What is read back of handshakes beside their phases and waits, of exporters that have it and of older ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import pytest
from tests.measured.handshakes import Shake
from tests.measured.recordings import interval_of

from ssllatency.export.metrics.collect import PROCESSOR_PARTS, ByProcess
from ssllatency.export.metrics.facts import PLACES
from ssllatency.export.metrics.families import BY_NAME
from ssllatency.export.metrics.kept import KeptResults
from ssllatency.export.metrics.ledger import Row, Value
from ssllatency.export.metrics.points import Distribution
from ssllatency.model.arithmetic.handshake_sums import total
from ssllatency.model.handshakes import Ending, Fact, Group, Handshakes, Part
from ssllatency.model.histogram import UNDERFLOW, bucket_bounds
from ssllatency.prometheus.client import Prometheus, Range
from ssllatency.prometheus.history import Wanted, read
from ssllatency.reports.diagnosis.diagnosis import diagnose
from ssllatency.reports.rows.handshakes.facts import facts_sentence

INSTANCE, OVER = {"instance": "web1"}, Range(1000.0, 1060.0, 60.0)
OFFERED = Shake(
    {
        Part.PRIVATE_KEY: 600_000,
        Part.SESSION_LOOKUP: 5_000,
        Part.REST: 90_000,
        Part.WAIT_PEER: 200_000,
        Part.QUEUE_SERVER: 9_000,
    }
    | {Part.ON_CPU: 690_000, Part.OFF_CPU: 5_000},
    facts={Fact.SOCKET: 1, Fact.FLIGHTS: 2, Fact.FLIGHT_BYTES: 3_000, Fact.HELLO_RETRY_KNOWN: 1, Fact.OFFERED: 1},
)
REFUSED = Shake(OFFERED.times, facts={**OFFERED.facts, Fact.TICKETS_REFUSED: 1, Fact.HELLO_RETRIES: 1})
LEFT = Shake(
    {Part.PRIVATE_KEY: 600_000, Part.REST: 90_000, Part.GONE: 690_000, Part.QUEUE_SERVER: 9_000},
    ending=Ending.ABANDONED,
    facts={Fact.SOCKET: 1, Fact.GONE: 1, Fact.FLIGHT_BYTES: 100, Fact.FLIGHTS: 1},
)
ALL = [OFFERED] * 10 + [REFUSED] * 40 + [LEFT] * 60


class Server:
    """A Prometheus that has these counts of one service, all counted between its only two scrapes."""

    name = "Prometheus"

    def __init__(self, counts: Mapping[Row, Value]) -> None:
        self._counts = counts

    def query_range(self, query: str, over: Range) -> list[dict[str, Any]]:
        times = (over.start_s, over.end_s)
        if "ssllatency_build_info" in query:
            return [{"metric": INSTANCE, "values": [[at_s, str(at_s)] for at_s in times]}]
        if "ssllatency_targets" in query:
            return [{"metric": INSTANCE, "values": [[at_s, "1"] for at_s in times]}]
        return list(self._series(query.partition("{")[0], over.end_s))

    def _series(self, name: str, at_s: float) -> Iterator[dict[str, Any]]:
        for (family, labels), value in self._counts.items():
            if BY_NAME[family].prometheus_name == name:
                metric = INSTANCE | {label.replace(".", "_"): text for label, text in labels}
                if isinstance(value, Distribution):
                    yield {"metric": metric, "histograms": [[at_s, histogram(value)]]}
                else:
                    yield {"metric": metric, "values": [[at_s, repr(value)]]}


def histogram(value: Distribution) -> dict[str, Any]:
    """As the API has it."""
    buckets = []
    for bucket, count in value.buckets.by_bucket.items():
        low, high = (bound / 1e9 for bound in bucket_bounds(bucket))
        rule, low = (3, -high) if bucket == UNDERFLOW else (0, low)
        buckets.append([rule, repr(low), repr(high), str(count)])
    return {"count": str(value.buckets.count), "sum": repr(value.total_ns / 1e9), "buckets": buckets}


def counted(shakes: Iterable[Shake]) -> Mapping[Row, Value]:
    [counts] = ByProcess(KeptResults()).read(interval_of(0, list(shakes))).values()
    return counts


def history(counts: Mapping[Row, Value]) -> Handshakes:
    recording = read(cast(Prometheus, Server(counts)), Wanted("nginx.service"), OVER)
    handshakes = recording.total().handshakes
    assert handshakes
    return handshakes


def group(handshakes: Handshakes, ending: Ending = Ending.SUCCESS) -> Group:
    found = total(handshakes, ending)
    assert found
    return found


def test_facts_come_back_and_reports_say_the_same_of_them() -> None:
    local, found = interval_of(0, ALL).handshakes, history(counted(ALL))
    assert local
    for ending in (Ending.SUCCESS, Ending.ABANDONED):
        assert group(found, ending).facts == group(local, ending).facts
        times = {part: (of.count, of.total_ns) for part, of in group(local, ending).parts.items()}
        assert {part: (of.count, of.total_ns) for part, of in group(found, ending).parts.items()} == times
    assert group(found).facts[Fact.TICKETS_REFUSED] == 40
    assert group(found, Ending.ABANDONED).parts[Part.GONE].total_ns == 60 * 690_000
    assert facts_sentence(found) == facts_sentence(local)
    assert diagnose(found) == diagnose(local)
    assert [sentence for sentence in diagnose(found) if "Resumption fails" in sentence]
    assert "needed a HelloRetryRequest" in facts_sentence(found)


def test_work_for_peers_that_had_left_is_told() -> None:
    local, found = interval_of(0, [LEFT] * 60).handshakes, history(counted([LEFT] * 60))
    assert local
    (of_local,), (of_found,) = ([text for text in diagnose(of) if "came to nothing" in text] for of in (local, found))
    assert of_found == of_local
    assert "in 60 a call began after the peer had left" in of_found


@pytest.mark.parametrize("has_unphased", [True, False])
def test_older_exporters_have_none_of_it(has_unphased: bool) -> None:
    unphased = {"ssllatency.handshake.unphased"} if has_unphased else set()
    newer = {place.family for place in PLACES.values()} - unphased | {"ssllatency.handshake.processor"}
    counts = {row: value for row, value in counted(ALL).items() if row[0] not in newer and ("part", "left") not in row[1]}
    found = history(counts)
    assert (group(found).count, group(found).facts, found.off_cpu) == (50, {}, False)
    assert not {*PROCESSOR_PARTS, Part.GONE} & group(found).parts.keys()
    assert facts_sentence(found) == ""
    assert not [sentence for sentence in diagnose(found) if "Resumption fails" in sentence]
