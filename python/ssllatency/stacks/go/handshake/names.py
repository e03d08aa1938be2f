# SPDX-License-Identifier: Apache-2.0
"""Names of crypto/tls' codes: TLS' own numbers, and the errors that its handshakes fail with, by their types and texts."""

from __future__ import annotations

from collections.abc import Mapping

from ssllatency.abi import Error, GoKey, GoReason
from ssllatency.stacks.go.handshake.texts import TEXTS
from ssllatency.stacks.names import ALERTS, GROUPS, SIGNATURES, Names

_LIBRARY = Error.LIBRARY_GO
_ALERTS = {**ALERTS, 21: "decryption failed", 60: "export restriction", 100: "no renegotiation", 109: "missing extension"}
_ERRORS = {
    "*poll.DeadlineExceededError": "deadline exceeded",
    "*tls.CertificateVerificationError": "certificate verification failed",
    "tls.RecordHeaderError": "first record does not look like TLS",
    "context.deadlineExceededError": "context deadline exceeded",
}
_CIPHERS = {
    0x0005: "TLS_RSA_WITH_RC4_128_SHA",
    0x000A: "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    0x002F: "TLS_RSA_WITH_AES_128_CBC_SHA",
    0x0035: "TLS_RSA_WITH_AES_256_CBC_SHA",
    0x003C: "TLS_RSA_WITH_AES_128_CBC_SHA256",
    0x009C: "TLS_RSA_WITH_AES_128_GCM_SHA256",
    0x009D: "TLS_RSA_WITH_AES_256_GCM_SHA384",
    0x1301: "TLS_AES_128_GCM_SHA256",
    0x1302: "TLS_AES_256_GCM_SHA384",
    0x1303: "TLS_CHACHA20_POLY1305_SHA256",
    0xC007: "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    0xC009: "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    0xC00A: "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    0xC011: "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    0xC012: "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    0xC013: "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    0xC014: "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    0xC023: "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    0xC027: "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    0xC02B: "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    0xC02C: "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    0xC02F: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    0xC030: "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    0xCCA8: "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    0xCCA9: "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
}
_KEYS: dict[int, str] = {
    GoKey.RSA: "rsa",
    GoKey.ECDSA: "ecdsa",
    GoKey.ED25519: "ed25519",
    GoKey.SIGNED: "unknown",
}  # in place of signatures, as the kernel side has them of keys
_CIPHER_BASE = 0x03000000  # OpenSSL's identifiers, which the kernel side makes of them
_FNV_BASIS, _FNV_PRIME = 0x811C9DC5, 0x01000193


def text_hash(text: str) -> int:
    """The number of a text of crypto/tls' own, which begins with "tls: ": as go_text_hash() in bpf/handshakes makes it."""
    value = _FNV_BASIS
    for byte in text.encode()[: GoReason.TEXT_SIZE].ljust(GoReason.TEXT_SIZE, b"\0"):
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return value


def _texts() -> dict[int, str]:
    """The texts by the reasons that stand for them; of several with the same beginning, that."""
    names: dict[int, str] = {}
    for text in TEXTS:
        reason = GoReason.TEXT | text_hash(f"tls: {text}") & GoReason.HASH
        names[reason] = text if reason not in names else f"{text[: GoReason.TEXT_SIZE - len('tls: ')].rstrip()} …"
    return names


def names(error_types: Mapping[int, str]) -> Names:
    """The names of its codes. `error_types`: the names of the types of the program's errors, by their hashes."""
    reasons = {GoReason.ALERT + alert: f"alert received: {text}" for alert, text in _ALERTS.items()}
    reasons |= {GoReason.SENT + alert: text for alert, text in _ALERTS.items()}
    for type_hash, name in error_types.items():
        reasons[GoReason.TYPE | type_hash & GoReason.HASH] = _ERRORS.get(name, f"error of type {name}")
    return Names(
        reasons={(_LIBRARY, code): text for code, text in {**reasons, **_texts()}.items()},
        libraries={_LIBRARY: "crypto/tls"},
        alerts=_ALERTS,
        ciphers={_CIPHER_BASE | number: name for number, name in _CIPHERS.items()},
        groups=GROUPS,
        signatures=_KEYS | SIGNATURES,
        major=3,
        ssl=_LIBRARY,
        alert_reasons=GoReason.ALERT,
    )
