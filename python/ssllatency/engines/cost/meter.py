# SPDX-License-Identifier: Apache-2.0
"""The cost of a run's probes, and who pays it: the programs count hits by process, the kernel measures the programs' run time
in samples, and what a hit takes was measured on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache, partial
from threading import Thread

from ssllatency.engines.bpf.loadable import Loadable
from ssllatency.engines.bpf.process_slots import slot_of
from ssllatency.engines.cost.hits import Counts, Hits, HitTable, added, cost_ns, costs_amid
from ssllatency.engines.cost.payers import Payers
from ssllatency.engines.cost.run_time import RunTime
from ssllatency.engines.cost.spent import Paid, Payment, Spent
from ssllatency.engines.read.cpu_time import ProcessTimes
from ssllatency.model.cost import CoreCost, ProcessCost, TracingCost
from ssllatency.model.keyed import KeyedCache
from ssllatency.probes.costs import REFERENCE, HitCosts

_REST = 500  # times as long as a look takes nothing is looked at: of many processes it takes milliseconds
_LOOK_S = 1.0  # how often the processes' time is read, so that little of those that end is missed


class CostMeter:
    """The cost of the objects that `add` names. `begin` when their probes are attached, `tick` many times a second.

    `hit_costs` tells what a hit takes on this machine, None where that isn't known; it is asked once: by a thread as soon as
    the probes are attached, or if `when_needed` only then, while this thread waits and so disturbs no measurement. `pids` tells
    the traced processes so far, None for all that hit a probe.
    """

    def __init__(
        self,
        hit_costs: Callable[[], HitCosts | None],
        pids: Callable[[], Collection[int] | None],
        *,
        when_needed: bool = False,
    ) -> None:
        self._ask, self._pids, self._when_needed = hit_costs, pids, when_needed
        self._costs: Callable[[], HitCosts | None] = lambda: None
        self._tables: list[HitTable] = []
        self._hits: KeyedCache[str, Counts, Hits] = KeyedCache(Hits.of)
        self._paid = Paid()
        self._spent_hits = Hits()  # those that `_paid` has heard of
        self._paid_by_slot: dict[int, Paid] = {}
        self._payments: dict[int, Payment] = {}
        self._run_time = RunTime()
        self._times = ProcessTimes()
        self._payers = Payers(clock_of=self._times.clock_ns)  # of those that are traced, as they were read for the total
        self._began_s = 0.0
        self._look_s = 0.0

    def add(self, loaded: Loadable, programs: Sequence[str], elsewhere: Sequence[str] = ()) -> None:
        """Takes in a loaded object, with the names of its programs at probes and elsewhere."""
        self._tables.append(HitTable(loaded))
        self._run_time.add(*([loaded.program_fd(name) for name in names] for names in (programs, elsewhere)))

    def add_programs(self, loaded: Loadable, programs: Sequence[str], elsewhere: Sequence[str] = ()) -> None:
        """Takes in further programs of an object that was taken in: at probes, and those that run elsewhere."""
        self._run_time.add(*([loaded.program_fd(name) for name in names] for names in (programs, elsewhere)))

    def leave_out(self, loaded: Loadable, programs: Sequence[str]) -> None:
        """To be called before an object is freed that was taken in; what it has cost until then stays counted."""
        self._run_time.leave_out([loaded.program_fd(name) for name in programs])

    def begin(self, pids: Iterable[int]) -> None:
        """The probes are attached to these processes, and perhaps to others later."""
        if not self._began_s:
            self._began_s = time.monotonic()
            self._times.begin(pids)
            self._payers.begin()
            self._run_time.tick()
            self._costs = cache(self._ask) if self._when_needed else _asked_aside(self._ask)

    def tick(self, pids: Iterable[int]) -> None:
        """Measures what has to be measured meanwhile; `pids`: the processes known so far."""
        self._run_time.tick()
        if (now := time.monotonic()) >= self._look_s:
            self._times.see(pids)
            self._look_s = now + max(_LOOK_S, _REST * (time.monotonic() - now))

    def hit_costs(self) -> HitCosts | None:
        """The time of a hit on this machine, once that was measured; None where it isn't known."""
        return self._costs()

    def read(self, pids: Iterable[int]) -> TracingCost | None:
        """All that was paid so far; None where it isn't known what a hit takes. `pids` as for `tick`."""
        costs = self.hit_costs()
        if costs is None or not self._tables:
            return None
        self._times.see(pids)
        return self._cost(self._read_hits(), costs, set(pids))

    def spent(self, pids: Iterable[int], *, each: bool = False) -> Spent | None:
        """The time of the traced processes' hits so far, each at its price of then, and what they have run. It is asked for
        many times a second. `each`: with what each process has paid that hits probes, traced or not. Where it isn't known what
        a hit takes on this machine, it is what one took on another. None before anything was attached."""
        if not self._tables:
            return None
        costs = self.hit_costs() or REFERENCE
        self._times.see(pids)
        hits = self._read_hits()
        mean_ns = self._run_time.settled_mean_ns or 0.0  # what one interrupted run made of it would be taken for a load
        if hits is not self._spent_hits:
            self._spent_hits = hits
            own = hits.of_slots(self._slots(hits, pids))
            amid = costs_amid(own, costs, self._times.total_ns)
            self._paid.count(own, partial(_price_ns, costs=amid, mean_ns=mean_ns))
        payments = self._pay(hits, self._slots(hits, pids), costs, mean_ns) if each else {}
        return Spent(self._paid.total_ns, self._times.total_ns, time.monotonic(), payments)

    def _pay(self, hits: Hits, traced: Collection[int], costs: HitCosts, mean_ns: float) -> dict[int, Payment]:
        self._payers.see(hits.by_slot)
        payments = {}
        for slot, counts in hits.by_slot.items():
            paid, cpu_ns = self._paid_by_slot.setdefault(slot, Paid()), self._payers.of(slot)
            paid.count(counts, partial(_price_ns, costs=costs_amid(counts, costs, cpu_ns), mean_ns=mean_ns))
            payments[slot] = Payment(paid.total_ns, cpu_ns, slot in traced)
        self._payments = payments
        return payments

    def spent_unhit(self) -> Spent | None:
        """The time of the hits where no probe was hit since `spent` was asked: then the processes' time is that of the last
        look at them, which costs nothing. None where one was hit, or `spent` wasn't asked."""
        if not self._tables or self._read_hits() is not self._spent_hits:
            return None
        return Spent(self._paid.total_ns, self._times.total_ns, time.monotonic(), self._payments)

    def _read_hits(self) -> Hits:
        return self._hits.of({"all": [table.read() for table in self._tables]})["all"]

    def _slots(self, hits: Hits, seen: Iterable[int]) -> set[int]:
        """The slots that count the traced processes' hits."""
        traced = self._pids()
        return set(hits.by_slot) if traced is None else {slot_of(pid) for pid in (*traced, *seen)}

    def _cost(self, hits: Hits, costs: HitCosts, seen: set[int]) -> TracingCost:
        slots = self._slots(hits, seen)
        others = added(counts for slot, counts in hits.by_slot.items() if slot not in slots)
        own = hits.of_slots(slots)
        costs = costs_amid(own, costs, self._times.total_ns)
        mean_ns = self._run_time.mean_ns  # asked once, as each time the kernel's statistics of all programs may be read

        by_slot: dict[int, list[int]] = {}
        for pid in sorted(seen):
            by_slot.setdefault(slot_of(pid), []).append(pid)
        alone = ((pids[0], hits.by_slot[slot]) for slot, pids in by_slot.items() if len(pids) == 1 and slot in hits.by_slot)
        return TracingCost(
            hits=sum(own),
            kernel_ns=cost_ns(own, costs),
            run_ns=_run_ns(own, mean_ns),
            cpu_ns=self._times.total_ns,
            other_hits=sum(others),
            other_ns=_whole_ns(others, costs, mean_ns),
            elsewhere_ns=self.elsewhere_ns(),
            processes=tuple(
                ProcessCost(pid, sum(counts), cost_ns(counts, costs), _run_ns(counts, mean_ns), self._times.of(pid))
                for pid, counts in alone
            ),
            cores=tuple(CoreCost(core, _whole_ns(counts, costs, mean_ns)) for core, counts in sorted(hits.by_core.items())),
        )

    def elsewhere_ns(self) -> int:
        """The time so far of programs that don't run at probes."""
        return round(self._run_time.elsewhere * (time.monotonic() - self._began_s) * 1e9) if self._began_s else 0

    def close(self) -> None:
        """Ends the measuring; may be called twice."""
        self._run_time.close()


def _run_ns(counts: Sequence[int], mean_ns: float | None) -> int | None:
    """The time of the programs at so many hits, by what a run takes; None where that isn't known."""
    number = sum(counts)
    return None if mean_ns is None and number else round(number * (mean_ns or 0.0))


def _whole_ns(counts: Sequence[int], costs: HitCosts, mean_ns: float | None) -> int:
    """The time of so many hits, with the programs."""
    return cost_ns(counts, costs) + (_run_ns(counts, mean_ns) or 0)


def _asked_aside(ask: Callable[[], HitCosts | None]) -> Callable[[], HitCosts | None]:
    """Have a thread ask, and return what waits for the answer. It takes a while, once a boot, in which later processes mustn't
    wait for being looked at."""
    answers: list[HitCosts | None] = []
    thread = Thread(target=lambda: answers.append(ask()), daemon=True)
    thread.start()

    def answer() -> HitCosts | None:
        thread.join()
        return next(iter(answers), None)

    return answer


def _price_ns(counts: Sequence[int], costs: HitCosts, mean_ns: float) -> int:
    """The time of so many hits, with the programs, a run of which takes `mean_ns`."""
    return cost_ns(counts, costs) + round(sum(counts) * mean_ns)
