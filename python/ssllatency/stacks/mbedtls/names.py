# SPDX-License-Identifier: Apache-2.0
"""Names of Mbed TLS' codes: the words for errors are those of its constants, which two of its major versions have in common but
for some numbers that mean something else in each; cipher suites are in the library's own table."""

from __future__ import annotations

from ssllatency import abi
from ssllatency.elf.image import Image
from ssllatency.stacks.mbedtls.connection import major_version
from ssllatency.stacks.names import ALERTS, Names, own_reasons
from ssllatency.stacks.rows import TLS, Row, rows_naming, table
from ssllatency.stacks.texts import text_at

_LIBRARY = abi.Error.LIBRARY_MBEDTLS
_ALERT_REASONS = 0x8000  # of the kernel side: an alert that was received, from this number on

# MBEDTLS_ERR_* without the sign: of X.509, keys, and TLS.
_ERRORS = {
    0x0001: "generic error",
    0x006E: "error in data corruption detection",
    0x2080: "X.509: feature unavailable",
    0x2100: "X.509: unknown OID",
    0x2180: "X.509: invalid format",
    0x2200: "X.509: invalid version",
    0x2280: "X.509: invalid serial",
    0x2300: "X.509: invalid algorithm",
    0x2380: "X.509: invalid name",
    0x2400: "X.509: invalid date",
    0x2480: "X.509: invalid signature",
    0x2500: "X.509: invalid extensions",
    0x2580: "X.509: unknown version",
    0x2600: "X.509: unknown signature algorithm",
    0x2680: "X.509: signature mismatch",
    0x2700: "X.509: certificate verification failed",
    0x2780: "X.509: unknown certificate format",
    0x2800: "X.509: bad input data",
    0x2880: "X.509: allocation failed",
    0x3000: "X.509: fatal error",
    0x3880: "key: hardware accelerator failed",
    0x3900: "key: signature length mismatch",
    0x3980: "key: feature unavailable",
    0x3A00: "key: unknown named curve",
    0x3A80: "key: invalid algorithm",
    0x3B00: "key: invalid public key",
    0x3C80: "key: unknown algorithm",
    0x3E80: "key: bad input data",
    0x3F00: "key: type mismatch",
    0x3F80: "key: allocation failed",
    0x4080: "RSA: bad input data",
    0x4100: "RSA: invalid padding",
    0x4180: "RSA: key generation failed",
    0x4200: "RSA: key check failed",
    0x4280: "RSA: public-key operation failed",
    0x4300: "RSA: private-key operation failed",
    0x4380: "RSA: verification failed",
    0x4400: "RSA: output too large",
    0x4480: "RSA: random number generator failed",
    0x4E00: "ECP: verification failed",
    0x4E80: "ECP: feature unavailable",
    0x4C80: "ECP: invalid key",
    0x4D00: "ECP: random number generator failed",
    0x4D80: "ECP: allocation failed",
    0x4F80: "ECP: bad input data",
    0x5E80: "bad configuration",
    0x5F00: "version mismatch",
    0x6000: "unexpected connection ID",
    0x6480: "early message",
    0x6500: "asynchronous operation in progress",
    0x6580: "continue processing",
    0x6680: "non-fatal",
    0x6700: "unexpected record",
    0x6780: "client reconnects",
    0x6800: "timeout",
    0x6880: "want write",
    0x6900: "want read",
    0x6A00: "buffer too small",
    0x6A80: "hello verify required",
    0x6B00: "waiting for a ServerHello of a renegotiation",
    0x6B80: "counter wrapping",
    0x6C00: "internal error",
    0x6C80: "unknown identity",
    0x6D00: "key type mismatch",
    0x6D80: "session ticket expired",
    0x6F80: "hardware accelerator not applicable",
    0x7000: "cryptographic operation in progress",
    0x7080: "feature unavailable",
    0x7100: "bad input data",
    0x7180: "invalid MAC",
    0x7200: "invalid record",
    0x7280: "connection EOF",
    0x7400: "no random number generator",
    0x7480: "no client certificate",
    0x7600: "private key required",
    0x7680: "CA chain required",
    0x7700: "unexpected message",
    0x7780: "fatal alert message",
    0x7880: "peer close notify",
    0x7F00: "allocation failed",
    0x7F80: "hardware accelerator failed",
}
# Those that the other major version doesn't have, or means something else by.
_ERRORS_2 = {
    0x6600: "invalid verify hash",
    0x6980: "no usable cipher suite",
    0x6E00: "bad NewSessionTicket",
    0x6E80: "bad protocol version",
    0x6F00: "compression failed",
    0x7300: "unknown cipher",
    0x7380: "no cipher chosen",
    0x7500: "certificate too large",
    0x7580: "certificate required",
    0x7800: "peer verification failed",
    0x7900: "bad ClientHello",
    0x7980: "bad ServerHello",
    0x7A00: "bad certificate",
    0x7A80: "bad certificate request",
    0x7B00: "bad ServerKeyExchange",
    0x7B80: "bad ServerHelloDone",
    0x7C00: "bad ClientKeyExchange",
    0x7C80: "bad ClientKeyExchange: reading the public key",
    0x7D00: "bad ClientKeyExchange: computing the secret",
    0x7D80: "bad CertificateVerify",
    0x7E00: "bad ChangeCipherSpec",
    0x7E80: "bad Finished",
}
_ERRORS_3 = {
    0x5D80: "certificate verification without hostname",
    0x6600: "illegal parameter",
    0x6E00: "handshake failure",
    0x6E80: "bad protocol version",
    0x7300: "decode error",
    0x7500: "unsupported extension",
    0x7580: "no application protocol",
    0x7800: "unrecognized name",
    0x7A00: "bad certificate",
    0x7B00: "received NewSessionTicket",
    0x7B80: "cannot read early data",
    0x7C00: "received early data",
    0x7C80: "cannot write early data",
    0x7E80: "cache entry not found",
}
_OF_MAJOR = {2: _ERRORS_2, 3: _ERRORS_3}
# MBEDTLS_SSL_ALERT_MSG_*, which are TLS' own numbers.
_ALERTS = {
    **ALERTS,
    21: "decryption failed",
    30: "decompression failure",
    41: "SSL 3.0 no certificate",
    60: "export restriction",
    100: "no renegotiation",
    109: "missing extension",
}
# Cipher suites of which the table has at least one, by their numbers in TLS.
_SUITES = {
    b"TLS-ECDHE-RSA-WITH-AES-128-GCM-SHA256": 0xC02F,
    b"TLS-ECDHE-ECDSA-WITH-AES-128-GCM-SHA256": 0xC02B,
    b"TLS-RSA-WITH-AES-128-GCM-SHA256": 0x009C,
    b"TLS1-3-AES-128-GCM-SHA256": 0x1301,
}
_NAME = 8  # bytes into an entry of the table, behind the number


def names(image: Image) -> Names:
    """The names of its codes, with the cipher suites of this library."""
    errors = {**_ERRORS, **_OF_MAJOR.get(major_version(image), {})}
    return Names(
        reasons=own_reasons(_LIBRARY, errors, _ALERTS, _ALERT_REASONS),
        libraries={_LIBRARY: "Mbed TLS"},
        alerts=_ALERTS,
        ciphers=suites(image),
        major=3,
        ssl=_LIBRARY,
        alert_reasons=_ALERT_REASONS,
    )


def suites(image: Image) -> dict[int, str]:
    """The names of cipher suites by their 32-bit identifiers, 0x0300 and TLS' number."""

    def read(start: int) -> Row | None:
        number, text = image.constant(start, 4), text_at(image, start + _NAME)
        return (TLS | number, text) if number and number < 1 << 16 and text.startswith("TLS") else None

    starts = [
        start
        for text, number in _SUITES.items()
        for start in rows_naming(image, text, _NAME)
        if image.constant(start, 4) == number
    ]
    return table(read, starts[:1])
