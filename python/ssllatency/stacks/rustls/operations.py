# SPDX-License-Identifier: Apache-2.0
"""The functions of rustls, and of what it does cryptography by, that can be timed.

What rustls' own return is a Result, whose layout is the compiler's choice: how a call ended isn't known. AWS-LC's return 1
where they succeed, as libcrypto's.
"""

from __future__ import annotations

from ssllatency.abi import Convention
from ssllatency.stacks.operation import Operation

RUSTLS, RING, AWS_LC_RS = "rustls", "ring", "aws-lc-rs"
AWS_LC = "aws_lc_"
AWS_LC_SIGN = "EVP_DigestSign"

CLIENT_HELLO = "rustls::server::hs::ExpectClientHello::handle"
TLS13_FINISHED = "rustls::server::tls13::ExpectFinished::handle"
TLS12_FINISHED = "rustls::server::tls12::ExpectFinished::handle"
HANDLED = (CLIENT_HELLO, TLS13_FINISHED, TLS12_FINISHED)
"""The messages of handshakes that are handled, the latter two a handshake's last one."""
RSA_SIGN = "rustls::crypto::ring::sign::RsaSigner::sign"
ECDSA_SIGN = "rustls::crypto::ring::sign::EcdsaSigner::sign"
ED25519_SIGN = "rustls::crypto::ring::sign::Ed25519Signer::sign"
SIGNED = (RSA_SIGN, ECDSA_SIGN, ED25519_SIGN)
AGREE = "ring::agreement::agree_ephemeral"


def _rust(name: str, library: str) -> Operation:
    """Never with a return probe: a panic that unwinds past one ends the process."""
    return Operation(name, library, Convention.NONE)


def _aws_lc(function: str, skip_null: int | None = None) -> Operation:
    """A NULL buffer asks for the size and is not counted."""
    return Operation(f"{AWS_LC}{function}", AWS_LC_RS, Convention.ONE, async_job=False, skip_null=skip_null)


OPERATIONS: tuple[Operation, ...] = (
    *(_rust(name, RUSTLS) for name in HANDLED),
    *(_rust(name, RING) for name in (*SIGNED, AGREE)),
    # Signatures by any key, and what they are made by, which tells the key's kind.
    _aws_lc(AWS_LC_SIGN, 1),
    _aws_lc("RSA_sign"),
    _aws_lc("RSA_sign_pss_mgf1"),
    _aws_lc("ECDSA_sign"),
    # The peer's signatures, also those of its certificates.
    _aws_lc("EVP_DigestVerify"),
    # Key exchange. Of a key encapsulation, the server has the former and the client the latter.
    _aws_lc("EVP_PKEY_keygen"),
    _aws_lc("EVP_PKEY_derive", 1),
    _aws_lc("EVP_PKEY_encapsulate", 1),
    _aws_lc("EVP_PKEY_decapsulate", 1),
)
