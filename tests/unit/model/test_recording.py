# SPDX-License-Identifier: Apache-2.0
"""What a recording of several intervals and runs adds up to."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from tests.recordings import calls_of, interval_of, recording_of, shakes_of

from ssllatency.errors import SsllatencyError
from ssllatency.model.handshakes import Handshakes, Offload
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
