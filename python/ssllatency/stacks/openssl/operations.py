# SPDX-License-Identifier: Apache-2.0
"""Every operation of OpenSSL, and of the libraries that its engines bring, that can be timed: one table.

Names are OpenSSL's own (openssl/ssl.h, crypto/rsa/rsa_ossl.c, crypto/ec/, providers/implementations/), Intel's
(crypto_mb/*.h) and QAT_Engine's (qat_sw_*.c). A provider function has the name that it has in OpenSSL's source.
"""

from __future__ import annotations

from dataclasses import replace

from ssllatency.abi import Convention
from ssllatency.stacks.operation import MethodSlot, Operation, ProviderSlot, Tier


def _ssl(name: str, convention: Convention, length_argument: int | None = None, tier: Tier = Tier.HANDSHAKE) -> Operation:
    return Operation(
        name, "libssl", convention, (name,), ssl_argument=True, async_job=False, length_argument=length_argument, tier=tier
    )


def _data(name: str, convention: Convention, length_argument: int | None = None) -> Operation:
    return _ssl(name, convention, length_argument, Tier.DATA)


def _rsa(name: str, offset: int, *older: str) -> Operation:
    return Operation(name, "libcrypto", Convention.LENGTH, (name, *older), MethodSlot("RSA_METHOD", offset))


def _ec(name: str, offset: int, convention: Convention = Convention.ONE) -> Operation:
    return Operation(name, "libcrypto", convention, (name,), MethodSlot("EC_KEY_METHOD", offset))


def _crypto(name: str, convention: Convention = Convention.ONE) -> Operation:
    return Operation(name, "libcrypto", convention, (name,))


def _provider(
    name: str,
    operation: str,
    function_id: int,
    *algorithms: str,
    symbols: tuple[str, ...] = (),
    skip_null: int | None = 1,
) -> Operation:
    slots = tuple(ProviderSlot(operation, algorithm, function_id) for algorithm in algorithms)
    return Operation(name, "libcrypto", Convention.ONE, (name, *symbols), providers=slots, skip_null=skip_null)


def _own_provider(name: str, operation: str, function: str, *algorithms: str) -> Operation:
    """A function of a provider in a file of its own, called by what it is for: its name in the source isn't known."""
    slots = tuple(ProviderSlot(operation, algorithm, _FUNCTIONS[function]) for algorithm in algorithms)
    return Operation(f"provider_{name}_{function}", "provider", Convention.ONE, providers=slots, skip_null=1)


def _mbx(stem: str, *suffixes: str) -> tuple[Operation, ...]:
    names = (f"mbx_{stem}{suffix}_mb8" for suffix in suffixes)
    return tuple(Operation(name, "libcrypto_mb", Convention.MBX8, (name,)) for name in names)


def _mbx_ec(curve: str, *kinds: str) -> tuple[Operation, ...]:
    return tuple(operation for kind in kinds for operation in _mbx(f"{curve}_{kind}", "", "_ssl"))


def _qat(name: str, convention: Convention = Convention.POSITIVE) -> Operation:
    return Operation(name, "qatengine", convention, (name,))


FATAL = "fatal errors"
PROVIDER_ENTRY = "OSSL_provider_init"  # which a provider in a file of its own exports

_FUNCTIONS = {"sign": 3, "decrypt": 5, "digest_sign_final": 10, "digest_sign": 11}  # openssl/core_dispatch.h
_ECDSA_KINDS = ("ecpublic_key", "ecdh", "ecdsa_sign", "ecdsa_sign_setup", "ecdsa_sign_complete", "ecdsa_verify")
_SM2_KINDS = ("ecpublic_key", "ecdh", "ecdsa_sign", "ecdsa_verify")
_ML_DSA = ("ML-DSA-44", "ML-DSA-65", "ML-DSA-87")
_ML_KEM = ("ML-KEM-512", "ML-KEM-768", "ML-KEM-1024")
_HYBRID_KEM = ("X25519MLKEM768", "SecP256r1MLKEM768", "X448MLKEM1024", "SecP384r1MLKEM1024")

OPERATIONS: tuple[Operation, ...] = (
    # libssl: the calls of an application. They run on the application's own stack.
    _ssl("SSL_do_handshake", Convention.SSL_HANDSHAKE),
    _ssl("SSL_accept", Convention.SSL_HANDSHAKE),
    _ssl("SSL_connect", Convention.SSL_HANDSHAKE),
    _data("SSL_read", Convention.SSL_IO),
    _data("SSL_read_ex", Convention.SSL_EX, 3),
    _data("SSL_write", Convention.SSL_IO),
    _data("SSL_write_ex", Convention.SSL_EX, 3),
    _data("SSL_write_ex2", Convention.SSL_EX, 4),
    _data("SSL_sendfile", Convention.SSL_IO),
    _ssl("SSL_read_early_data", Convention.SSL_EX, 3),
    _ssl("SSL_write_early_data", Convention.SSL_EX, 3),
    _data("SSL_shutdown", Convention.SSL_SHUTDOWN),
    replace(_ssl("SSL_free", Convention.NONE), only_entry=True),
    # What libssl reports fatal errors by since OpenSSL 3.0, its record layer too. Calls that succeed report none.
    Operation(
        FATAL, "libssl", Convention.NONE, async_job=False, only_entry=True, callers_of="ERR_vset_error", tier=Tier.HANDSHAKE
    ),
    # RSA: the default RSA_METHOD, and the calls above it.
    _rsa("rsa_ossl_public_encrypt", 8),
    _rsa("rsa_ossl_public_decrypt", 16),
    _rsa("rsa_ossl_private_encrypt", 24),
    _rsa("rsa_ossl_private_decrypt", 32),
    _crypto("RSA_sign"),
    _crypto("RSA_verify"),
    # ECDSA and ECDH: the default EC_KEY_METHOD, and the calls above it.
    _crypto("ECDSA_sign"),
    _crypto("ECDSA_verify"),
    _ec("ossl_ecdh_compute_key", 72),
    _ec("ossl_ecdsa_sign", 80),
    _ec("ossl_ecdsa_sign_setup", 88),
    _ec("ossl_ecdsa_sign_sig", 96, Convention.POINTER),
    _ec("ossl_ecdsa_verify", 104),
    _ec("ossl_ecdsa_verify_sig", 112),
    _crypto("ECDH_compute_key", Convention.POSITIVE),
    # The key pair of a key exchange, whatever its group.
    _crypto("EVP_PKEY_keygen"),
    # Algorithms that only the default provider's tables name. A NULL buffer asks for the size and is not counted.
    _provider("ecx_derive", "KEYEXCH", 3, "X25519", "X448"),
    _provider("ed25519_digest_sign", "SIGNATURE", 11, "ED25519", symbols=("ed25519_digest_sign_int",)),
    _provider("ed25519_digest_verify", "SIGNATURE", 15, "ED25519", skip_null=None),
    _provider("ed448_digest_sign", "SIGNATURE", 11, "ED448"),
    _provider("ed448_digest_verify", "SIGNATURE", 15, "ED448", skip_null=None),
    _provider("ml_dsa_digest_sign", "SIGNATURE", 11, *_ML_DSA),
    _provider("ml_dsa_digest_verify", "SIGNATURE", 15, *_ML_DSA, skip_null=None),
    _provider("ml_kem_encapsulate", "KEM", 3, *_ML_KEM),
    _provider("ml_kem_decapsulate", "KEM", 5, *_ML_KEM),
    _provider("mlx_kem_encapsulate", "KEM", 3, *_HYBRID_KEM),
    _provider("mlx_kem_decapsulate", "KEM", 5, *_HYBRID_KEM),
    _crypto("ASYNC_pause_job"),
    # libcrypto_mb: eight lanes a call. Lane fill is read elsewhere; a call succeeds when no used lane failed.
    *_mbx("rsa", "_public", "_public_ssl", "_private", "_private_ssl", "_private_crt", "_private_crt_ssl"),
    *_mbx_ec("nistp256", *_ECDSA_KINDS),
    *_mbx_ec("nistp384", *_ECDSA_KINDS),
    *_mbx_ec("nistp521", *_ECDSA_KINDS),
    *_mbx_ec("sm2", *_SM2_KINDS),
    *_mbx("x25519", "", "_public_key"),
    *_mbx("ed25519", "_public_key", "_sign", "_verify"),
    *_mbx("exp", "", "1024", "2048", "3072", "4096"),
    # Providers in a file of their own: what they do with private keys, by way of their tables. libssl has its signatures made
    # by digest_sign where there is one, else by digest_sign_final.
    *(
        _own_provider(algorithm.lower(), "SIGNATURE", function, algorithm)
        for algorithm in ("RSA", "ECDSA")
        for function in ("sign", "digest_sign", "digest_sign_final")
    ),
    _own_provider("ed25519", "SIGNATURE", "digest_sign", "ED25519"),
    _own_provider("ed448", "SIGNATURE", "digest_sign", "ED448"),
    _own_provider("ml_dsa", "SIGNATURE", "digest_sign", *_ML_DSA),
    _own_provider("rsa", "ASYM_CIPHER", "decrypt", "RSA"),
    # QAT_Engine: the calls that submit to it, on libcrypto_mb (multibuff_*, mb_*) or on the card (qat_*).
    _qat("multibuff_rsa_priv_enc"),
    _qat("multibuff_rsa_priv_dec"),
    _qat("multibuff_rsa_pub_enc"),
    _qat("multibuff_rsa_pub_dec"),
    _qat("multibuff_x25519_keygen", Convention.ONE),
    _qat("multibuff_x25519_derive", Convention.ONE),
    _qat("mb_ecdsa_sign", Convention.ONE),
    _qat("mb_ecdsa_sign_setup", Convention.ONE),
    _qat("mb_ecdsa_sign_sig", Convention.POINTER),
    _qat("mb_ecdsa_verify", Convention.ONE),
    _qat("mb_ecdsa_do_verify", Convention.ONE),
    _qat("mb_ecdh_generate_key", Convention.ONE),
    _qat("mb_ecdh_compute_key"),
    _qat("mb_ecdsa_sm2_sign", Convention.ONE),
    _qat("mb_ecdsa_sm2_verify", Convention.ONE),
    _qat("qat_rsa_priv_enc"),
    _qat("qat_rsa_priv_dec"),
    _qat("qat_ecdsa_sign", Convention.ONE),
    _qat("qat_ecdh_compute_key"),
    _qat("qat_pkey_ecx_derive25519", Convention.ONE),
)
