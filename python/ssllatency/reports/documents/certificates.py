# SPDX-License-Identifier: Apache-2.0
"""The certificates that were served, as the JSON document has them, and back."""

from __future__ import annotations

from dataclasses import asdict

from ssllatency.model.certificates import EARLIEST_S, LATEST_S, CertificateFacts, Issuer, ServedCertificate
from ssllatency.model.handshakes import Handshakes
from ssllatency.model.process_label import ProcessLabel
from ssllatency.reports.documents.fields import DocumentField


def certificate_fields(handshakes: Handshakes) -> dict[str, object]:
    """Nothing where they aren't known."""
    if handshakes.certificates is None:
        return {}
    served = [_served(one) for one in handshakes.certificates]
    pending = {"certificates_pending": handshakes.certificates_pending} if handshakes.certificates_pending else {}
    return {"certificates": served, "certificates_untold": handshakes.certificates_untold, **pending}


def _served(one: ServedCertificate) -> dict[str, object]:
    """Members that aren't known are left out."""
    certificate = one.certificate
    fields = {
        "process": str(one.process) if one.process else None,
        "port": one.port or None,
        "server_name": one.server_name,
        "certificate": {**asdict(certificate), "issued_by": str(certificate.issued_by)} if certificate else None,
        "chain": one.chain,
        "chain_bytes": one.chain_bytes,
        "count": one.count,
        "unsuccessful": one.unsuccessful,
        "last_s": one.last_s,
    }
    return {name: value for name, value in fields.items() if value is not None}


def read_certificates(handshakes: DocumentField) -> tuple[ServedCertificate, ...] | None:
    """Those of a document, None where it has none. Raises SsllatencyError with the field that is wrong."""
    served = handshakes.optional("certificates")
    return served.rows(_read_served, "process, port, name and certificate") if served else None


def _read_served(served: DocumentField) -> tuple[object, ServedCertificate]:
    process, port, name = served.optional("process"), served.optional("port"), served.optional("server_name")
    certificate, chain = served.optional("certificate"), served.optional("chain")
    chain_bytes = served.optional("chain_bytes")
    count = served.get("count").whole()
    unsuccessful = served.get("unsuccessful")
    if unsuccessful.whole() > count:
        unsuccessful.contradict("at most count")
    one = ServedCertificate(
        port=port.whole(1 << 16) if port else 0,
        server_name=name.text() if name else None,
        certificate=_read_certificate(certificate) if certificate else None,
        chain=chain.whole() if chain else None,
        count=count,
        unsuccessful=unsuccessful.whole(),
        last_s=served.get("last_s").number(),
        process=ProcessLabel.from_text(process.text()) if process else None,
        chain_bytes=chain_bytes.whole() if chain_bytes else None,
    )
    return one.identity, one


def _read_certificate(certificate: DocumentField) -> CertificateFacts:
    return CertificateFacts(
        name=certificate.get("name").text(),
        names=certificate.get("names").whole(),
        not_before_s=_time(certificate.get("not_before_s")),
        not_after_s=_time(certificate.get("not_after_s")),
        issuer=certificate.get("issuer").text(),
        issued_by=certificate.get("issued_by").one_of(Issuer),
        key=certificate.get("key").text(),
        serial=certificate.get("serial").text(),
        size=certificate.get("size").whole(),
    )


def _time(field: DocumentField) -> int:
    return value if EARLIEST_S <= (value := field.integer()) < LATEST_S else field.refuse("a time before the year 10000")
