# SPDX-License-Identifier: Apache-2.0
"""Each process pays by itself, whether it is traced or not."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from ssllatency.engines.bpf.process_slots import SLOTS, slot_of
from ssllatency.engines.cost.payers import Payers, all_pids
from ssllatency.engines.cost.spent import Payment, Share, Spent, share_of

S = 10**9


@dataclass
class Machine:
    """Processes, and how long each has run."""

    ran_ns: dict[int, int] = field(default_factory=dict)
    now_s: float = 100.0
    listed: int = 0

    def pids(self) -> list[int]:
        self.listed += 1
        return list(self.ran_ns)

    def payers(self) -> Payers:
        payers = Payers(self.pids, self.ran_ns.get, lambda: self.now_s)
        payers.begin()
        return payers


def test_what_a_process_ran_before_does_not_count() -> None:
    machine = Machine({7: 50 * S})
    payers = machine.payers()
    machine.ran_ns[7] += S
    payers.see([7])
    machine.ran_ns[7] += S
    payers.see([7])
    assert payers.of(7) == 2 * S


def test_a_process_that_comes_counts_from_its_start() -> None:
    machine = Machine({7: 50 * S})
    payers = machine.payers()
    machine.ran_ns[8] = 3 * S
    payers.see([8])  # nobody of that slot is known, so it is looked at once who is there
    assert payers.of(8) == 3 * S
    assert payers.of(9) == 0


def test_processes_of_a_slot_count_together_and_those_that_end_stay_counted() -> None:
    other = next(pid for pid in range(SLOTS, 2 * SLOTS) if slot_of(pid) == 7)
    machine = Machine({7: 0, other: 0})
    payers = machine.payers()
    machine.ran_ns |= {7: S, other: 2 * S}
    payers.see([7])
    del machine.ran_ns[7]
    machine.now_s += 2
    payers.see([7])
    assert payers.of(7) == 3 * S


def test_a_pid_that_is_given_again_is_another_process() -> None:
    machine = Machine({7: 50 * S})
    payers = machine.payers()
    del machine.ran_ns[7]
    machine.now_s += 2
    payers.see([7])
    machine.ran_ns[7] = S
    machine.now_s += 2
    payers.see([7])
    assert payers.of(7) == S


def test_who_is_there_is_seldom_asked_while_all_are_known() -> None:
    machine = Machine({7: 0})
    payers = machine.payers()
    for _ in range(9):
        machine.now_s += 0.1
        payers.see([7])
    assert machine.listed == 1


def test_the_processes_of_this_machine() -> None:
    assert 1 in all_pids()


def test_whoever_pays_most_of_its_own_time_decides() -> None:
    before = Spent(0, 0, 10.0)
    now = Spent(2 * S // 100, S, 11.0, {5: Payment(2 * S // 100, S), 6: Payment(30 * S // 100, S)})
    assert Spent(now.cost_ns, now.cpu_ns, now.at_s).share_since(before) == Share(0.02, 0.02)
    assert now.share_since(before) == Share(0.3, 0.3)
    assert now.share_since(Spent(0, 0, 10.0, {6: Payment(29 * S // 100, 0)})) == Share(0.02, 0.02)


def test_what_a_process_pays_that_is_not_traced_may_count_more() -> None:
    before, traced, other = Spent(0, 0, 10.0), Payment(4 * S // 100, S), Payment(3 * S // 100, S, traced=False)
    now = Spent(4 * S // 100, S, 11.0, {5: traced, 6: other})
    assert now.share_since(before) == Share(0.04, 0.04)
    assert now.share_since(before, others_weight=2.0) == Share(0.06, 0.06, 2.0)


def test_what_is_paid_at_work_is_told_as_well() -> None:
    """A load has come 10 ms ago, and the last look was half a second ago."""
    now = Spent(0, 0, 10.5, {6: Payment(6 * S // 1000, S // 100)})
    share = now.share_since(Spent(0, 0, 10.0, {6: Payment(0, 0)}))
    assert share
    assert share.counted == pytest.approx(0.12)
    assert share.at_work == pytest.approx(0.6)


def test_whoever_does_next_to_nothing_counts_as_using_a_tenth_of_a_processor() -> None:
    assert share_of(S // 100, S // 50, 1.0) == pytest.approx(0.1)
    assert share_of(S // 100, S, 1.0) == pytest.approx(0.01)
    assert share_of(0, 0, 1.0) is None
    assert share_of(S // 100, 0, 1.0) == pytest.approx(0.1)  # it has ended since
