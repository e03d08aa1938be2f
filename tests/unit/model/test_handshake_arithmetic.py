# SPDX-License-Identifier: Apache-2.0
"""Sums and differences of handshakes: what they give is what the handshakes themselves make."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_strategies import durations_ns, snapshots
from tests.measured.handshakes import Shake, handshakes_of, times_of

from ssllatency.accept_queue import AcceptQueue
from ssllatency.errors import SsllatencyError
from ssllatency.model.arithmetic import snapshots as arithmetic
from ssllatency.model.arithmetic.handshake_sums import add_groups, difference, merge, total, without
from ssllatency.model.handshakes import (
    PHASES,
    WAITS,
    Ending,
    Fact,
    Group,
    Handshakes,
    Label,
    Part,
    Single,
    whole_part,
)
from ssllatency.model.offload import Batches, Offload, PollingThread
from ssllatency.model.snapshot import Snapshot

BY = (Label.VERSION, Label.RESUMED)

_times = st.dictionaries(st.sampled_from([*PHASES, *WAITS]), durations_ns, max_size=4)
_labels = st.fixed_dictionaries(
    {
        Label.VERSION: st.sampled_from(["TLSv1.2", "TLSv1.3", None]),
        Label.RESUMED: st.sampled_from(["yes", "no"]),
        Label.PROCESS: st.sampled_from(["nginx(17)", "nginx(18)"]),
    }
)
_shakes = st.lists(
    st.builds(
        Shake,
        _times,
        _labels,
        st.sampled_from(Ending),
        st.sampled_from([None, ("sign", "RSA-2048"), ("decrypt", "")]),
        st.sampled_from(["", "no shared cipher"]),
        st.sampled_from([0, 0x0A0000C1]),
        st.sampled_from(["", "handshake failure"]),
        st.booleans(),
        st.just("s"),
        st.dictionaries(st.sampled_from(Fact), st.integers(1, 9), max_size=3),
    ),
    max_size=8,
)
_queues = st.none() | st.dictionaries(
    st.tuples(st.sampled_from([443, 8443]), st.sampled_from(["0.0.0.0", "::"])),
    st.tuples(st.sampled_from([128, 511]), st.integers(0, 9)),
).map(lambda queues: tuple(AcceptQueue(*place, *rest) for place, rest in sorted(queues.items())))
_batches = st.builds(Batches, st.sampled_from(["mbx_a", "mbx_b"]), st.tuples(*[st.integers(0, 9)] * 9))
_offloads = st.none() | st.builds(
    Offload,
    st.sampled_from(["qatengine", "ASYNC jobs"]),
    *[st.integers(0, 99)] * 6,
    st.lists(_batches, max_size=2, unique_by=lambda one: one.function).map(tuple),
    st.lists(
        st.builds(PollingThread, st.just(17), st.sampled_from([17, 18]), st.just("poll"), st.integers(0, 9), st.just(0.25)),
        max_size=2,
        unique_by=lambda one: one.tid,
    ).map(tuple),
)


@st.composite
def handshakes(draw: st.DrawFn) -> Handshakes:
    by = draw(st.sampled_from([(), BY, (Label.VERSION,), (*BY, Label.PROCESS)]))
    made = handshakes_of(draw(_shakes), by)
    folded = draw(st.booleans()) and bool(by) and bool(made.groups)
    return replace(
        made,
        groups=(replace(made.groups[0], other=True), *made.groups[1:]) if folded else made.groups,
        in_flight=draw(st.integers(0, 9)),
        dropped=draw(st.integers(0, 9)),
        offload=draw(_offloads),
        accept_queues=draw(_queues),
    )


def table(handshakes: Handshakes) -> dict[Hashable, Group]:
    return {(frozenset(one.labels.items()), one.ending, one.other): one for one in handshakes.groups}


def measured(handshakes: Handshakes | None, host: str = "web1") -> Snapshot:
    return Snapshot(host, "6.1.0", "libbpf", "2030-01-31T12:00:00Z", 10.0, (), (), handshakes=handshakes)


@given(_shakes, _shakes)
def test_merge_is_the_measurement_of_all(first: list[Shake], second: list[Shake]) -> None:
    merged, all_at_once = merge(handshakes_of(first, BY), handshakes_of(second, BY)), handshakes_of([*first, *second], BY)
    assert table(merged) == table(all_at_once)
    assert set(merged.causes) == set(all_at_once.causes)
    assert set(merged.keys) == set(all_at_once.keys)
    assert merged.mix == all_at_once.mix


@given(_shakes)
def test_parts_add_up_however_they_are_added(shakes: list[Shake]) -> None:
    made = handshakes_of(shakes, BY)
    for ending in Ending:
        one = total(made, ending)
        same = [shake for shake in shakes if shake.ending is ending]
        assert (one is None) == (not same)
        if one:
            assert one.count == len(same)
            assert {part: times for part, times in one.parts.items() if times.count} == dict(
                handshakes_of(same).groups[0].parts
            )


@given(handshakes(), handshakes(), handshakes())
def test_merge_is_associative(first: Handshakes, second: Handshakes, third: Handshakes) -> None:
    one, other = merge(merge(first, second), third), merge(first, merge(second, third))
    at_once = merge(first, second, third)
    assert table(one) == table(other) == table(at_once)
    assert replace(one, groups=()) == replace(other, groups=()) == replace(at_once, groups=())


@given(_shakes, _shakes)
def test_difference_undoes_merge(first: list[Shake], second: list[Shake]) -> None:
    before, after = handshakes_of(first, BY), handshakes_of(second, BY)
    interval = difference(merge(before, after), before)

    def without_extremes(handshakes: Handshakes) -> dict[Hashable, object]:
        return {
            (key, part): replace(times, min_ns=None, max_ns=None)
            for key, group in table(handshakes).items()
            for part, times in group.parts.items()
        }

    assert without_extremes(interval) == without_extremes(after)
    assert set(interval.causes) == set(after.causes)
    assert set(interval.keys) == set(after.keys)
    assert interval.mix == after.mix


@given(_offloads, _offloads)
def test_difference_undoes_merge_of_offloads(first: Offload | None, second: Offload | None) -> None:
    if first is None or second is None:
        return
    before = replace(handshakes_of([]), offload=first)
    interval = difference(merge(before, replace(before, offload=second)), before).offload
    assert interval is not None
    sums = ("pauses", "handshakes", "software", "unseen")
    assert [getattr(interval, name) for name in sums] == [getattr(second, name) for name in sums]
    assert {one for one in interval.batches if one.count} == {one for one in second.batches if one.count}
    assert {one for one in interval.pollers if one.completions} == {one for one in second.pollers if one.completions}


def test_accept_queues_of_several_servers_are_added_up_where_they_are_known() -> None:
    def having(*queues: AcceptQueue) -> Handshakes:
        return replace(handshakes_of([]), accept_queues=queues)

    web, admin = AcceptQueue(443, "0.0.0.0", 511, 7), AcceptQueue(8443, "::", 128, 0)
    both = merge(having(web, admin), handshakes_of([]), having(replace(web, limit=4096, overflows=2)))
    assert both.accept_queues == (AcceptQueue(443, "0.0.0.0", 4096, 9), admin)
    assert both.overflows == 9
    since = difference(having(replace(web, overflows=10), admin), having(web))
    assert since.accept_queues == (replace(web, overflows=3), admin)
    elsewhere = replace(web, network=17)
    assert merge(having(web), having(elsewhere, admin)).accept_queues == (web, elsewhere, admin)
    assert merge(having(replace(web, limit=None)), having(web)).accept_queues == (replace(web, overflows=14),)
    untold = replace(having(web), overflows_untold=5)
    assert (merge(untold, untold).overflows_untold, difference(merge(untold, untold), untold).overflows_untold) == (10, 5)
    assert merge(handshakes_of([]), handshakes_of([])).accept_queues is None
    assert difference(handshakes_of([]), having(web)).accept_queues is None


def test_most_waiting_is_known_for_an_interval_only_where_it_rose() -> None:
    def at(most: int | None) -> Handshakes:
        return replace(handshakes_of([]), offload=Offload("qatengine", 0, most, 0, 0, 0, 0))

    def of(later: Handshakes, earlier: Handshakes) -> int | None:
        offload = difference(later, earlier).offload
        assert offload is not None
        return offload.most_waiting

    assert of(at(9), at(7)) == 9
    assert of(at(7), at(7)) is None
    assert of(at(7), at(None)) is None
    merged = merge(at(7), at(None)).offload
    assert merged is not None
    assert merged.most_waiting is None


def test_a_process_is_the_same_though_its_name_became_known_later() -> None:
    def named(name: str, shakes: int) -> Handshakes:
        return handshakes_of([Shake({Part.REST: 9}, {Label.PROCESS: name})] * shakes, (Label.PROCESS,))

    (since,) = difference(named("nginx(77)", 5), named("?(77)", 2)).groups
    (both,) = merge(named("?(77)", 2), named("nginx(77)", 5)).groups
    assert (since.text(Label.PROCESS), since.count) == ("nginx(77)", 3)
    assert (both.text(Label.PROCESS), both.count) == ("nginx(77)", 7)
    assert len(merge(named("nginx(77)", 2), named("nginx(78)", 5)).groups) == 2


def test_merge_keeps_only_the_labels_that_both_are_grouped_by() -> None:
    shakes = [Shake({Part.REST: 9}, {Label.VERSION: version, Label.RESUMED: "no"}) for version in ("TLSv1.2", "TLSv1.3")]
    merged = merge(handshakes_of(shakes, BY), handshakes_of(shakes, (Label.RESUMED, Label.CIPHER)))
    assert merged.by == (Label.RESUMED,)
    assert [(group.labels, group.count) for group in merged.groups] == [({Label.RESUMED: "no"}, 4)]
    assert merged.mix[Label.VERSION] == {"TLSv1.2": 2, "TLSv1.3": 2}


def test_others_are_told_apart_no_longer_where_nothing_is() -> None:
    made = handshakes_of([Shake({Part.REST: 1}, {Label.VERSION: name}) for name in ("a", "b")], (Label.VERSION,))
    folded = replace(made, groups=(made.groups[0], replace(made.groups[1], labels={}, other=True)))
    (both,) = without(folded, Label.VERSION).groups
    assert (both.labels, both.other, both.count) == ({}, False, 2)
    assert without(folded, Label.VERSION).mix == {}


def test_slowest_are_all_kept_the_longest_first_and_an_interval_has_its_own() -> None:
    def lasting(wall: int) -> Single:
        return Single(1.0, 17, 17, "nginx", Ending.SUCCESS, {Part.WALL: wall}, {}, 1, 0)

    first, second = (replace(handshakes_of([]), slowest=tuple(map(lasting, walls))) for walls in ((90, 20), (70,)))
    assert [one.parts[Part.WALL] for one in merge(first, second).slowest] == [90, 70, 20]
    assert difference(merge(first, second), first).slowest == (lasting(70),)


def test_a_queue_before_the_first_call_makes_a_handshake_slow() -> None:
    queued, long = (
        Single(1.0, 17, 17, "nginx", Ending.SUCCESS, parts, {}, 1, 0)
        for parts in ({Part.WALL: 20, Part.QUEUE_START: 80}, {Part.WALL: 90})
    )
    assert merge(*(replace(handshakes_of([]), slowest=(single,)) for single in (long, queued))).slowest == (queued, long)


@pytest.mark.parametrize(
    "later",
    [
        handshakes_of([]),
        handshakes_of([Shake({Part.REST: 5})]),
        handshakes_of([Shake({Part.REST: 7, Part.WAIT_PEER: 1}), Shake({Part.REST: 7}, ending=Ending.FAILURE)]),
        replace(handshakes_of([Shake({Part.REST: 5, Part.WAIT_PEER: 1})] * 2), mix={Label.VERSION: {"TLSv1.3": 1}}),
    ],
)
def test_difference_of_unrelated_handshakes_is_refused(later: Handshakes) -> None:
    earlier = handshakes_of([Shake({Part.REST: 5, Part.WAIT_PEER: 1}, {Label.VERSION: "TLSv1.3"})] * 2)
    with pytest.raises(SsllatencyError, match="fewer handshakes than the earlier one"):
        difference(later, earlier)


@given(snapshots(), handshakes(), handshakes())
def test_snapshots_merge_and_subtract_their_handshakes(snapshot: Snapshot, first: Handshakes, second: Handshakes) -> None:
    one, other = replace(snapshot, handshakes=first), replace(snapshot, handshakes=second)
    both = arithmetic.merge(one, other)
    assert both.handshakes == merge(first, second)
    if first.by == second.by and first.offload is None and second.offload is None:
        assert both.handshakes is not None
        assert arithmetic.difference(both, one).handshakes == difference(
            both.handshakes, merge(first, handshakes_of([], first.by))
        )


def test_processes_of_different_hosts_are_added_up() -> None:
    made = handshakes_of([Shake({Part.REST: 5}, {Label.PROCESS: "nginx(17)"})], (Label.PROCESS,))
    same = arithmetic.merge(measured(made), measured(made)).handshakes
    apart = arithmetic.merge(measured(made), measured(made, "web2")).handshakes
    assert same is not None
    assert apart is not None
    assert [(one.texts, one.count) for one in same.groups] == [({Label.PROCESS: "nginx(17)"}, 2)]
    assert [(dict(one.labels), one.count) for one in apart.groups] == [({}, 2)]
    assert Label.PROCESS in same.mix
    assert Label.PROCESS not in apart.mix


def test_measurements_of_different_kinds_are_refused() -> None:
    with_them, without_them = measured(handshakes_of([])), measured(None)
    with pytest.raises(SsllatencyError, match="in some only: merge measurements of one kind"):
        arithmetic.merge(with_them, without_them)
    with pytest.raises(SsllatencyError, match="in some only: take the difference"):
        arithmetic.difference(without_them, with_them)


def test_extremes_of_a_part_are_known_where_they_are_sure() -> None:
    early, late = (handshakes_of([Shake({Part.REST: time})]) for time in (1_000, 900_000))
    interval = difference(merge(early, late), early)
    assert interval.groups[0].parts[Part.REST] == replace(times_of([900_000]), min_ns=None)


def test_what_handshakes_took_in_all_is_what_clients_waited_where_that_is_known_of_each() -> None:
    prompt, late = (Shake({Part.REST: 5, Part.QUEUE_START: early}) for early in (0, 280))
    queued, unknown = (handshakes_of([one]).groups[0] for one in (late, prompt))
    assert (queued.whole.total_ns, unknown.whole.total_ns) == (285, 5)
    assert add_groups([queued, unknown]).whole.total_ns == 290
    old = replace(queued, parts={part: times for part, times in queued.parts.items() if part is not Part.CLIENT_WAIT})
    assert (old.whole.total_ns, add_groups([old, queued]).whole.total_ns) == (5, 10)
    assert (whole_part([queued]), whole_part([queued, old]), whole_part([])) == (Part.CLIENT_WAIT, Part.WALL, Part.WALL)


def test_inspections_add_up() -> None:
    """They are of no process, and of no group."""
    some = replace(handshakes_of([]), inspections=3)
    both = merge(some, some)
    assert (both.inspections, difference(both, some).inspections, difference(some, both).inspections) == (6, 3, 0)
