# SPDX-License-Identifier: Apache-2.0
"""The certificates that servers served, in words: when each expires, its key and issuer, its size, where and how often."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from ssllatency.data_class import dataclass
from ssllatency.model.certificates import CertificateFacts, Issuer, ServedCertificate, without_processes
from ssllatency.model.handshakes import NONE, Handshakes
from ssllatency.units import counted

_DAY_S, _HOUR_S = 86_400, 3_600
SOON_S = 21 * _DAY_S
_UNREAD = "could not be read"


@dataclass(frozen=True)
class CertificateRow:
    """One certificate at one place. `facts` are phrases; `is_bad`: it has expired or isn't valid yet, `is_soon`: it expires
    within three weeks of when it was served last."""

    name: str
    where: str
    facts: tuple[str, ...]
    count: str
    is_bad: bool
    is_soon: bool


def certificates(handshakes: Handshakes, before: Handshakes | None = None) -> list[CertificateRow]:
    """A row for each, whoever served it, the first to expire first; without those that were served there `before` as well."""
    known = {one.identity for one in without_processes((before and before.certificates) or ())}
    return [_row(one) for one in without_processes(handshakes.certificates or ()) if one.identity not in known]


def untold_sentence(handshakes: Handshakes) -> str:
    """The sentence about handshakes that count at no certificate, "" where all do."""
    untold = handshakes.certificates_untold + handshakes.certificates_pending
    return f"Certificates: those of {counted(untold, 'full handshake')} aren't listed." if untold else ""


def _row(one: ServedCertificate) -> CertificateRow:
    certificate = one.certificate
    left_s = certificate.not_after_s - one.last_s if certificate else None
    is_early = certificate is not None and certificate.not_before_s > one.last_s
    return CertificateRow(
        name=_name(certificate) if certificate else "a certificate",
        where=_where(one),
        facts=tuple(_facts(certificate, one)) if certificate else (_UNREAD,),
        count=_count(one),
        is_bad=is_early or (left_s is not None and left_s < 0),
        is_soon=left_s is not None and 0 <= left_s < SOON_S,
    )


def _name(certificate: CertificateFacts) -> str:
    more = certificate.names - 1
    return f"{certificate.name or 'without a name'}{f' and {more} more' if more > 0 else ''}"


def _where(one: ServedCertificate) -> str:
    port = f"port {one.port}" if one.port else ""
    name = "no name" if one.server_name == NONE else one.server_name
    return ", ".join(filter(None, (port, f"asked for {name}" if name else "")))


def _count(one: ServedCertificate) -> str:
    failed = f", {one.unsuccessful} of them unsuccessful" if one.unsuccessful else ""
    return f"{counted(one.count, 'full handshake')}{failed}"


def _facts(certificate: CertificateFacts, one: ServedCertificate) -> Iterator[str]:
    yield _validity(certificate, one.last_s)
    yield certificate.key or "key of another kind"
    yield _issuer(certificate)
    yield f"{certificate.size:,} bytes"
    if one.chain is not None:
        together = f", {one.chain_bytes:,} bytes in all" if one.chain_bytes else ""
        yield f"sent with {one.chain} more{together}" if one.chain else "sent alone"


def _validity(certificate: CertificateFacts, at_s: float) -> str:
    """Relative to when it was served last, which a report of last year's recording is about."""
    if certificate.not_before_s > at_s:
        return f"not valid before {_date(certificate.not_before_s)}"
    left_s = certificate.not_after_s - at_s
    if left_s < 0:
        return f"expired {_span(-left_s)} before ({_date(certificate.not_after_s)})"
    return f"expires in {_span(left_s)} ({_date(certificate.not_after_s)})"


def _span(seconds: float) -> str:
    if seconds < 2 * _DAY_S:
        return counted(int(seconds // _HOUR_S), "hour")
    return counted(int(seconds // _DAY_S), "day")


def _date(at_s: int) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d}"


def _issuer(certificate: CertificateFacts) -> str:
    if certificate.issued_by is Issuer.ITSELF:
        return "issued by itself"
    issuer = certificate.issuer or "another"
    return f"issued by {issuer}, its own organisation" if certificate.issued_by is Issuer.SAME else f"issued by {issuer}"
