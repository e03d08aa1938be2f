# SPDX-License-Identifier: Apache-2.0
"""Times at which certificates expire: of each service, port and name that of the one that was served last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ssllatency.export.metrics import families as names
from ssllatency.export.metrics.points import Labels, labels
from ssllatency.model.certificates import CertificateFacts, ServedCertificate

FAMILY = "ssllatency.certificate.not_after_timestamp"
_Place = tuple[Labels, Labels]


def expiries(
    served: Iterable[ServedCertificate], service_of: Callable[[int], Labels | None]
) -> Iterator[tuple[str, Labels, float]]:
    """Family, labels and value. `service_of`: the labels of a process's service, None where it isn't there any more: what it
    served isn't served now."""
    last: dict[_Place, ServedCertificate] = {}
    for one in served:
        service = service_of(one.process.pid) if one.process else None
        if service is None or one.certificate is None:
            continue
        place = service, _own(one, one.certificate)
        if place not in last or last[place].last_s < one.last_s:
            last[place] = one
    for (service, own), one in last.items():
        if one.certificate:
            yield FAMILY, labels(dict((*service, *own))), one.certificate.not_after_s


def _own(one: ServedCertificate, certificate: CertificateFacts) -> Labels:
    """A server may serve one certificate for each kind of key."""
    kind = certificate.key.partition(" ")[0].partition("-")[0]
    asked = one.server_name or ""
    port = str(one.port) if one.port else ""
    return labels({names.PORT: port, names.SUBJECT: certificate.name, names.KEY: kind, names.SERVER_NAME: asked})
