# SPDX-License-Identifier: Apache-2.0
"""Rules about this server's own queue, in which bytes that have arrived lie until its thread comes back; about accept queues
that connections find full; and about threads that have no processor, there or inside calls."""

from __future__ import annotations

from dataclasses import replace

from ssllatency.model.handshakes import MEANWHILE, Ending, Label, Part
from ssllatency.reports.diagnosis.calls import key_remedies, phase_words
from ssllatency.reports.diagnosis.case import Case
from ssllatency.reports.diagnosis.numbers import FEWEST, MOST, MUCH, NEARLY_ALL, NOTABLE, OWN_FLOOR_NS, joined_by_or, ratio
from ssllatency.reports.diagnosis.rule import Evidence
from ssllatency.reports.words.accept_queues import place
from ssllatency.units import counted, duration, share

# Two things that the thread did are named where neither makes most of the queue, and the second no less than this.
SECOND = 0.25
_DID = {
    Part.QUEUE_HANDSHAKES: "busy with other handshakes",
    Part.QUEUE_OTHER: "busy with something else than handshakes",
    Part.QUEUE_GOROUTINES: "busy with other goroutines or the runtime's own work",
    Part.QUEUE_COLLECTIONS: "busy with garbage collection",
    Part.QUEUE_RUNNABLE: "ready to run but had no processor",
    Part.QUEUE_THROTTLED: "held by a CPU quota",
}
# Why the thread has no processor, as a part of its queue.
_QUEUED = (Part.QUEUE_RUNNABLE, Part.QUEUE_THROTTLED)
_OTHERS_OR_QUOTA = "Look for what else runs on these processors (`top`), and for a CPU quota (`nr_throttled` in its cpu.stat)."
_ASLEEP = "Look for a lock, a disk, or something that stops it."  # of a program that isn't a server
_REMEDIES = {
    Part.PRIVATE_KEY: "",
    Part.KEY_EXCHANGE: "a cheaper group",
    Part.PEER_VERIFICATION: "shorter chains of the {peers}",
    Part.SESSION_LOOKUP: "a quicker session store",
    Part.CALLBACKS: "quicker callbacks",
}
# Linux's TCP sends nothing again earlier than this (TCP_RTO_MIN); a SYN not before a second has passed.
RETRY_NS = 200_000_000


def saturated(case: Case) -> Evidence | None:
    """Much of the time lies in the queue while the thread is at work in other handshakes."""
    evidence = _queue(case, Part.QUEUE_HANDSHAKES)
    if evidence is None:
        return None
    work, remedies = _work(case)
    step = f"It is saturated: {joined_by_or(['more workers', 'more processors', *remedies])} would shorten the queue."
    return Evidence(f"{evidence.sentence}{_processors(case)}{work}", evidence.weight, step)


def blocked_loop(case: Case) -> Evidence | None:
    """Much of the time lies in the queue while the thread is at work elsewhere."""
    return _queue(case, Part.QUEUE_OTHER)


def other_goroutines(case: Case) -> Evidence | None:
    """Much of the time lies in the queue of a Go program while the thread that then comes runs other goroutines."""
    return _queue(case, Part.QUEUE_GOROUTINES)


def collections(case: Case) -> Evidence | None:
    """Much of the time lies in the queue of a Go program while the thread that then comes collects garbage."""
    return _queue(case, Part.QUEUE_COLLECTIONS)


def asleep_elsewhere(case: Case) -> Evidence | None:
    """Much of the time lies in the queue while the thread sleeps elsewhere, and not until it polls an offload."""
    if is_offloads(case):
        return None
    evidence = _queue(case, Part.QUEUE_ASLEEP)
    return evidence if evidence is None or case.is_server else replace(evidence, step=_ASLEEP)


def neighbours(case: Case) -> Evidence | None:
    """Much of the time the thread is ready to run, in the queue or inside calls, and others have the processor."""
    if _held(case) or not (evidence := _no_processor(case, Part.QUEUE_RUNNABLE)):
        return None
    return evidence if case.handshakes.quotas else replace(evidence, step=_OTHERS_OR_QUOTA)


def cpu_quota(case: Case) -> Evidence | None:
    """Much of the time a quota holds the thread, in the queue or inside calls."""
    return _no_processor(case, Part.QUEUE_THROTTLED) if _held(case) else None


def late_first_call(case: Case) -> Evidence | None:
    """Much of the time lies in the queue before the first call, and it isn't known what the thread did."""
    if did(case) or not case.much(OWN_FLOOR_NS, Part.QUEUE) or not _at_start(case):
        return None
    waits = f"{case.of_wait(case.ns(Part.QUEUE_START))} is spent before {case.own}'s first call"
    return Evidence(f"{waits}: connections wait in its accept queue, or for its event loop", case.share(Part.QUEUE))


def accept_queue_full(case: Case) -> Evidence | None:
    """Connections found no room, and the least that their clients wait for it is much beside what they wait otherwise."""
    overflows, again_ns = case.handshakes.overflows, case.handshakes.overflows * RETRY_NS
    if case.count + overflows < FEWEST or again_ns < OWN_FLOOR_NS * case.count:
        return None
    if again_ns < NOTABLE * (again_ns + case.wait_ns):
        return None
    weight = ratio(again_ns, case.wait_ns) if case.wait_ns else 1.0  # beside shares of what clients wait otherwise
    worst = max(case.handshakes.accept_queues or (), key=lambda queue: queue.overflows)
    one = place(worst) if worst.limit is None else f"{place(worst)}, which holds {worst.limit}"
    times = counted(overflows, "time")
    if worst.overflows == overflows:
        what = f"The accept queue of {one}{'' if worst.limit is None else ','} was full {times} when a connection came"
    else:
        what = f"Accept queues were full {times} when a connection came, {worst.overflows} times that of {one}"
    return Evidence(f"{what}: its client tries again 0.2 s or more later, and no time above includes that", weight)


def late_server(case: Case) -> Evidence | None:
    """Much of the time lies in the queue, and it isn't known what the thread did."""
    if did(case) or not case.much(OWN_FLOOR_NS, Part.QUEUE) or _at_start(case):
        return None
    return Evidence(f"{_own_queue(case)} it was late to come back for them", case.share(Part.QUEUE))


def _queue(case: Case, doing: Part) -> Evidence | None:
    """The sentence about the queue, where this is what the thread did above all."""
    doings = did(case)
    if doings[:1] != (doing,):
        return None
    words = " and ".join(
        f"for {share(case.ns(part), case.ns(Part.QUEUE))}{' of that time its thread' if part is doing else ''} {_words(part)}"
        for part in doings
    )
    early = ", nearly all of it before the first call" if _at_start(case) else ""
    return Evidence(f"{_own_queue(case, early)} {words}{_worker(case, doing)}", case.share(Part.QUEUE))


def _work(case: Case) -> tuple[str, list[str]]:
    """Return what much of the work in handshakes is, and what would make it less."""
    phase = max(_REMEDIES, key=case.ns)
    much = share(case.ns(phase), case.ns(Part.CALLS))
    if ratio(case.ns(phase), case.ns(Part.CALLS)) < MUCH:
        return "", []
    remedies = key_remedies(case) if phase is Part.PRIVATE_KEY else [_REMEDIES[phase].format(peers=case.peers)]
    return f"; {much} of a handshake's work is {phase_words(case, phase)}", remedies


def _words(part: Part) -> str:
    return "slept elsewhere" if part is Part.QUEUE_ASLEEP else f"was {_DID[part]}"


def _own_queue(case: Case, early: str = "") -> str:
    return f"{case.of_wait(case.ns(Part.QUEUE))} is {case.own}'s own queue{early}: {_what_lay_there(case)}, and"


def _what_lay_there(case: Case) -> str:
    whose = "their" if case.is_server else f"the {case.peers}'"
    arrived = f"{whose} bytes had arrived"
    if case.ns(Part.QUEUE_OFFLOAD) < SECOND * case.ns(Part.QUEUE):
        return arrived
    return "the offload was done" if is_offloads(case) else f"{arrived}, or the offload was done"


def is_offloads(case: Case) -> bool:
    """Whether most of the queue is results of an offload."""
    return case.ns(Part.QUEUE_OFFLOAD) >= MOST * case.ns(Part.QUEUE) > 0


def did(case: Case) -> tuple[Part, ...]:
    """Return what the thread did while something lay in a queue that is long: what makes most of that, or the two that do
    together."""
    if not case.much(OWN_FLOOR_NS, Part.QUEUE):
        return ()
    first, second = sorted(MEANWHILE, key=case.ns, reverse=True)[:2]
    whole_ns = case.ns(Part.QUEUE)
    if case.ns(first) >= MOST * whole_ns:
        return (first,)
    two = case.ns(second) >= SECOND * whole_ns and case.ns(first, second) >= MOST * whole_ns
    return (first, second) if two else ()


def _at_start(case: Case) -> bool:
    return case.ns(Part.QUEUE_START) >= NEARLY_ALL * case.ns(Part.QUEUE)


def _no_processor(case: Case, queued: Part) -> Evidence | None:
    """The queue's sentence where this made most of it; else one about the queue and the calls together."""
    parts = (*_QUEUED, Part.OFF_CPU_RUNNABLE)
    whole_ns = case.ns(*parts)
    inside_ns, this_ns = _inside_ns(case, queued), _without_ns(case, queued)
    if queued in did(case)[1:] and not case.much(OWN_FLOOR_NS, Part.OFF_CPU_RUNNABLE):
        return None  # the sentence about the queue names it
    evidence = _queue(case, queued)
    if evidence:
        also = f"; inside calls it was without a processor for another {case.mean(Part.OFF_CPU_RUNNABLE)}"
        inside = also if case.ns(Part.OFF_CPU_RUNNABLE) >= NOTABLE * case.wait_ns else ""
        more = max(evidence.weight, ratio(case.ns(queued, Part.OFF_CPU_RUNNABLE), case.wait_ns))
        return Evidence(f"{evidence.sentence}{inside}", more)
    if not case.is_much(OWN_FLOOR_NS, whole_ns, slowest_ns=case.slowest_ns(*parts)):
        return None
    where = f", {duration(inside_ns / case.count)} of it inside the library's calls" if inside_ns else ""
    other = next(part for part in _QUEUED if part is not queued)
    other_ns = whole_ns - this_ns
    beside = f"; for another {duration(other_ns / case.count)} it was {_DID[other]}" if other_ns >= SECOND * whole_ns else ""
    unknown = "" if case.handshakes.quotas or queued is Part.QUEUE_THROTTLED else ": others had it, or a CPU quota held it"
    subject = f"For {case.of_wait(this_ns)} {case.own}'s thread was {_DID[queued]}"
    return Evidence(f"{subject}{where}{beside}{unknown}", ratio(whole_ns, case.wait_ns))


def _inside_ns(case: Case, queued: Part) -> int:
    """Return how long the thread had no processor inside calls for that reason; where quotas weren't measured, for either."""
    if not case.handshakes.quotas:
        return case.ns(Part.OFF_CPU_RUNNABLE)
    throttled_ns = case.ns(Part.OFF_CPU_THROTTLED)
    return throttled_ns if queued is Part.QUEUE_THROTTLED else case.ns(Part.OFF_CPU_RUNNABLE) - throttled_ns


def _without_ns(case: Case, queued: Part) -> int:
    """Return how long it had none for that reason in all."""
    return case.ns(queued) + _inside_ns(case, queued)


def _held(case: Case) -> bool:
    """Whether a quota, more than others on the processor, is why threads don't run."""
    if case.handshakes.quotas:
        held_ns = _without_ns(case, Part.QUEUE_THROTTLED)
        return held_ns > 0 and held_ns >= _without_ns(case, Part.QUEUE_RUNNABLE)
    held_ns = case.ns(Part.QUEUE_THROTTLED)
    return held_ns > 0 and held_ns >= case.ns(Part.QUEUE_RUNNABLE) and held_ns >= case.ns(Part.OFF_CPU_RUNNABLE) / 10


def _worker(case: Case, doing: Part) -> str:
    """The process in which nearly all of that happened, where the handshakes are grouped by process and there are several."""
    by_process: dict[str, int] = {}
    for group in case.handshakes.groups:
        name = group.text(Label.PROCESS)
        if group.ending is Ending.SUCCESS and name and not group.other:
            by_process[name] = by_process.get(name, 0) + group.total_ns(doing)
    name = max(by_process, key=by_process.__getitem__, default="")
    return f", nearly all in {name}" if len(by_process) > 1 and by_process[name] >= NEARLY_ALL * case.ns(doing) else ""


def _processors(case: Case) -> str:
    """Return how many processors the handshakes used, where that and the time of the measurement are known."""
    groups = [group for group in case.handshakes.groups if group.count]
    known = all(Part.ON_CPU in group.parts and group.parts[Part.ON_CPU].count == group.count for group in groups)
    if not known or not case.duration_s:
        return ""
    used = sum(group.total_ns(Part.ON_CPU) for group in groups) / (case.duration_s * 1e9)
    return f"; handshakes use {used:.2g} of a processor" if used < 1 else f"; handshakes use {used:.1f} processors"
