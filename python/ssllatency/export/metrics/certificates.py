# SPDX-License-Identifier: Apache-2.0
"""Times at which certificates expire: of each service, port and name the first, of what its processes serve now."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from ssllatency.export.metrics import families as names
from ssllatency.export.metrics.ledger import Known
from ssllatency.export.metrics.points import Labels, labels
from ssllatency.model.certificates import CertificateFacts, ServedCertificate

FAMILY = "ssllatency.certificate.not_after_timestamp"
# What wasn't served for so long, while others were at the same port of the service, is taken to be served no more: another with
# other names or another kind of key has replaced it, its name is gone, or its process accepts no more connections.
_A_WHILE_S = 3600.0
# The same beside one that can't be read, which may have replaced it, or be served as well, with another kind of key; only where
# names that were asked for are told apart: else it may be that of another name.
_A_LITTLE_S = 300.0
# So many series of a service: certificates of its making are no reason why others' counts have no room.
_MOST_OF_SERVICE = 64
_CLOCKS_S = 1.0  # by so much the times of handshakes and of starts may differ, which are told by other clocks
_Found = tuple[Labels, int, ServedCertificate]


def expiries(
    served: Iterable[ServedCertificate], known: Callable[[int], Known | None], boot_s: float
) -> Iterator[tuple[str, Labels, float]]:
    """Family, labels and value: of each process what it served last, and of these the first to expire; of each service those
    that expire first. `known` tells of a process, None where it isn't there any more: what it served isn't served now.
    `boot_s`: when the machine was started, by the clock of what was served."""
    last: dict[tuple[int, Labels, Labels], ServedCertificate] = {}
    first: dict[tuple[Labels, Labels], float] = {}
    for service, pid, one in _current(list(_of_services(served, known, boot_s))):
        if one.certificate:
            place = pid, service, _own(one, one.certificate)
            if place not in last or last[place].last_s < one.last_s:
                last[place] = one
    for (_, service, own), one in last.items():
        if one.certificate:
            first[service, own] = min(first.get((service, own), float("inf")), one.certificate.not_after_s)
    listed = Counter[Labels]()
    for not_after_s, service, own in sorted((not_after_s, *place) for place, not_after_s in first.items()):
        listed[service] += 1
        if listed[service] <= _MOST_OF_SERVICE:
            yield FAMILY, labels(dict((*service, *own))), not_after_s


def _of_services(served: Iterable[ServedCertificate], known: Callable[[int], Known | None], boot_s: float) -> Iterator[_Found]:
    for one in served:
        process = known(one.process.pid) if one.process else None
        if process is None or one.process is None:
            continue
        if one.last_s + _CLOCKS_S >= boot_s + process.started / os.sysconf("SC_CLK_TCK"):  # else another of that PID served it
            yield process.labels, one.process.pid, one


def _current(found: list[_Found]) -> Iterator[_Found]:
    """Those that are served still, as far as that shows."""
    newest: dict[tuple[Labels, int], float] = {}
    unread: dict[tuple[int, int, str | None], float] = {}
    for service, pid, one in found:
        newest[service, one.port] = max(newest.get((service, one.port), 0.0), one.last_s)
        if one.certificate is None and one.server_name is not None:
            place = pid, one.port, one.server_name
            unread[place] = max(unread.get(place, 0.0), one.last_s)
    for service, pid, one in found:
        if one.last_s >= max(
            newest[service, one.port] - _A_WHILE_S, unread.get((pid, one.port, one.server_name), 0.0) - _A_LITTLE_S
        ):
            yield service, pid, one


def _own(one: ServedCertificate, certificate: CertificateFacts) -> Labels:
    """A server may serve one certificate for each kind of key."""
    kind = "RSA" if certificate.key.startswith("RSA-") else certificate.key.partition(" ")[0]
    asked = one.server_name or ""
    port = str(one.port) if one.port else ""
    return labels({names.PORT: port, names.SUBJECT: certificate.name, names.KEY: kind, names.SERVER_NAME: asked})
