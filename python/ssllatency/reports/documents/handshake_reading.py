# SPDX-License-Identifier: Apache-2.0
"""Reads the handshakes of a JSON document again; every field that isn't as it must be is refused by name."""

from __future__ import annotations

from collections.abc import Mapping

from ssllatency.accept_queue import AcceptQueue
from ssllatency.model.handshakes import (
    EVERY,
    SUMS,
    WITHIN,
    Cause,
    Ending,
    Fact,
    Group,
    Handshakes,
    KeyUse,
    Label,
    LabelValue,
    Part,
    RequestedSide,
    Single,
    Times,
    unequal_sum,
)
from ssllatency.model.process_label import ProcessLabel
from ssllatency.reports.documents.certificates import read_certificates
from ssllatency.reports.documents.fields import DocumentField
from ssllatency.reports.documents.handshake_fields import FORMER_NAMES
from ssllatency.reports.documents.offload_reading import read_offload
from ssllatency.reports.documents.timed import check_count, read_timed

# Older versions counted some of these of all handshakes, and the others of those whose phases were watched: no share is known.
_OF_LOOKUPS = (Fact.OFFERED, Fact.TICKETS_REFUSED, Fact.CACHE_MISSES)
_YEAR_10000_S = 253_402_300_800


def read_handshakes(root: DocumentField) -> Handshakes | None:
    """The handshakes of a document, None where it has none. Raises SsllatencyError with the field that is wrong."""
    handshakes, offload = root.optional("handshakes"), root.optional("async")
    if handshakes is None:
        return None
    by = tuple(label.one_of(Label) for label in handshakes.get("by").items())
    groups, queues = handshakes.get("groups"), handshakes.optional("accept_queues")
    return Handshakes(
        groups=groups.rows(lambda group: _read_group(group, by), "labels and ending"),
        causes=handshakes.get("causes").rows(_read_cause, "ending, code and names"),
        keys=handshakes.get("keys").rows(_read_key, "operation and key"),
        mix={label: _counts(values) for label, values in _labelled(handshakes.get("mix")).items()},
        slowest=tuple(_read_single(single) for single in handshakes.get("slowest").items()),
        by=by,
        role=role.one_of(RequestedSide) if (role := handshakes.optional("role")) else RequestedSide.SERVER,
        in_flight=handshakes.get("in_flight").whole(),
        dropped=handshakes.get("dropped").whole(),
        unattributed=handshakes.get("unattributed").whole(),
        unsplit=_added(handshakes, "unsplit"),
        slept=_added(handshakes, "slept"),
        partial=_added(handshakes, "partial"),
        inspections=_added(handshakes, "inspections"),
        bounded=_added(handshakes, "bounded"),
        arrivals=_added_flag(handshakes, "arrivals"),
        off_cpu=handshakes.get("off_cpu").flag(),
        quotas=_added_flag(handshakes, "quotas"),
        exact_share=share.number() if (share := handshakes.optional("exact_share")) else None,
        unknown_labels={label: why.text() for label, why in _labelled(handshakes.get("unknown_labels")).items()},
        offload=read_offload(offload) if offload else None,
        accept_queues=queues.rows(_read_accept_queue, "port, address and network") if queues else None,
        overflows_untold=_added(handshakes, "overflows_untold"),
        certificates=read_certificates(handshakes),
        certificates_untold=_added(handshakes, "certificates_untold"),
        certificates_pending=_added(handshakes, "certificates_pending"),
    )


def _added(handshakes: DocumentField, name: str) -> int:
    """A number that documents of older versions lack."""
    member = handshakes.optional(name)
    return member.whole() if member else 0


def _added_flag(handshakes: DocumentField, name: str) -> bool:
    """A flag that documents of older versions lack."""
    member = handshakes.optional(name)
    return member is not None and member.flag()


def _added_fact(ended: DocumentField, name: str) -> bool | None:
    member = ended.optional(name)
    return None if member is None else member.flag()


def _labelled(members: DocumentField) -> dict[Label, DocumentField]:
    return {member.name().one_of(Label): member for _, member in members.members()}


def _parts(members: DocumentField) -> dict[Part, DocumentField]:
    # Under its former name QUEUE_OFFLOAD was a part of WAIT_OFFLOAD: of such documents that wait stays whole.
    known = (member for name, member in members.members() if name not in FORMER_NAMES.values())
    parts = {member.name().one_of(Part): member for member in known}
    for part in EVERY:
        members.get(part)
    return parts


def _counts(values: DocumentField) -> dict[str, int]:
    return {value: count.whole() for value, count in values.members()}


def _read_labels(labels: DocumentField) -> dict[Label, str | None]:
    return {label: None if value.value is None else value.text() for label, value in _labelled(labels).items()}


def _read_group_labels(labels: DocumentField) -> dict[Label, LabelValue]:
    values = _read_labels(labels)
    return {label: ProcessLabel.from_text(text) if text and label is Label.PROCESS else text for label, text in values.items()}


def _read_group(group: DocumentField, by: tuple[Label, ...]) -> tuple[object, Group]:
    labels, other = _read_group_labels(group.get("labels")), group.optional("other")
    folded = other is not None and other.flag()
    if not folded and set(labels) != set(by):
        group.get("labels").refuse("those of handshakes.by")
    resumption = _added(group, "resumed"), _added(group, "resumption_known")
    parts, facts = _read_parts(group.get("parts")), _read_facts(group.optional("facts"))
    if facts.get(Fact.OFFERED, 0) > parts[Part.WALL].count - facts.get(Fact.UNPHASED, 0):
        facts = {fact: count for fact, count in facts.items() if fact not in _OF_LOOKUPS}
    made = Group(labels, group.get("ending").one_of(Ending), parts, folded, *resumption, facts)
    check_count(group, made.count)
    _check_resumption(group, made)
    _check_facts(group, made)
    return (frozenset(labels.items()), made.ending, folded), made


def _check_resumption(field: DocumentField, group: Group) -> None:
    if group.resumption_known > group.count:
        field.get("resumption_known").contradict(f"at most that of the handshakes, {group.count}")
    if group.resumed > group.resumption_known:
        field.get("resumed").contradict(f"at most resumption_known, {group.resumption_known}")


def _read_facts(facts: DocumentField | None) -> dict[Fact, int]:
    """Return facts that documents of older versions lack."""
    return {member.name().one_of(Fact): member.whole() for _, member in facts.members()} if facts else {}


def _check_facts(field: DocumentField, group: Group) -> None:
    for fact, count in group.facts.items():
        within = WITHIN.get(fact)
        most = group.facts.get(within, 0) if within else group.count
        if fact not in SUMS and count > most:
            field.get("facts").get(fact).contradict(f"at most that of {within or 'the handshakes'}, {most}")


def _read_parts(parts: DocumentField) -> dict[Part, Times]:
    times = {part: _read_times(row) for part, row in _parts(parts).items()}
    count = times[Part.WALL].count
    for part, row in _parts(parts).items():
        if times[part].count > count or (part in EVERY and times[part].count != count):
            row.get("count").contradict(f"{'' if part in EVERY else 'at most '}that of wall, {count}")
    _check_sums(parts, {part: timed.total_ns for part, timed in times.items()})
    return times


def _check_sums(parts: DocumentField, total_ns: Mapping[Part, int]) -> None:
    if wrong := unequal_sum(total_ns):
        parts.contradict(f"times of which {wrong}")


def _read_times(times: DocumentField) -> Times:
    return Times(*read_timed(times))


def _read_cause(cause: DocumentField) -> tuple[object, Cause]:
    why = (
        cause.get("ending").one_of(Ending),
        cause.get("reason").text(),
        cause.get("code").whole(),
        cause.get("library").text(),
        cause.get("alert").text(),
        cause.get("sent").flag(),
        cause.get("state").text(),
    )
    freed = _added_fact(cause, "peer_left"), _added_fact(cause, "undelivered")
    return (*why, *freed), Cause(*why, cause.get("count").whole(), cause.get("total_ns").whole_or_null(), *freed)


def _read_key(use: DocumentField) -> tuple[object, KeyUse]:
    key = use.get("operation").text(), use.get("key").text()
    return key, KeyUse(*key, use.get("count").whole(), use.get("total_ns").whole())


def _read_accept_queue(queue: DocumentField) -> tuple[object, AcceptQueue]:
    place, network = (queue.get("port").whole(), queue.get("address").text()), queue.optional("network")
    limit = queue.optional("limit")
    read = AcceptQueue(
        *place, limit.whole() if limit else None, queue.get("overflows").whole(), network.whole() if network else 0
    )
    return read.identity, read


def _read_single(single: DocumentField) -> Single:
    ended, parts = single.get("ended_s"), single.get("parts_ns")
    if ended.number() >= _YEAR_10000_S:
        ended.refuse("a time before the year 10000")
    times = {part: time.whole() for part, time in _parts(parts).items()}
    _check_sums(parts, times)
    return Single(
        ended.number(),
        single.get("pid").whole(),
        single.get("tid").whole(),
        single.get("comm").text(),
        single.get("ending").one_of(Ending),
        times,
        _read_labels(single.get("labels")),
        single.get("calls").whole(),
        single.get("pauses").whole(),
        single.get("reason").text(),
        single.get("alert").text(),
        single.get("state").text(),
        _added_flag(single, "unphased"),
        _added_fact(single, "peer_left"),
        _added_fact(single, "undelivered"),
    )
