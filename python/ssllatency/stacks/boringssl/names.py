# SPDX-License-Identifier: Apache-2.0
"""Names of the error codes of failed handshakes in BoringSSL and AWS-LC, and of cipher suites, groups and signatures.

Their own tables are packed, and linked only into programs that print errors. The numbers are those of the header openssl/ssl.h,
SSL_R_*, the same in both; the words are spelled as OpenSSL spells its reasons.
"""

from __future__ import annotations

from ssllatency.stacks.names import ALERTS, GROUPS, SIGNATURES, Names

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
# As SSL_CIPHER_get_name gives them, by their numbers in TLS.
CIPHERS = {
    0x000A: "DES-CBC3-SHA",
    0x002F: "AES128-SHA",
    0x0035: "AES256-SHA",
    0x003C: "AES128-SHA256",
    0x003D: "AES256-SHA256",
    0x008C: "PSK-AES128-CBC-SHA",
    0x008D: "PSK-AES256-CBC-SHA",
    0x009C: "AES128-GCM-SHA256",
    0x009D: "AES256-GCM-SHA384",
    0x1301: "TLS_AES_128_GCM_SHA256",
    0x1302: "TLS_AES_256_GCM_SHA384",
    0x1303: "TLS_CHACHA20_POLY1305_SHA256",
    0xC009: "ECDHE-ECDSA-AES128-SHA",
    0xC00A: "ECDHE-ECDSA-AES256-SHA",
    0xC013: "ECDHE-RSA-AES128-SHA",
    0xC014: "ECDHE-RSA-AES256-SHA",
    0xC023: "ECDHE-ECDSA-AES128-SHA256",
    0xC024: "ECDHE-ECDSA-AES256-SHA384",
    0xC027: "ECDHE-RSA-AES128-SHA256",
    0xC028: "ECDHE-RSA-AES256-SHA384",
    0xC02B: "ECDHE-ECDSA-AES128-GCM-SHA256",
    0xC02C: "ECDHE-ECDSA-AES256-GCM-SHA384",
    0xC02F: "ECDHE-RSA-AES128-GCM-SHA256",
    0xC030: "ECDHE-RSA-AES256-GCM-SHA384",
    0xC035: "ECDHE-PSK-AES128-CBC-SHA",
    0xC036: "ECDHE-PSK-AES256-CBC-SHA",
    0xCCA8: "ECDHE-RSA-CHACHA20-POLY1305",
    0xCCA9: "ECDHE-ECDSA-CHACHA20-POLY1305",
    0xCCAC: "ECDHE-PSK-CHACHA20-POLY1305",
}
# Of a group that IANA's registry hasn't, as Cloudflare's BoringSSL numbers it; Rust's package boring brings that.
_OWN_GROUPS = {0xFE32: "P256Kyber768Draft00"}
# AWS-LC's beside the standard ones; the last is an RSA key's of TLS 1.0 and 1.1, which signs over two hashes.
_OWN_SIGNATURES = {0x0904: "mldsa44", 0x0905: "mldsa65", 0x0906: "mldsa87", 0xFF01: "rsa_pkcs1_md5_sha1"}
_CIPHER_BASE = 0x03000000  # OpenSSL's identifiers, which the kernel side makes of them
NAMES = Names(
    {(SSL, number): text for number, text in REASONS.items()},
    LIBRARIES,
    ALERTS,
    ciphers={_CIPHER_BASE | number: name for number, name in CIPHERS.items()},
    groups=GROUPS | _OWN_GROUPS,
    signatures=SIGNATURES | _OWN_SIGNATURES,
    major=1,
    ssl=SSL,
)
