# SPDX-License-Identifier: Apache-2.0
"""Names of GnuTLS' codes. Its numbers never change (gnutls/gnutls.h); the words for errors are those of its constants."""

from __future__ import annotations

from ssllatency import abi
from ssllatency.elf.image import Image
from ssllatency.stacks.gnutls.connection import suites
from ssllatency.stacks.names import ALERTS, GROUPS, Names, own_reasons

_LIBRARY = abi.Error.LIBRARY_GNUTLS
_ALERT_REASONS = 1000  # of the kernel side: an alert that was received, from this number on

# GNUTLS_E_* without the sign.
_ERRORS = {
    8: "unsupported version packet",
    9: "unexpected packet length",
    10: "invalid session",
    12: "fatal alert received",
    15: "unexpected packet",
    16: "warning alert received",
    18: "error in finished packet",
    19: "unexpected handshake packet",
    24: "decryption failed",
    25: "memory error",
    30: "database error",
    32: "insufficient credentials",
    37: "rehandshake",
    38: "got application data",
    43: "certificate error",
    45: "private key decryption failed",
    46: "private key signing failed",
    48: "key usage violation",
    49: "no certificate found",
    50: "invalid request",
    53: "push error",
    54: "pull error",
    55: "received illegal parameter",
    58: "received illegal extension",
    59: "internal error",
    60: "certificate key mismatch",
    61: "unsupported certificate type",
    63: "DH prime unacceptable",
    80: "unknown public key algorithm",
    81: "too many handshake packets",
    82: "received disallowed name",
    87: "no cipher suites",
    89: "signature verification failed",
    93: "no temporary DH parameters",
    100: "MAC verification failed",
    105: "unknown algorithm",
    106: "unsupported signature algorithm",
    107: "safe renegotiation failed",
    108: "unsafe renegotiation denied",
    109: "unknown SRP username",
    110: "premature termination",
    112: "certificate required",
    206: "random failed",
    210: "handshake too large",
    214: "bad cookie",
    217: "insufficient security",
    294: "unrecognized name",
    300: "PKCS #11 error",
    308: "PKCS #11 device error",
    311: "PKCS #11 key error",
    315: "PKCS #11 session error",
    316: "PKCS #11 signature error",
    317: "PKCS #11 token error",
    319: "timed out",
    320: "user error",
    321: "no supported curves",
    322: "unsupported curve",
    325: "illegal parameter",
    326: "no priorities were set",
    328: "session EOF",
    343: "authentication error",
    344: "no application protocol",
    347: "inappropriate fallback",
    348: "certificate verification error",
    349: "private key verification error",
    350: "unexpected extensions length",
    402: "library in error state",
    406: "session user id changed",
    409: "invalid public key",
    410: "invalid private key",
    417: "record overflow",
    419: "incompatible signature with key",
    423: "no common key share",
    424: "reauthentication request",
    427: "missing extension",
    429: "early data rejected",
}
# gnutls_alert_description_t, which are TLS' own numbers.
_ALERTS = {
    **ALERTS,
    21: "decryption failed",
    30: "decompression failure",
    41: "SSL 3.0 no certificate",
    60: "export restriction",
    100: "no renegotiation",
    109: "missing extension",
    110: "unsupported extension",
    111: "certificate unobtainable",
    113: "bad certificate status response",
    115: "unknown PSK identity",
}
# gnutls_sign_algorithm_t, as IANA's registry calls the schemes.
_SIGNATURES = {
    1: "rsa_pkcs1_sha1",
    2: "dsa_sha1",
    6: "rsa_pkcs1_sha256",
    7: "rsa_pkcs1_sha384",
    8: "rsa_pkcs1_sha512",
    12: "ecdsa_sha1",
    14: "ecdsa_sha256",
    15: "ecdsa_sha384",
    16: "ecdsa_sha512",
    32: "rsa_pss_pss_sha256",
    33: "rsa_pss_pss_sha384",
    34: "rsa_pss_pss_sha512",
    35: "ed25519",
    37: "ecdsa_secp256r1_sha256",
    38: "ecdsa_secp384r1_sha384",
    39: "ecdsa_secp521r1_sha512",
    40: "rsa_pss_rsae_sha256",
    41: "rsa_pss_rsae_sha384",
    42: "rsa_pss_rsae_sha512",
    46: "ed448",
}


def names(image: Image) -> Names:
    """The names of its codes, with the cipher suites of this library."""
    return Names(
        reasons=own_reasons(_LIBRARY, _ERRORS, _ALERTS, _ALERT_REASONS),
        libraries={_LIBRARY: "GnuTLS"},
        alerts=_ALERTS,
        ciphers=suites(image),
        groups=GROUPS,
        signatures=_SIGNATURES,
        major=1,
        ssl=_LIBRARY,
        alert_reasons=_ALERT_REASONS,
    )
