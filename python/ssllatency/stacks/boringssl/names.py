# SPDX-License-Identifier: Apache-2.0
"""Names of the error codes of failed handshakes in BoringSSL and AWS-LC.

Their own tables are packed, and linked only into programs that print errors. The numbers are those of the header openssl/ssl.h,
SSL_R_*, the same in both; the words are spelled as OpenSSL spells its reasons.
"""

from __future__ import annotations

from ssllatency.stacks.names import ALERTS, Names

SSL = 16  # ERR_LIB_SSL of openssl/err.h
LIBRARIES = {
    4: "RSA routines",
    6: "public key routines",
    11: "X.509 routines",
    15: "elliptic curve routines",
    SSL: "SSL routines",
}

REASONS = {
    102: "bad alert",
    103: "bad change cipher spec",
    107: "bad ecc cert",
    108: "bad ecpoint",
    112: "bad packet length",
    114: "bad signature",
    125: "certificate verify failed",
    126: "cert cb error",
    131: "clienthello parse failed",
    136: "data length too long",
    137: "decode error",
    138: "decryption failed",
    139: "decryption failed or bad record mac",
    142: "digest check failed",
    149: "error parsing extension",
    150: "excessive message size",
    155: "https proxy request",
    156: "http request",
    157: "inappropriate fallback",
    174: "no certificate set",
    176: "no ciphers passed",
    182: "no renegotiation",
    184: "no shared cipher",
    190: "parse tlsext",
    192: "peer did not return a certificate",
    194: "protocol is shutdown",
    222: "unexpected extension",
    223: "unexpected message",
    225: "unexpected record",
    227: "unknown alert type",
    236: "unsafe legacy renegotiation disabled",
    240: "unsupported protocol",
    243: "wrong curve",
    245: "wrong signature type",
    246: "wrong ssl version",
    247: "wrong version number",
    253: "no common signature algorithms",
    258: "missing key share",
    259: "invalid alpn protocol",
    264: "duplicate key share",
    266: "no shared group",
    272: "cannot parse leaf cert",
    307: "no application protocol",
    1010: "sslv3 alert unexpected message",
    1020: "sslv3 alert bad record mac",
    1022: "tlsv1 alert record overflow",
    1040: "sslv3 alert handshake failure",
    1042: "sslv3 alert bad certificate",
    1043: "sslv3 alert unsupported certificate",
    1044: "sslv3 alert certificate revoked",
    1045: "sslv3 alert certificate expired",
    1046: "sslv3 alert certificate unknown",
    1047: "sslv3 alert illegal parameter",
    1048: "tlsv1 alert unknown ca",
    1049: "tlsv1 alert access denied",
    1050: "tlsv1 alert decode error",
    1051: "tlsv1 alert decrypt error",
    1070: "tlsv1 alert protocol version",
    1071: "tlsv1 alert insufficient security",
    1080: "tlsv1 alert internal error",
    1086: "tlsv1 alert inappropriate fallback",
    1090: "tlsv1 alert user cancelled",
    1116: "tlsv1 alert certificate required",
    1120: "tlsv1 alert no application protocol",
}
NAMES = Names({(SSL, number): text for number, text in REASONS.items()}, LIBRARIES, ALERTS, major=1, ssl=SSL)
