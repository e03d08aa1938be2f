# SPDX-License-Identifier: Apache-2.0
"""A certificate's facts, from what was signed of it (RFC 5280's TBSCertificate).

Read here, and not by a library: the packages that read certificates bring an OpenSSL of their own into the tracer, and want the
issuer's signature beside it, which isn't copied. What is asked is little, and whatever isn't as expected is refused.
"""

from __future__ import annotations

from calendar import timegm
from codecs import lookup
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from ssllatency.model.certificates import CertificateFacts, Issuer
from ssllatency.tracing.certificates.der import (
    BIT_STRING,
    GENERALIZED_TIME,
    INTEGER,
    OBJECT_IDENTIFIER,
    OCTET_STRING,
    SEQUENCE,
    SET,
    UTC_TIME,
    DerError,
    Element,
    header_size,
    read,
    whole,
)

LONGEST_NAME = 64
LONGEST_SERIAL = 2 * 32  # hexadecimal digits: RFC 5280 allows 20 bytes
_VERSION, _EXTENSIONS, _DNS_NAME, _ADDRESS = 0xA0, 0xA3, 0x82, 0x87
_MOST_NAMES = 4096
_COMMON_NAME, _ORGANISATION = bytes.fromhex("550403"), bytes.fromhex("55040a")
_ALTERNATIVE_NAMES = bytes.fromhex("551d11")
_RSA = (bytes.fromhex("2a864886f70d010101"), bytes.fromhex("2a864886f70d01010a"))
_ELLIPTIC = bytes.fromhex("2a8648ce3d0201")
_CURVES = {
    bytes.fromhex("2a8648ce3d030107"): "ECDSA P-256",
    bytes.fromhex("2b81040022"): "ECDSA P-384",
    bytes.fromhex("2b81040023"): "ECDSA P-521",
}
_OTHER_KEYS = {
    bytes.fromhex("2b6570"): "Ed25519",
    bytes.fromhex("2b6571"): "Ed448",
    bytes.fromhex("608648016503040311"): "ML-DSA-44",
    bytes.fromhex("608648016503040312"): "ML-DSA-65",
    bytes.fromhex("608648016503040313"): "ML-DSA-87",
}
_ENCODINGS = {0x0C: "utf-8", 0x1E: "utf-16-be", 0x1C: "utf-32-be"}  # of strings; else Latin-1
for _encoding in _ENCODINGS.values():
    lookup(_encoding)  # now: later the process that reads certificates may open no file
_STRINGS = (0x0C, 0x13, 0x14, 0x16, 0x1C, 0x1E)
_LARGEST_RSA_KEY = 1 << 17  # bits


def read_certificate(signed: bytes, signature_length: int) -> CertificateFacts:
    """The certificate of which `signed` was signed, by a signature of so many bytes; with 0, `signed` is all of it. DerError
    for anything else."""
    if not signature_length:
        return replace(_read_signed(_signed_part(signed), 0), size=len(signed))
    return _read_signed(signed, signature_length)


def _signed_part(certificate: bytes) -> bytes:
    """The part of a whole certificate that was signed."""
    element = whole(certificate, SEQUENCE)
    parts = list(element.children())
    if [part.tag for part in parts] != [SEQUENCE, SEQUENCE, BIT_STRING]:
        raise DerError("no certificate")
    return element.content[: parts[0].size]


def _read_signed(signed: bytes, signature_length: int) -> CertificateFacts:
    fields = list(whole(signed, SEQUENCE).children())
    if fields and fields[0].tag == _VERSION:
        del fields[0]
    if [field.tag for field in fields[:6]] != [INTEGER, *[SEQUENCE] * 5]:
        raise DerError("the fields of a certificate are others")
    serial, algorithm, issuer, validity, subject, key, *more = fields
    not_before, not_after = _times(validity)
    alternatives = _alternative_names(more)
    dns_names = [name for name in alternatives if name]
    issuer_names, subject_names = _names(issuer), _names(subject)
    return CertificateFacts(
        name=dns_names[0] if dns_names else subject_names.get(_COMMON_NAME, ""),
        names=len(alternatives),
        not_before_s=not_before,
        not_after_s=not_after,
        issuer=issuer_names.get(_ORGANISATION) or issuer_names.get(_COMMON_NAME, ""),
        issued_by=_issued_by(issuer, subject),
        key=_key(key),
        serial=_serial(serial.content)[:LONGEST_SERIAL],
        size=_size(len(signed), algorithm.size, signature_length),
    )


def _serial(content: bytes) -> str:
    """The number in hexadecimal digits, as `openssl x509 -serial` prints it: without the zero that keeps one whose first bit is
    set from being negative."""
    return (content.removeprefix(b"\0") or content).hex()


def _size(signed: int, algorithm: int, signature: int) -> int:
    """All bytes of the certificate: the algorithm stands behind what was signed once more, then the signature."""
    bits = header_size(1 + signature) + 1 + signature
    content = signed + algorithm + bits
    return header_size(content) + content


def _times(validity: Element) -> tuple[int, int]:
    times = list(validity.children())
    if len(times) != 2:
        raise DerError("no validity")
    return _time(times[0]), _time(times[1])


def _time(element: Element) -> int:
    digits, zone = element.content[:-1].decode("latin-1"), element.content[-1:]
    if zone != b"Z" or not digits.isdecimal() or len(digits) != {UTC_TIME: 12, GENERALIZED_TIME: 14}.get(element.tag):
        raise DerError("no time")
    if element.tag == UTC_TIME:  # RFC 5280, section 4.1.2.5.1
        digits = f"{'19' if digits[0] >= '5' else '20'}{digits}"
    month, day, hour, minute, second = (int(digits[at : at + 2]) for at in range(4, 14, 2))
    try:
        return timegm(datetime(int(digits[:4]), month, day, hour, minute, second).timetuple())
    except ValueError:
        raise DerError("no time") from None


def _attributes(name: Element) -> Iterator[tuple[bytes, Element]]:
    for relative in name.children():
        if relative.tag != SET:
            raise DerError("no name")
        for attribute in relative.children():
            parts = list(attribute.children()) if attribute.tag == SEQUENCE else []
            if len(parts) != 2 or parts[0].tag != OBJECT_IDENTIFIER:
                raise DerError("no name")
            yield parts[0].content, parts[1]


def _names(name: Element) -> dict[bytes, str]:
    """The last of each kind of name, which is the most special."""
    return {kind: _text(value) for kind, value in _attributes(name) if value.tag in _STRINGS}


def _text(value: Element) -> str:
    return readable(value.content.decode(_ENCODINGS.get(value.tag, "latin-1"), "replace"))


def readable(text: str) -> str:
    """The text, cut, with what can't be printed in hexadecimal."""
    cut = f"{text[:LONGEST_NAME]}{'…' if len(text) > LONGEST_NAME else ''}"
    return "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in cut)


def _issued_by(issuer: Element, subject: Element) -> Issuer:
    if issuer.content == subject.content:
        return Issuer.ITSELF
    organisations = [
        [value.content for kind, value in _attributes(name) if kind == _ORGANISATION] for name in (issuer, subject)
    ]
    return Issuer.SAME if organisations[0] and organisations[0] == organisations[1] else Issuer.OTHER


def _alternative_names(more: list[Element]) -> list[str]:
    """The DNS names that the certificate is for, and "" for each address."""
    for field in more:
        if field.tag == _EXTENSIONS:
            for extension in whole(field.content, SEQUENCE).children():
                parts = list(extension.children())
                if parts and parts[0].content == _ALTERNATIVE_NAMES and parts[-1].tag == OCTET_STRING:
                    return list(_general_names(whole(parts[-1].content, SEQUENCE)))
    return []


def _general_names(names: Element) -> Iterator[str]:
    for number, name in enumerate(names.children()):
        if number >= _MOST_NAMES:
            raise DerError("too many names")
        if name.tag == _DNS_NAME:
            yield readable(name.content.decode("latin-1"))
        elif name.tag == _ADDRESS:
            yield ""


def _key(info: Element) -> str:
    """The kind of key, "" for another."""
    parts = list(info.children())
    if [part.tag for part in parts] != [SEQUENCE, BIT_STRING]:
        raise DerError("no key")
    algorithm = list(parts[0].children())
    if not algorithm or algorithm[0].tag != OBJECT_IDENTIFIER:
        raise DerError("no key")
    kind, *parameters = algorithm
    if kind.content in _RSA:
        return f"RSA-{_rsa_bits(parts[1])}"
    if kind.content == _ELLIPTIC:
        return _CURVES.get(parameters[0].content, "ECDSA") if parameters else "ECDSA"
    return _OTHER_KEYS.get(kind.content, "")


def _rsa_bits(key: Element) -> int:
    modulus = read(whole(key.content[1:], SEQUENCE).content)
    bits = int.from_bytes(modulus.content).bit_length()
    if modulus.tag != INTEGER or not 0 < bits < _LARGEST_RSA_KEY:
        raise DerError("no key")
    return bits
