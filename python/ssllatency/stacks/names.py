# SPDX-License-Identifier: Apache-2.0
"""Names for the codes that a TLS library uses, as `openssl errstr` or an alert's text would print them.

What a library doesn't have, or doesn't show, is absent; libssl and libcrypto have different parts, which join() puts together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ssllatency.data_class import dataclass

# OpenSSL 1.1.1's short names of curves that IANA's registry of groups spells otherwise.
_IANA = {"prime192v1": "secp192r1", "prime256v1": "secp256r1", "X25519": "x25519", "X448": "x448"}

# AlertDescription of RFC 8446, section 6, as OpenSSL names those alerts: for libraries that show no names of theirs.
ALERTS = {
    0: "close notify",
    10: "unexpected message",
    20: "bad record mac",
    22: "record overflow",
    40: "handshake failure",
    42: "bad certificate",
    43: "unsupported certificate",
    44: "certificate revoked",
    45: "certificate expired",
    46: "certificate unknown",
    47: "illegal parameter",
    48: "unknown CA",
    49: "access denied",
    50: "decode error",
    51: "decrypt error",
    70: "protocol version",
    71: "insufficient security",
    80: "internal error",
    86: "inappropriate fallback",
    90: "user canceled",
    110: "unsupported extension",
    112: "unrecognized name",
    113: "bad certificate status response",
    115: "unknown PSK identity",
    116: "certificate required",
    120: "no application protocol",
    121: "ECH required",
}

# SignatureScheme of RFC 8446, section 4.2.3, for libraries that show no names of theirs.
SIGNATURES = {
    0x0201: "rsa_pkcs1_sha1",
    0x0203: "ecdsa_sha1",
    0x0401: "rsa_pkcs1_sha256",
    0x0403: "ecdsa_secp256r1_sha256",
    0x0501: "rsa_pkcs1_sha384",
    0x0503: "ecdsa_secp384r1_sha384",
    0x0601: "rsa_pkcs1_sha512",
    0x0603: "ecdsa_secp521r1_sha512",
    0x0804: "rsa_pss_rsae_sha256",
    0x0805: "rsa_pss_rsae_sha384",
    0x0806: "rsa_pss_rsae_sha512",
    0x0807: "ed25519",
}

# IANA's registry of groups, for libraries that show no names of theirs.
GROUPS = {
    19: "secp192r1",
    21: "secp224r1",
    23: "secp256r1",
    24: "secp384r1",
    25: "secp521r1",
    29: "x25519",
    30: "x448",
    256: "ffdhe2048",
    257: "ffdhe3072",
    258: "ffdhe4096",
    259: "ffdhe6144",
    260: "ffdhe8192",
    512: "MLKEM512",
    513: "MLKEM768",
    514: "MLKEM1024",
    4587: "SecP256r1MLKEM768",
    4588: "X25519MLKEM768",
    4589: "SecP384r1MLKEM1024",
    25497: "X25519Kyber768Draft00",
    25498: "SecP256r1Kyber768Draft00",
}


@dataclass(frozen=True)
class Names:
    """The names of codes in one library, or in the libraries of one process."""

    reasons: Mapping[tuple[int, int], str] = field(default_factory=dict)
    """(library, reason) to its text; library 0 has the reasons that all libraries share."""
    libraries: Mapping[int, str] = field(default_factory=dict)
    """The number of a part of OpenSSL, as 20, to its name, "SSL routines"."""
    alerts: Mapping[int, str] = field(default_factory=dict)
    """The number of a TLS alert to its description."""
    states: Mapping[int, str] = field(default_factory=dict)
    """OSSL_HANDSHAKE_STATE to the text of SSL_state_string_long."""
    ciphers: Mapping[int, str] = field(default_factory=dict)
    """The 32-bit identifier of a cipher, 0x0300 and its number in TLS, to its name as SSL_CIPHER_get_name gives it."""
    groups: Mapping[int, str] = field(default_factory=dict)
    """The IANA number of a group to its name."""
    signatures: Mapping[int, str] = field(default_factory=dict)
    """The code point of a signature scheme to its name."""
    major: int = 0
    """How error codes are packed, for unpack(): 3 or 1; 0 where that isn't known."""
    ssl: int = 20
    """The number that libssl's own errors have as their library's."""
    alert_reasons: int = 1000
    """That of its reasons which is alert 0, received from the peer; each alert has one from there on (SSL_AD_REASON_OFFSET)."""
    curves: Mapping[int, int] = field(default_factory=dict)
    """OpenSSL 1.1.1's libssl: the IANA number of a group to the NID of its curve, which join() needs."""
    objects: Mapping[int, str] = field(default_factory=dict)
    """OpenSSL 1.1.1's libcrypto: the NID of an object to its short name, which join() needs."""

    def reason(self, code: int) -> str:
        """The text of the packed error code, "" if it has none or `major` isn't known."""
        if not self.major:
            return ""
        library, reason = unpack(code, self.major)
        return self.reasons.get((library, reason)) or self.reasons.get((0, reason), "")


def unpack(code: int, major: int) -> tuple[int, int]:
    """(library, reason) of a packed error code; `major` as in Names. OpenSSL 3 marks an errno with bit 31: library 2."""
    if major == 3:
        return (2, code & 0x7FFFFFFF) if code >> 31 & 1 else (code >> 23 & 0xFF, code & 0x7FFFFF)
    return code >> 24 & 0xFF, code & 0xFFF


def pack(library: int, reason: int, major: int) -> int:
    """The error code that unpack() takes apart; where `major` is unknown, as OpenSSL 3 packs it."""
    return library << (24 if major == 1 else 23) | reason


def join(first: Names, other: Names) -> Names:
    """The names of both; where both name a code, the name from `first`."""
    curves, objects = {**other.curves, **first.curves}, {**other.objects, **first.objects}
    return Names(
        reasons={**other.reasons, **first.reasons},
        libraries={**other.libraries, **first.libraries},
        alerts={**other.alerts, **first.alerts},
        states={**other.states, **first.states},
        ciphers={**other.ciphers, **first.ciphers},
        groups={**_groups_of(curves, objects), **other.groups, **first.groups},
        signatures={**other.signatures, **first.signatures},
        major=first.major or other.major,
        ssl=first.ssl if first.major else other.ssl,
        alert_reasons=first.alert_reasons if first.major else other.alert_reasons,
        curves=curves,
        objects=objects,
    )


def _groups_of(curves: Mapping[int, int], objects: Mapping[int, str]) -> dict[int, str]:
    names = {number: objects[nid] for number, nid in curves.items() if nid in objects}
    return {number: _IANA.get(name, name) for number, name in names.items()}


def own_reasons(
    library: int, errors: Mapping[int, str], alerts: Mapping[int, str], first_alert: int
) -> dict[tuple[int, int], str]:
    """The words for the reasons of a library whose calls tell their errors themselves: its codes, and from `first_alert` on the
    alerts that were received."""
    received = {first_alert + alert: f"alert received: {text}" for alert, text in alerts.items()}
    return {(library, code): text for code, text in {**errors, **received}.items()}
