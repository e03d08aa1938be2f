# SPDX-License-Identifier: Apache-2.0
"""Rules about an offload: whether it is used, and what its waits are made of."""

from __future__ import annotations

from ssllatency.model.handshakes import (
    Handshakes,
    Part,
)
from ssllatency.model.offload import Batches
from ssllatency.reports.diagnosis.case import Case
from ssllatency.reports.diagnosis.numbers import FEWEST, MOST, OWN_FLOOR_NS, ratio
from ssllatency.reports.diagnosis.queue import did
from ssllatency.reports.diagnosis.rule import Evidence, counted_weight
from ssllatency.units import duration, share

# A full queue makes an engine refuse a few operations; a tenth of them is more than a few.
MANY_IN_SOFTWARE = 0.1
# Below half of the lanes, the same work could serve twice the handshakes.
HALF_FULL = 0.5
# Batches matter where a quarter of the time waits for them.
NOTABLE_WAIT = 0.25
# A share that is shown as 100 %.
ALL = 0.995
# A full queue, or a descriptor that several jobs share, wakes a job in vain now and then, but not every job.
MANY_RESUMPTIONS = 2


def software_fallback(case: Case) -> Evidence | None:
    """An offload is there, and yet OpenSSL itself does many of the operations."""
    offload = case.handshakes.offload
    if offload is None or offload.software + offload.handshakes < FEWEST:
        return None
    everything = offload.software + offload.handshakes
    if ratio(offload.software, everything) < MANY_IN_SOFTWARE:
        return None
    much = f"{share(offload.software, everything)} of the private-key operations ({offload.software})"
    sentence = f"{offload.engine} is loaded, but {much} are done by OpenSSL itself: they aren't offloaded"
    return Evidence(sentence, counted_weight(ratio(offload.software, everything), MANY_IN_SOFTWARE))


def vain_resumptions(case: Case) -> Evidence | None:
    """Jobs are resumed many times for each operation that was completed."""
    offload = case.handshakes.offload
    if offload is None or not case.count:
        return None
    done = sum(poller.completions for poller in offload.pollers)
    if done < FEWEST or offload.unseen < FEWEST or offload.pauses < MANY_RESUMPTIONS * done:
        return None
    often = f"The jobs were paused {offload.pauses} times for {done} completions, {offload.pauses / done:.1f} times each"
    return Evidence(f"{often}: the event loop resumes jobs that aren't done", counted_weight(ratio(done, offload.pauses), 0.0))


def late_resumption(case: Case) -> Evidence | None:
    """Much of the time passes until the offload's results are taken, most of it after it was done, and it isn't other work that
    keeps the thread from them."""
    whole = Part.WAIT_OFFLOAD, Part.QUEUE_OFFLOAD
    late = ratio(case.ns(Part.QUEUE_OFFLOAD), case.ns(*whole))
    if not case.much(OWN_FLOOR_NS, *whole) or late < MOST or did(case)[:1] not in ((), (Part.QUEUE_ASLEEP,)):
        return None
    mean = duration(case.ns(Part.QUEUE_OFFLOAD) / case.had(Part.QUEUE_OFFLOAD))
    asleep = ", asleep" if did(case) else ""
    after = f"{share(late, 1)} of that after the offload was done, {mean} a handshake"
    waits = f"{case.of_wait(case.ns(*whole))} passes until an offload's results are taken, {after}{asleep}"
    return Evidence(f"{waits}: the event loop is slow to resume the jobs that are done", case.share(*whole))


def batches_unfilled(case: Case) -> Evidence | None:
    """A notable part of the time waits for the offload, and its batches are at most half full."""
    batches, waits = _most_wasteful(case.handshakes), Part.WAIT_OFFLOAD
    if batches is None or not case.is_much(OWN_FLOOR_NS, case.ns(waits), NOTABLE_WAIT, case.slowest_ns(waits)):
        return None
    if ratio(batches.used, batches.count * batches.lanes) > HALF_FULL:
        return None
    fill = f"an average fill of {batches.used / batches.count:.1f} of {batches.lanes}"
    sentence = f"{_waits(case)}, and its batches have {fill}: too few are in flight at a time to fill them"
    return Evidence(sentence, case.share(Part.WAIT_OFFLOAD))


def offload_waits(case: Case) -> Evidence | None:
    """Much of the time waits for the offload."""
    if not case.much(OWN_FLOOR_NS, Part.WAIT_OFFLOAD):
        return None
    busy = ratio(case.ns(Part.COMPLETION), case.ns(Part.WAIT_OFFLOAD))  # at least, as not all could be split
    if busy >= ALL:
        return Evidence(f"{_waits(case)} itself", case.share(Part.WAIT_OFFLOAD))
    before = f", {share(busy, 1)} of that until completion: the offload itself" if busy >= MOST else ""
    return Evidence(f"{_waits(case)}{before}", case.share(Part.WAIT_OFFLOAD))


def _waits(case: Case) -> str:
    return f"{case.of_wait(case.ns(Part.WAIT_OFFLOAD))} is spent waiting for the offload"


def _most_wasteful(handshakes: Handshakes) -> Batches | None:
    """The batches that wasted the most lanes, where there are enough of them to judge by."""
    enough = [batches for batches in handshakes.offload.batches if batches.count >= FEWEST] if handshakes.offload else []
    return max(enough, key=lambda batches: batches.count * batches.lanes - batches.used, default=None)
