# SPDX-License-Identifier: Apache-2.0
"""Rules about an offload: whether it is used, and what its waits are made of."""

from __future__ import annotations

from ssllatency.model.handshakes import Batches, Group, Handshakes, Part
from ssllatency.reports.diagnosis.numbers import FEWEST, MOST, ratio, share_of, successful, time_ns
from ssllatency.reports.words.units import duration, share

# A full queue makes an engine refuse a few operations; a tenth of them is more than a few.
MANY_IN_SOFTWARE = 0.1
# Below half of the lanes, the same work could serve twice the handshakes.
HALF_FULL = 0.5
# Batches matter where a quarter of the time waits for them.
NOTABLE_WAIT = 0.25
# A full queue, or a descriptor that several jobs share, wakes a job in vain now and then, but not every job.
MANY_RESUMPTIONS = 2


def software_fallback(handshakes: Handshakes) -> str | None:
    """An offload is there, and yet OpenSSL itself does many of the operations."""
    offload = handshakes.offload
    if offload is None or offload.software + offload.handshakes < FEWEST:
        return None
    everything = offload.software + offload.handshakes
    if ratio(offload.software, everything) < MANY_IN_SOFTWARE:
        return None
    much = f"{share(offload.software, everything)} of the private-key operations ({offload.software})"
    return f"{offload.engine} is there, but {much} are done by OpenSSL itself: they aren't offloaded."


def vain_resumptions(handshakes: Handshakes) -> str | None:
    """Jobs are resumed many times for each operation that was completed."""
    offload = handshakes.offload
    if offload is None or successful(handshakes) is None:
        return None
    done = sum(poller.completions for poller in offload.pollers)
    if done < FEWEST or offload.unseen < FEWEST or offload.pauses < MANY_RESUMPTIONS * done:
        return None
    often = f"The jobs were paused {offload.pauses} times for {done} completions, {offload.pauses / done:.1f} times each"
    why = "for example because a descriptor stays readable (nobody drains it), or because it polls every job"
    return f"{often}: the event loop resumes jobs that aren't done, {why}."


def late_resumption(handshakes: Handshakes) -> str | None:
    """Most of the time waits for the offload, and most of that after it was done."""
    group = successful(handshakes)
    if group is None or _waiting(group) < MOST or _late(group) < MOST:
        return None
    late = group.parts[Part.RESUMPTION]
    after = f"{share(_late(group), 1)} of that after completion, {duration(late.total_ns / late.count)} a handshake"
    return f"{_waits(group)}, {after}: the event loop is slow to resume the jobs that are done."


def batches_unfilled(handshakes: Handshakes) -> str | None:
    """Much of the time waits for the offload, and its batches are at most half full."""
    group = successful(handshakes)
    batches = _most_wasteful(handshakes)
    if group is None or batches is None or _waiting(group) < NOTABLE_WAIT:
        return None
    if ratio(batches.used, batches.count * batches.lanes) > HALF_FULL:
        return None
    fill = f"an average fill of {batches.used / batches.count:.1f} of {batches.lanes}"
    return f"{_waits(group)}, and its batches have {fill}: too few are in flight at a time to fill them."


def offload_waits(handshakes: Handshakes) -> str | None:
    """Most of the time waits for the offload."""
    group = successful(handshakes)
    if group is None or _waiting(group) < MOST:
        return None
    done = group.parts.get(Part.COMPLETION)
    before = f", {share(1 - _late(group), 1)} of that until completion: the offload itself" if done and done.count else ""
    return f"{_waits(group)}{before}."


def _waiting(group: Group) -> float:
    return ratio(time_ns(group, Part.WAIT_OFFLOAD), time_ns(group, Part.WALL))


def _waits(group: Group) -> str:
    return f"{share_of(group, Part.WALL, Part.WAIT_OFFLOAD)} of the handshakes' time is spent waiting for the offload"


def _late(group: Group) -> float:
    """How much of the waits that could be split went by after completion."""
    return ratio(time_ns(group, Part.RESUMPTION), time_ns(group, Part.COMPLETION, Part.RESUMPTION))


def _most_wasteful(handshakes: Handshakes) -> Batches | None:
    """The batches that wasted the most lanes, where there are enough of them to judge by."""
    enough = [batches for batches in handshakes.offload.batches if batches.count >= FEWEST] if handshakes.offload else []
    return max(enough, key=lambda batches: batches.count * batches.lanes - batches.used, default=None)
