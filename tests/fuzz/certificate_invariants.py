# SPDX-License-Identifier: Apache-2.0
"""What must hold of the certificates that targets serve: they are refused, or read within bounds."""

from __future__ import annotations

from ssllatency.tracing.certificates.der import DerError
from ssllatency.tracing.certificates.process import answer_to, certificate_of
from ssllatency.tracing.certificates.reading import read_certificate
from tests.fixtures import certificates as made
from tests.fixtures.certificates import element


def check_certificate(data: bytes) -> None:
    """What is read of it can be printed, and passes for what the process that reads may answer: of what was signed of it, and
    of the whole."""
    for signature in (72, 0):
        try:
            read = read_certificate(data, signature)
        except DerError:
            assert certificate_of(answer_to(data, signature)) is None
            continue
        assert all(text.isprintable() for text in (read.name, read.issuer, read.key, read.serial))
        assert certificate_of(answer_to(data, signature)) == read


def certificates() -> list[bytes]:
    """Of each kind of key, with names and without."""
    names = made.alternative_names(element(0x82, b"a.example"), element(0x82, b"*.b.example"), element(0x87, bytes(4)))
    other = made.name((made.ORGANISATION, "Élan".encode()), (made.COMMON_NAME, b"R 1"))
    curve = made.signed(more=names, issuer=other)
    lying = made.signed(key=made.NO_ALGORITHM)
    whole = element(0x30, curve + element(0x30) + element(0x03, bytes(73)))
    rsa = made.signed(key=made.rsa_key(2048), more=names)
    return [whole, curve, rsa, made.signed(issuer=made.name(), subject=other), lying]
