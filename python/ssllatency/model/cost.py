# SPDX-License-Identifier: Apache-2.0
"""The cost of a measurement to the processes that were measured, and others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace

from ssllatency.data_class import dataclass


@dataclass(frozen=True)
class ProcessCost:
    """The cost to one traced process. `hits`: of probes. `kernel_ns`: what the kernel took to get to the BPF programs and
    back. `run_ns`: what these took, None where it isn't known. `cpu_ns`: the process's processor time meanwhile, None likewise.
    """

    pid: int
    hits: int
    kernel_ns: int
    run_ns: int | None
    cpu_ns: int | None


@dataclass(frozen=True)
class CoreCost:
    """The cost of probes on one processor, in nanoseconds: of all processes, the programs' own run time included where it
    is known."""

    core: int
    cost_ns: int


@dataclass(frozen=True)
class PayingProcess:
    """A process that isn't traced and maps a traced file, so that it pays for probes that are shared."""

    pid: int
    comm: str


@dataclass(frozen=True)
class TracingCost:
    """The cost of tracing. Times are nanoseconds of processor time, which the processes pay that hit the probes.

    `hits`, `kernel_ns`, `run_ns` and `cpu_ns` are those of the traced processes together, each as in ProcessCost; hits are
    counted, what a hit takes is measured on this machine, and the programs' run time is that of samples. Children that have
    ended are in `cpu_ns` once their parent has waited for them. `processes` has those whose hits can be told apart.
    `other_hits`, `other_ns`: what processes have paid that aren't traced and use a traced file. `elsewhere_ns`: the run time of
    programs that aren't at probes, as where threads are switched, on the whole machine. `seen_ns`: what tracing took by the
    traced processes' CPU time for each read and write system call meanwhile, and before and after, with what hits push out of
    caches; None where it isn't known. `attach_ns`: the tracer's own processor time for setting the probes at first, and for
    removing them at last once that is done; None likewise. `others`: those that aren't traced and share probes, as they were
    found, at most `MOST_OTHERS` of them.
    """

    hits: int
    kernel_ns: int
    run_ns: int | None
    cpu_ns: int | None
    other_hits: int = 0
    other_ns: int = 0
    elsewhere_ns: int = 0
    processes: tuple[ProcessCost, ...] = ()
    cores: tuple[CoreCost, ...] = ()
    seen_ns: int | None = None
    attach_ns: int | None = None
    others: tuple[PayingProcess, ...] = ()

    @property
    def total_ns(self) -> int:
        """The cost to the traced processes, as far as it is known."""
        return self.kernel_ns + (self.run_ns or 0)

    @property
    def share(self) -> float | None:
        """The cost as a part of their processor time; None where that isn't known, or is 0."""
        return self.total_ns / self.cpu_ns if self.cpu_ns else None


@dataclass(frozen=True)
class Moment:
    """The work of processes by a time, on the monotonic clock: their read and write system calls and their nanoseconds of
    processor time, by PID."""

    at_s: float
    done: Mapping[int, tuple[int, int]]


MOST_OTHERS = 1_000
_KNOWN = ("hits", "kernel_ns", "other_hits", "other_ns", "elsewhere_ns")
_PERHAPS = ("run_ns", "cpu_ns", "seen_ns", "attach_ns")
_OF_PROCESS = tuple(field.name for field in fields(ProcessCost) if field.name != "pid")


def difference(later: TracingCost | None, earlier: TracingCost | None) -> TracingCost | None:
    """The cost in between; None where either isn't known. A sampled figure that has fallen is 0.

    Where the programs' run time wasn't known yet at first, what is known of it later holds for each of their hits.
    """
    if later is None or earlier is None:
        return later if earlier is None else None
    before = {process.pid: process for process in earlier.processes}
    cores = {core.core: core.cost_ns for core in earlier.cores}
    return replace(
        later,
        **_since(later, earlier, (*_KNOWN, *_PERHAPS)),  # type: ignore[arg-type]
        processes=tuple(
            replace(process, **_since(process, before[process.pid], _OF_PROCESS))  # type: ignore[arg-type]
            if process.pid in before
            else process
            for process in later.processes
        ),
        cores=tuple(replace(core, cost_ns=max(0, core.cost_ns - cores.get(core.core, 0))) for core in later.cores),
    )


def merge(costs: Sequence[TracingCost | None], *, one_host: bool) -> TracingCost | None:
    """The cost in all; None where that of any isn't known. Processes and processors mean something on one host only."""
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(costs) or not known:
        return None
    sums = {name: _sum(getattr(cost, name) for cost in known) for name in (*_KNOWN, *_PERHAPS)}
    if not one_host:
        return TracingCost(**sums)  # type: ignore[arg-type]
    by_pid: dict[int, list[ProcessCost]] = {}
    by_core: dict[int, int] = {}
    for cost in known:
        for process in cost.processes:
            by_pid.setdefault(process.pid, []).append(process)
        for core in cost.cores:
            by_core[core.core] = by_core.get(core.core, 0) + core.cost_ns
    processes = (
        ProcessCost(pid, **{name: _sum(getattr(part, name) for part in parts) for name in _OF_PROCESS})  # type: ignore[arg-type]
        for pid, parts in sorted(by_pid.items())
    )
    cores = (CoreCost(core, cost_ns) for core, cost_ns in sorted(by_core.items()))
    others = tuple(dict.fromkeys(other for cost in known for other in cost.others))
    return TracingCost(**sums, processes=tuple(processes), cores=tuple(cores), others=others)  # type: ignore[arg-type]


def _since(later: TracingCost | ProcessCost, earlier: TracingCost | ProcessCost, names: Iterable[str]) -> dict[str, int | None]:
    pairs = ((name, getattr(later, name), getattr(earlier, name)) for name in names)
    since = {name: None if new is None or old is None else max(0, new - old) for name, new, old in pairs}
    if earlier.run_ns is None and later.run_ns is not None and later.hits:
        since["run_ns"] = round(later.run_ns * max(0, later.hits - earlier.hits) / later.hits)
    return since


def _sum(values: Iterable[int | None]) -> int | None:
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total
