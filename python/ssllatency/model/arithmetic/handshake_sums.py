# SPDX-License-Identifier: Apache-2.0
"""Exact sums and differences of handshakes, called by those of snapshots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from ssllatency.accept_queue import AcceptQueue, summed
from ssllatency.errors import SsllatencyError
from ssllatency.model import certificates
from ssllatency.model.arithmetic import offloads
from ssllatency.model.certificates import ServedCertificate
from ssllatency.model.handshakes import (
    CLIENT_WAIT_PARTS,
    EVERY,
    Cause,
    Ending,
    Fact,
    Group,
    Handshakes,
    KeyUse,
    Label,
    Part,
    RequestedSide,
    Tallies,
    Times,
    wall_time_ns,
)
from ssllatency.model.histogram import ExponentialHistogram
from ssllatency.model.keyed import gathered, since
from ssllatency.model.timed import greatest_ns, interval_extremes, least_ns

_Mix = Mapping[Label, Mapping[str, int]]


def client_wait_ns(parts: Mapping[Part, int]) -> int:
    """Return how long the client of one handshake waited since its ClientHello arrived: the queue before the first call, as far
    as it is known, and the wall time."""
    return sum(parts.get(part, 0) for part in CLIENT_WAIT_PARTS)


def add_times(times: Sequence[Times]) -> Times:
    """The durations of all, at least one; the extremes are kept where they are sure."""
    total_ns = sum(timed.total_ns for timed in times)
    return Times(
        total_ns, least_ns(times), greatest_ns(times), ExponentialHistogram.added([timed.exponential for timed in times])
    )


def add_groups(groups: Sequence[Group]) -> Group:
    """One group, with the labels of the last, that holds the handshakes of all; at least one."""
    present = [part for part in Part if any(part in group.parts for group in groups)]
    parts = {part: add_times([group.parts[part] for group in groups if part in group.parts]) for part in present}
    return replace(
        groups[-1],
        parts=parts,
        resumed=sum(group.resumed for group in groups),
        resumption_known=sum(group.resumption_known for group in groups),
        facts=_facts_sum(groups),
    )


def add_alike(groups: Iterable[Group]) -> tuple[Group, ...]:
    """Adds up the groups that have the same labels and ending."""
    return gathered(groups, group_identity, add_groups)


def add_causes(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """Adds up the causes that differ only in how often they occurred."""
    return gathered(causes, _cause, _causes_sum)


def causes_since(later: Iterable[Cause], earlier: Iterable[Cause]) -> tuple[Cause, ...]:
    """Return what didn't succeed between two snapshots of one trace. ValueError where there was more earlier than later."""
    return since(later, earlier, _cause, _cause_since)


def add_keys(uses: Iterable[KeyUse]) -> tuple[KeyUse, ...]:
    """Adds up the uses of the same kind of key."""
    return gathered(uses, _key, _keys_sum)


def add_tallies(parts: Collection[Tallies]) -> Tallies:
    """Add what is counted of all."""
    return Tallies(
        add_causes(chain.from_iterable(part.causes for part in parts)),
        add_keys(chain.from_iterable(part.keys for part in parts)),
        _mix_sum(part.mix for part in parts),
    )


def total(handshakes: Handshakes, ending: Ending) -> Group | None:
    """All groups of one ending added up, without labels; None where no handshake ended so."""
    groups = [group for group in handshakes.groups if group.ending is ending and group.count]
    return replace(add_groups(groups), labels={}, other=False) if groups else None


def without(handshakes: Handshakes, label: Label) -> Handshakes:
    """The handshakes no longer distinguished by this label, neither in the groups nor in the mix."""
    by = tuple(other for other in handshakes.by if other is not label)
    mix = {other: values for other, values in handshakes.mix.items() if other is not label}
    served = None if handshakes.certificates is None else _certificates_sum([handshakes.certificates], by)
    return replace(handshakes, groups=_grouped(handshakes.groups, by), by=by, mix=mix, certificates=served)


def merge(*parts: Handshakes) -> Handshakes:
    """All added up, at least one, grouped by the labels that all are grouped by. The slowest of each are all kept."""
    by = tuple(label for label in Label if all(label in part.by for part in parts))
    return Handshakes(
        groups=_grouped(chain.from_iterable(part.groups for part in parts), by),
        causes=add_causes(chain.from_iterable(part.causes for part in parts)),
        keys=add_keys(chain.from_iterable(part.keys for part in parts)),
        mix=_mix_sum([part.mix for part in parts]),
        slowest=tuple(
            sorted(chain.from_iterable(part.slowest for part in parts), key=lambda handshake: -client_wait_ns(handshake.parts))
        ),
        by=by,
        role=parts[0].role if len({part.role for part in parts}) == 1 else RequestedSide.ANY,
        in_flight=sum(part.in_flight for part in parts),
        dropped=sum(part.dropped for part in parts),
        unattributed=sum(part.unattributed for part in parts),
        unsplit=sum(part.unsplit for part in parts),
        slept=sum(part.slept for part in parts),
        partial=sum(part.partial for part in parts),
        inspections=sum(part.inspections for part in parts),
        bounded=sum(part.bounded for part in parts),
        arrivals=all(part.arrivals for part in parts),
        off_cpu=any(part.off_cpu for part in parts),
        quotas=all(part.quotas for part in parts),
        exact_share=max((part.exact_share for part in parts if part.exact_share is not None), default=None),
        unknown_labels={label: why for part in reversed(parts) for label, why in part.unknown_labels.items()},
        offload=offloads.merge(*(part.offload for part in parts)),
        accept_queues=_queues_sum([part.accept_queues for part in parts if part.accept_queues is not None]),
        overflows_untold=sum(part.overflows_untold for part in parts),
        certificates=_certificates_sum([part.certificates for part in parts if part.certificates is not None], by),
        certificates_untold=sum(part.certificates_untold for part in parts),
        certificates_pending=sum(part.certificates_pending for part in parts),
    )


def difference(later: Handshakes, earlier: Handshakes) -> Handshakes:
    """Return what ended between two snapshots of one trace. What didn't occur in between is left out.

    Extremes as for functions. What isn't a count is the later snapshot's; the slowest are those that joined the list in
    between. Raises SsllatencyError when `earlier` holds handshakes that `later` doesn't.
    """
    try:
        return replace(
            later,
            groups=since(later.groups, earlier.groups, group_identity, _groups_since),
            causes=causes_since(later.causes, earlier.causes),
            keys=since(later.keys, earlier.keys, _key, _key_since),
            mix=_mix_since(later.mix, earlier.mix),
            slowest=tuple(handshake for handshake in later.slowest if handshake not in earlier.slowest),
            dropped=max(0, later.dropped - earlier.dropped),
            unattributed=max(0, later.unattributed - earlier.unattributed),
            unsplit=max(0, later.unsplit - earlier.unsplit),
            slept=max(0, later.slept - earlier.slept),
            partial=max(0, later.partial - earlier.partial),
            inspections=max(0, later.inspections - earlier.inspections),
            bounded=max(0, later.bounded - earlier.bounded),
            offload=offloads.difference(later.offload, earlier.offload),
            by_process={},
            accept_queues=_queues_since(later.accept_queues, earlier.accept_queues),
            overflows_untold=max(0, later.overflows_untold - earlier.overflows_untold),
            certificates=certificates.since(later.certificates, earlier.certificates),
            certificates_untold=max(0, later.certificates_untold - earlier.certificates_untold),
        )
    except ValueError:
        raise SsllatencyError(
            "The later snapshot holds fewer handshakes than the earlier one:"
            " take the difference of two snapshots of one trace, the later one first."
        ) from None


def group_identity(group: Group) -> tuple[object, ...]:
    """The key that tells a group apart. A process is known by its PID alone: its name may become known, or change, later."""
    process = group.process
    labels = {**group.labels, Label.PROCESS: process.identity} if process else group.labels
    return frozenset(labels.items()), group.ending, group.other


def _cause(cause: Cause) -> tuple[object, ...]:
    why = cause.ending, cause.reason, cause.code, cause.library, cause.alert, cause.sent, cause.state
    return *why, cause.peer_left, cause.undelivered


def _key(use: KeyUse) -> tuple[object, ...]:
    return use.operation, use.key


def _grouped(groups: Iterable[Group], by: Sequence[Label]) -> tuple[Group, ...]:
    """The groups distinguished by these labels only. Without any label, those beyond the bound are included again."""
    relabelled = (
        replace(
            group,
            labels={label: value for label, value in group.labels.items() if label in by},
            other=group.other and bool(by),
        )
        for group in groups
    )
    return add_alike(relabelled)


def _queues_sum(parts: Sequence[Sequence[AcceptQueue]]) -> tuple[AcceptQueue, ...] | None:
    """None where they aren't known of any part."""
    return summed(chain.from_iterable(parts)) if parts else None


def _queues_since(later: Sequence[AcceptQueue] | None, earlier: Sequence[AcceptQueue] | None) -> tuple[AcceptQueue, ...] | None:
    if later is None:
        return None
    before = {queue.identity: queue.overflows for queue in earlier or ()}
    return tuple(replace(queue, overflows=max(0, queue.overflows - before.get(queue.identity, 0))) for queue in later)


def _certificates_sum(
    parts: Sequence[Sequence[ServedCertificate]], by: Sequence[Label]
) -> tuple[ServedCertificate, ...] | None:
    """None where they aren't known of any part."""
    if not parts:
        return None
    served = chain.from_iterable(parts)
    return certificates.summed(served) if Label.PROCESS in by else certificates.without_processes(served)


def _causes_sum(rows: Sequence[Cause]) -> Cause:
    return replace(rows[0], count=sum(row.count for row in rows), total_ns=wall_time_ns(rows))


def _keys_sum(rows: Sequence[KeyUse]) -> KeyUse:
    return replace(rows[0], count=sum(row.count for row in rows), total_ns=sum(row.total_ns for row in rows))


def _groups_since(later: Group, earlier: Group) -> Group:
    if not earlier.parts.keys() <= later.parts.keys():
        raise ValueError("a part has gone")
    pairs = {part: (times, earlier.parts.get(part)) for part, times in later.parts.items()}
    parts = {part: _times_since(times, before) if before else times for part, (times, before) in pairs.items()}
    return replace(
        later,
        parts={part: times for part, times in parts.items() if times.count or part in EVERY},
        resumed=max(0, later.resumed - earlier.resumed),
        resumption_known=max(0, later.resumption_known - earlier.resumption_known),
        facts=_facts_since(later.facts, earlier.facts),
    )


def _facts_sum(groups: Iterable[Group]) -> dict[Fact, int]:
    counts = Counter[Fact]()
    for group in groups:
        counts.update(group.facts)
    return dict(counts)


def _facts_since(later: Mapping[Fact, int], earlier: Mapping[Fact, int]) -> dict[Fact, int]:
    counts = {fact: count - earlier.get(fact, 0) for fact, count in later.items()}
    return {fact: count for fact, count in counts.items() if count > 0}


def _times_since(later: Times, earlier: Times) -> Times:
    exponential = later.exponential - earlier.exponential
    return Times(later.total_ns - earlier.total_ns, *interval_extremes(later, exponential), exponential)


def _cause_since(later: Cause, earlier: Cause) -> Cause:
    known = later.total_ns is not None and earlier.total_ns is not None
    total_ns = (later.total_ns or 0) - (earlier.total_ns or 0) if known else None
    return replace(later, count=later.count - earlier.count, total_ns=total_ns)


def _key_since(later: KeyUse, earlier: KeyUse) -> KeyUse:
    return replace(later, count=later.count - earlier.count, total_ns=later.total_ns - earlier.total_ns)


def _mix_sum(mixes: Iterable[_Mix]) -> _Mix:
    summed: dict[Label, Counter[str]] = {}
    for mix in mixes:
        for label, counts in mix.items():
            summed.setdefault(label, Counter()).update(counts)
    return {label: dict(counts) for label, counts in summed.items()}


def _mix_since(later: _Mix, earlier: _Mix) -> _Mix:
    changed = {label: _counts_since(values, earlier.get(label, {})) for label, values in later.items()}
    return {label: values for label, values in changed.items() if values}


def _counts_since(later: Mapping[str, int], earlier: Mapping[str, int]) -> Mapping[str, int]:
    counts = {value: count - earlier.get(value, 0) for value, count in later.items()}
    if min(counts.values(), default=0) < 0:
        raise ValueError("fewer than before")
    return {value: count for value, count in counts.items() if count}
