# SPDX-License-Identifier: Apache-2.0
"""What a recording of several intervals and runs adds up to."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from tests.measured.recordings import calls_of, interval_of, recording_of, shakes_of

from ssllatency.errors import SsllatencyError
from ssllatency.model.arithmetic.offloads import difference
from ssllatency.model.handshakes import (
    Handshakes,
)
from ssllatency.model.offload import Offload
from ssllatency.model.recording import Recording, Run
from ssllatency.model.snapshot import Losses, Snapshot


def handshakes(snapshot: Snapshot) -> Handshakes:
    assert snapshot.handshakes
    return snapshot.handshakes


def test_the_total_is_that_of_all_handshakes_and_calls() -> None:
    random = Random(1)
    parts = [shakes_of(random, number) for number in (3, 0, 5)]
    times = [[random.randint(50, 10**6) for _ in range(4)] for _ in parts]
    pairs = enumerate(zip(parts, times, strict=True))
    total = Recording.of([interval_of(number, shakes, [calls_of("F", values)]) for number, (shakes, values) in pairs]).total()
    shakes, values = [one for part in parts for one in part], [one for each in times for one in each]
    whole = interval_of(0, shakes, [calls_of("F", values)], duration_s=3.0)
    assert total == whole


def test_what_is_no_count_is_that_of_the_last_interval() -> None:
    offload = Offload("qatengine", waiting=3, most_waiting=5, pauses=10, handshakes=9, software=0, unseen=0)
    made = []
    for number, running in enumerate((4, 2)):
        base = interval_of(number, [])
        shakes = replace(handshakes(base), in_flight=running, offload=replace(offload, waiting=running))
        notes = ("From the start.", *(["Later."] if number else []))
        losses = Losses(map_full=1)
        made.append(replace(base, in_flight=running + 1, notes=notes, losses=losses, handshakes=shakes))
    total = Recording((Run(tuple(made), notes=("Cut short.",)),)).total()
    assert (total.in_flight, handshakes(total).in_flight) == (3, 2)
    assert total.notes == ("From the start.", "Later.", "Cut short.")
    assert total.losses.map_full == 2
    found = handshakes(total).offload
    assert found
    assert (found.waiting, found.most_waiting, found.pauses) == (2, 5, 20)


@pytest.mark.parametrize(
    ("cumulative", "most"), [((2, 5, 5, 7, 7), 7), ((3, 3, 3), 3), ((0, 0, 4), 4), ((0, 0), None), ((6,), 6)]
)
def test_the_most_that_waited_in_a_run_is_that_of_the_interval_in_which_it_rose(
    cumulative: tuple[int, ...], most: int | None
) -> None:
    """Of an interval it is known only where it rose, as the trace keeps the most since its start."""
    offload = Offload("qatengine", waiting=0, most_waiting=0, pauses=0, handshakes=0, software=0, unseen=0)
    made, before = [], offload
    for number, waited in enumerate(cumulative):
        now = replace(before, most_waiting=waited, pauses=before.pauses + 1)
        base = interval_of(number, [])
        made.append(replace(base, handshakes=replace(handshakes(base), offload=difference(now, before))))
        before = now
    recording = Recording.of(made)
    found = handshakes(recording.total()).offload
    assert found
    assert (found.most_waiting, found.pauses) == (most, len(cumulative))


def test_the_most_that_waited_in_several_runs_is_known_where_it_is_of_each() -> None:
    offload = Offload("qatengine", waiting=0, most_waiting=4, pauses=1, handshakes=1, software=0, unseen=0)

    def run(most: int | None) -> Run:
        base = interval_of(0, [])
        return Run((replace(base, handshakes=replace(handshakes(base), offload=replace(offload, most_waiting=most))),))

    for runs, most in (((run(4), run(6)), 6), ((run(4), run(None)), None)):
        found = handshakes(Recording(runs).total()).offload
        assert found
        assert found.most_waiting == most


def test_runs_of_several_hosts_add_up_and_their_intervals_are_in_order() -> None:
    one, other = recording_of(1, 3), recording_of(2, 3, host="web2")
    both = Recording((*one.runs, *other.runs))
    assert both.hosts == ("web1", "web2")
    assert [interval.host for interval in both.intervals] == ["web1", "web2"] * 3
    assert both.duration_s == 6.0
    count = [sum(group.count for group in handshakes(each.total()).groups) for each in (one, other, both)]
    assert count[0] + count[1] == count[2]


def test_nothing_is_no_recording() -> None:
    with pytest.raises(ValueError, match="at least one interval"):
        Run(())
    with pytest.raises(ValueError, match="at least one run"):
        Recording(())


def test_handshakes_and_functions_alone_are_no_one_measurement() -> None:
    interval = interval_of(0, [])
    with pytest.raises(SsllatencyError, match="some only"):
        Recording.of([interval, replace(interval, handshakes=None)]).total()
