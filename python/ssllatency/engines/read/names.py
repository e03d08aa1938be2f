# SPDX-License-Identifier: Apache-2.0
"""From the kernel's codes to words: labels, keys and causes, by the names that the target's own library has for them."""

from __future__ import annotations

from ssllatency import abi
from ssllatency.model.handshakes import CLOSED, FREED, GIVEN, LEFT, NO, NOT_ASKED, NOT_GIVEN, YES, Cause, Ending, Label
from ssllatency.stacks.names import Names, pack

ENDINGS = {abi.Ending[ending.name]: ending for ending in Ending}
LABELS = {abi.Label[label.name]: label for label in Label}
CODED = (Label.CIPHER, Label.GROUP, Label.SIGNATURE)  # labels whose absence has a meaning where their place is known
# ProtocolVersion of the RFCs 6101, 2246, 4346, 5246, 8446, 4347 and 6347.
_VERSIONS = {
    0x0300: "SSLv3",
    0x0301: "TLSv1",
    0x0302: "TLSv1.1",
    0x0303: "TLSv1.2",
    0x0304: "TLSv1.3",
    0xFEFF: "DTLSv1",
    0xFEFD: "DTLSv1.2",
}
_CERTIFICATES = {
    abi.ClientCertificate.NOT_ASKED: NOT_ASKED,
    abi.ClientCertificate.NOT_GIVEN: NOT_GIVEN,
    abi.ClientCertificate.GIVEN: GIVEN,
}
# The longest DER signature of each curve: two integers of the order's length, a sign byte where the top bit is in use.
_CURVES = {72: "P-256", 104: "P-384", 139: "P-521"}
_SIGNATURE_KEYS = {
    "ed25519": "Ed25519",
    "ed448": "Ed448",
    "mldsa44": "ML-DSA-44",
    "mldsa65": "ML-DSA-65",
    "mldsa87": "ML-DSA-87",
}
_UNSAID = {abi.End.TRANSPORT: LEFT, abi.End.CLOSED: CLOSED, abi.End.NONE: FREED}
# RFC 8446, section 4.2.3, for libraries that don't name them. With an RSA key TLS 1.0 and 1.1 sign over two hashes, which has
# no code point (RFC 4346, section 7.4.3).
_OLD_SIGNATURES = {0: "rsa_pkcs1_md5_sha1", 0x0201: "rsa_pkcs1_sha1", 0x0202: "dsa_sha1", 0x0203: "ecdsa_sha1"}
# OpenSSL's name of the state in which a server waits for the client's last flight, whether or not any early data is allowed.
_STATES = {"TLSv1.3 early data": "TLSv1.3, before the client's Finished"}
# RFC 8446, section 6, and RFC 9849: those that SSL_alert_desc_string_long doesn't know.
_LATER_ALERTS = {109: "missing extension", 116: "certificate required", 121: "ECH required"}
_MOST_ALERTS = 256


def label_value(label: abi.Label, value: int, names: Names) -> str:
    """A label's value in words; the number where the library has none for it."""
    if label is abi.Label.VERSION:
        return _VERSIONS.get(value, f"0x{value:04x}")
    if label is abi.Label.CIPHER:
        return names.ciphers.get(value, f"0x{value:08x}") if value else "none"
    if label is abi.Label.RESUMED:
        return YES if value else NO
    if label is abi.Label.GROUP:
        return names.groups.get(value, f"0x{value:04x}") if value else "none"
    if label is abi.Label.SIGNATURE:
        return names.signatures.get(value) or _OLD_SIGNATURES.get(value, f"0x{value:04x}")
    return _CERTIFICATES[abi.ClientCertificate(value)]


def key_name(use: abi.KeyUse, names: Names) -> str:
    """The kind of key that an operation was done with, by the signature algorithm and the size; "" if unknown."""
    signature = names.signatures.get(use.signature, "")
    if use.operation == abi.KeyOperation.DECRYPT or signature.startswith("rsa"):
        return f"RSA-{use.bytes * 8}" if use.bytes else "RSA"
    if signature.startswith("ecdsa"):
        return f"ECDSA {_CURVES[use.bytes]}" if use.bytes in _CURVES else "ECDSA"
    return _SIGNATURE_KEYS.get(signature, signature)


def _state(name: str) -> str:
    return _STATES.get(name, name)


def _unnamed_reason(reason: int, alert: str) -> str:
    """One that the library has no text for, but that it is the alert that was received, if that is one."""
    return f"alert {alert.removeprefix('alert ')}" if alert else f"reason {reason}"


def cause(key: abi.CauseKey, tally: abi.Tally, names: Names) -> Cause:
    """Return why handshakes didn't succeed, in words."""
    library, reason = key.error >> abi.Error.LIBRARY, key.error & (1 << abi.Error.REASON_BITS) - 1
    raised = bool(key.error)
    code = pack(library, reason, names.major)
    received = raised and library == names.ssl and 0 <= reason - names.alert_reasons < _MOST_ALERTS
    alert = reason - names.alert_reasons if received else key.alert if key.sent else None
    said = "" if alert is None else names.alerts.get(alert) or _LATER_ALERTS.get(alert, f"alert {alert}")
    text = names.reason(code) or _unnamed_reason(reason, said if received else "")
    return Cause(
        ending=ENDINGS[abi.Ending(key.ending)],
        reason=text if raised else _UNSAID.get(abi.End(key.end), "unknown"),
        code=code if raised else 0,
        library=names.libraries.get(library, f"library {library}") if raised else "",
        alert=said,
        sent=bool(key.sent) and not received,
        state="" if key.state == abi.State.UNKNOWN else _state(names.states.get(key.state, f"state {key.state}")),
        count=tally.count,
        total_ns=tally.total_ns,
        peer_left=bool(key.peer & abi.Peer.LEFT) if key.peer & abi.Peer.KNOWN else None,
        undelivered=bool(key.peer & abi.Peer.UNDELIVERED) if key.peer & abi.Peer.KNOWN else None,
    )
