# SPDX-License-Identifier: Apache-2.0
"""Exact sums and differences of offloads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from ssllatency.model.keyed import gathered, listed, since
from ssllatency.model.offload import Batches, Offload, PollingThread


def merge(*measured: Offload | None) -> Offload | None:
    """The sum of all; the most that waited at a time is the greatest of theirs."""
    parts = [offload for offload in measured if offload is not None]
    if not parts:
        return None
    most = [part.most_waiting for part in parts if part.most_waiting is not None]
    return Offload(
        engine=listed(part.engine for part in parts),
        waiting=sum(part.waiting for part in parts),
        most_waiting=max(most) if len(most) == len(parts) else None,
        pauses=sum(part.pauses for part in parts),
        handshakes=sum(part.handshakes for part in parts),
        software=sum(part.software for part in parts),
        unseen=sum(part.unseen for part in parts),
        batches=gathered(chain.from_iterable(part.batches for part in parts), _lanes, _add_batches),
        pollers=_add_pollers(chain.from_iterable(part.pollers for part in parts)),
    )


def difference(later: Offload | None, earlier: Offload | None) -> Offload | None:
    """The difference of the two. Raises ValueError where `earlier` holds more than `later`."""
    if earlier is None:
        return later
    if later is None:
        raise ValueError("the offload has gone")
    risen = earlier.most_waiting is not None and later.most_waiting is not None and later.most_waiting > earlier.most_waiting
    return replace(
        later,
        most_waiting=later.most_waiting if risen else None,
        pauses=_less(later.pauses, earlier.pauses),
        handshakes=_less(later.handshakes, earlier.handshakes),
        software=_less(later.software, earlier.software),
        unseen=_less(later.unseen, earlier.unseen),
        batches=since(later.batches, earlier.batches, _lanes, _batches_since),
        pollers=_pollers_since(later.pollers, earlier.pollers),
    )


def _less(later: int, earlier: int) -> int:
    if later < earlier:
        raise ValueError("fewer than before")
    return later - earlier


def _lanes(batches: Batches) -> tuple[str, int]:
    return batches.function, batches.lanes


def _add_batches(batches: Sequence[Batches]) -> Batches:
    return replace(batches[0], fill=tuple(map(sum, zip(*(batch.fill for batch in batches), strict=True))))


def _batches_since(later: Batches, earlier: Batches) -> Batches:
    return replace(later, fill=tuple(_less(new, old) for new, old in zip(later.fill, earlier.fill, strict=True)))


def _thread(poller: PollingThread) -> tuple[int, int, str]:
    return poller.pid, poller.tid, poller.comm


def _add_pollers(pollers: Iterable[PollingThread]) -> tuple[PollingThread, ...]:
    threads: dict[tuple[int, int, str], PollingThread] = {}
    for poller in pollers:
        earlier = threads.get(_thread(poller))
        threads[_thread(poller)] = _add_poller(earlier, poller) if earlier else poller
    return tuple(threads.values())


def _add_poller(first: PollingThread, second: PollingThread) -> PollingThread:
    cpu_s = None if first.cpu_s is None or second.cpu_s is None else round(first.cpu_s + second.cpu_s, 6)
    return replace(first, completions=first.completions + second.completions, cpu_s=cpu_s)


def _pollers_since(later: Sequence[PollingThread], earlier: Sequence[PollingThread]) -> tuple[PollingThread, ...]:
    """A poller that completed nothing in between stays: the processor time that its polling took is of interest."""
    before = {_thread(poller): poller for poller in earlier}
    return tuple(_poller_since(poller, before.get(_thread(poller))) for poller in later)


def _poller_since(later: PollingThread, earlier: PollingThread | None) -> PollingThread:
    if earlier is None:
        return later
    measured = later.cpu_s is not None and earlier.cpu_s is not None
    cpu_s = round(max(0.0, (later.cpu_s or 0.0) - (earlier.cpu_s or 0.0)), 6) if measured else None
    return replace(later, completions=_less(later.completions, earlier.completions), cpu_s=cpu_s)
