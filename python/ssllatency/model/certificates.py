# SPDX-License-Identifier: Apache-2.0
"""The certificates that servers were seen to serve, as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache

from ssllatency.data_class import dataclass
from ssllatency.model.process_label import ProcessLabel

EARLIEST_S, LATEST_S = -62_135_596_800, 253_402_300_800  # the years 1 and 10000
SignedPart = tuple[bytes, int]  # what was signed of a certificate, and the length of its signature

_MOST_TEXTS = 4096  # of certificates, that needn't be made again


class Issuer(StrEnum):
    """The issuer of a certificate, as far as it shows by itself: ITSELF where issuer and subject are the same name, SAME
    where they are of the same organisation, else OTHER. Signatures aren't checked."""

    ITSELF = "itself"
    SAME = "same organisation"
    OTHER = "other"


@dataclass(frozen=True)
class CertificateFacts:
    """A certificate, as far as its own text shows it. `name` is the first DNS name that it is for, or the subject's common
    name, "" where it has neither; of `names` in all. Times are seconds since the Unix epoch. `issuer` is the organisation that
    issued it, or the issuer's common name. `key` is called as private keys are ("RSA-2048", "ECDSA P-256"), "" if unknown.
    `serial`: hexadecimal. `size`: bytes, as it is sent."""

    name: str
    names: int
    not_before_s: int
    not_after_s: int
    issuer: str
    issued_by: Issuer
    key: str
    serial: str
    size: int


@dataclass(frozen=True)
class ServedCertificate:
    """The full handshakes of servers that served a certificate at one port to whoever asked for one name.

    `process` where handshakes are told apart by it. `port`: 0 where it isn't known. `server_name`: what clients asked for,
    "none" for nothing; None where that wasn't looked at. `certificate`: None for one that couldn't be read, or is too long to
    be. `chain`: how many certificates were sent with it the last time, None where that isn't known. `unsuccessful`: those of
    `count` that didn't succeed. `last_s`: when it was served last, seconds since the Unix epoch. `chain_bytes`: the bytes of
    all that were sent the last time, itself included; None where that isn't known.
    """

    port: int
    server_name: str | None
    certificate: CertificateFacts | None
    chain: int | None
    count: int
    unsuccessful: int
    last_s: float
    process: ProcessLabel | None = None
    chain_bytes: int | None = None

    @property
    def identity(self) -> tuple[object, ...]:
        """The key that tells it apart."""
        process = self.process.identity if self.process else None
        return process, self.port, self.server_name, self.certificate


def summed(served: Iterable[ServedCertificate]) -> tuple[ServedCertificate, ...]:
    """Alike ones added up; those that expire first come first."""
    known: dict[tuple[object, ...], ServedCertificate] = {}
    for one in served:
        identity = one.identity
        before = known.get(identity)
        known[identity] = _added(before, one) if before else one
    return tuple(sorted(known.values(), key=_order))


def since(
    later: Iterable[ServedCertificate] | None, earlier: Iterable[ServedCertificate] | None
) -> tuple[ServedCertificate, ...] | None:
    """Those that were served in between."""
    if later is None:
        return None
    before = {one.identity: one for one in earlier or ()}
    between = (_difference(one, before[one.identity]) if one.identity in before else one for one in later)
    return tuple(one for one in between if one.count)


def without_processes(served: Iterable[ServedCertificate]) -> tuple[ServedCertificate, ...]:
    """The certificates, summed over the processes that served them."""
    return summed(replace(one, process=None) for one in served)


def _added(one: ServedCertificate, other: ServedCertificate) -> ServedCertificate:
    count, unsuccessful = one.count + other.count, one.unsuccessful + other.unsuccessful
    newer = max(one, other, key=lambda each: each.last_s)
    return replace(newer, count=count, unsuccessful=unsuccessful)


def _difference(later: ServedCertificate, earlier: ServedCertificate) -> ServedCertificate:
    count = max(0, later.count - earlier.count)
    return replace(later, count=count, unsuccessful=min(count, max(0, later.unsuccessful - earlier.unsuccessful)))


def _order(one: ServedCertificate) -> tuple[object, ...]:
    expires = one.certificate.not_after_s if one.certificate else 1 << 62
    process = one.process.identity if one.process else ()
    return expires, one.port, one.server_name or "", -one.count, str(process), _text(one.certificate), one.chain or -1


@lru_cache(_MOST_TEXTS)
def _text(certificate: CertificateFacts | None) -> str:
    """Its facts in words: the same again of the few that a host has, as it takes long to make."""
    return str(certificate)
