# SPDX-License-Identifier: Apache-2.0
"""Handshakes as the JSON document has them: "handshakes", and the offload under "async"."""

from __future__ import annotations

from dataclasses import asdict

from ssllatency.accept_queue import AcceptQueue
from ssllatency.model.handshakes import (
    Cause,
    Group,
    Handshakes,
    Part,
    Single,
    Times,
)
from ssllatency.model.offload import Batches, Offload
from ssllatency.reports.documents.certificates import certificate_fields
from ssllatency.reports.documents.timed import exponential_fields, timed_fields

_OF_FREED = ("peer_left", "undelivered")
# Names that parts had in earlier versions; written as well, so that whoever reads documents finds them for one version more.
FORMER_NAMES = {Part.QUEUE_OFFLOAD: "offload_resumption"}


def handshake_fields(handshakes: Handshakes) -> dict[str, object]:
    """The members that a document of handshakes has beside those of every document."""
    offload = handshakes.offload
    return {"handshakes": _handshakes(handshakes), **({"async": _offload(offload)} if offload else {})}


def _handshakes(handshakes: Handshakes) -> dict[str, object]:
    return {
        "by": [str(label) for label in handshakes.by],
        "role": str(handshakes.role),
        "groups": [_group(group) for group in handshakes.groups],
        "causes": [_cause(cause) for cause in handshakes.causes],
        "keys": [asdict(use) for use in handshakes.keys],
        "mix": {str(label): dict(values) for label, values in handshakes.mix.items()},
        "slowest": [single_fields(single) for single in handshakes.slowest],
        "in_flight": handshakes.in_flight,
        "dropped": handshakes.dropped,
        "unattributed": handshakes.unattributed,
        "unsplit": handshakes.unsplit,
        "slept": handshakes.slept,
        "partial": handshakes.partial,
        **({"inspections": handshakes.inspections} if handshakes.inspections else {}),
        "bounded": handshakes.bounded,
        "arrivals": handshakes.arrivals,
        "off_cpu": handshakes.off_cpu,
        "quotas": handshakes.quotas,
        **({"exact_share": handshakes.exact_share} if handshakes.exact_share is not None else {}),
        "unknown_labels": {str(label): reason for label, reason in handshakes.unknown_labels.items()},
        **_accept_queues(handshakes),
        **certificate_fields(handshakes),
    }


def _accept_queues(handshakes: Handshakes) -> dict[str, object]:
    """Nothing where they aren't known."""
    if handshakes.accept_queues is None:
        return {}
    queues = [_accept_queue(queue) for queue in handshakes.accept_queues]
    return {"accept_queues": queues, "overflows_untold": handshakes.overflows_untold}


def _accept_queue(queue: AcceptQueue) -> dict[str, object]:
    fields = {name: value for name, value in asdict(queue).items() if value is not None}
    return {name: value for name, value in fields.items() if name != "network" or value}


def _cause(cause: Cause) -> dict[str, object]:
    fields = {name: value for name, value in asdict(cause).items() if name not in _OF_FREED}
    return {**fields, "ending": str(cause.ending), **_of_freed(cause)}


def _of_freed(ended: Cause | Single) -> dict[str, bool]:
    """Return what is known of the peer of a handshake that was freed."""
    return {name: known for name in _OF_FREED if (known := getattr(ended, name)) is not None}


def _group(group: Group) -> dict[str, object]:
    return {
        "labels": {str(label): value for label, value in group.texts.items()},
        **({"other": True} if group.other else {}),
        "ending": str(group.ending),
        "count": group.count,
        "resumed": group.resumed,
        "resumption_known": group.resumption_known,
        "facts": {str(fact): count for fact, count in group.facts.items()},
        "parts": {name: _times(times) for part, times in group.parts.items() for name in _names(part)},
    }


def _names(part: Part) -> list[str]:
    return [str(part), *([FORMER_NAMES[part]] if part in FORMER_NAMES else [])]


def _times(times: Times) -> dict[str, object]:
    return {**timed_fields(times), "exponential": exponential_fields(times.exponential)}


def single_fields(single: Single) -> dict[str, object]:
    """One handshake by itself."""
    return {
        "ended_s": single.ended_s,
        "pid": single.pid,
        "tid": single.tid,
        "comm": single.comm,
        "ending": str(single.ending),
        "parts_ns": {name: time for part, time in single.parts.items() for name in _names(part)},
        "labels": {str(label): value for label, value in single.labels.items()},
        "calls": single.calls,
        "pauses": single.pauses,
        "reason": single.reason,
        "alert": single.alert,
        "state": single.state,
        **({"unphased": True} if single.unphased else {}),
        **_of_freed(single),
    }


def _offload(offload: Offload) -> dict[str, object]:
    return {
        "engine": offload.engine,
        "waiting": offload.waiting,
        "most_waiting": offload.most_waiting,
        "pauses": offload.pauses,
        "handshakes": offload.handshakes,
        "software": offload.software,
        "unseen": offload.unseen,
        "batches": [_batches(batches) for batches in offload.batches],
        "pollers": [asdict(poller) for poller in offload.pollers],
    }


def _batches(batches: Batches) -> dict[str, object]:
    average = round(batches.used / batches.count, 4) if batches.count else None
    return {
        "function": batches.function,
        "lanes": batches.lanes,
        "count": batches.count,
        "average_fill": average,
        "fill": list(batches.fill),
    }
