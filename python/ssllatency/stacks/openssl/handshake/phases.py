# SPDX-License-Identifier: Apache-2.0
"""The calls that libssl makes of libcrypto's functions, and what of a handshake each of them is.

Where one of these functions serves other ends as well, what is called beside it in the same function tells: a cookie's HMAC is
made with a raw key, TLS 1.2's and 1.3's key derivation of OpenSSL 1.1.1 with a context of its own, the hash by which an
encrypted ClientHello is confirmed with a mode of HKDF, only the check of the peer's certificate hands the SSL over to the
callbacks, and of what collects certificates only DANE's records may be bare keys as well.
"""

from __future__ import annotations

from ssllatency.stacks.phases import Callee, Offer, Phase, Transport

_MAC_KEY = ("EVP_PKEY_new_raw_private_key", "EVP_PKEY_new_raw_private_key_ex", "EVP_PKEY_new_mac_key")
_HASHES = ("EVP_PKEY_CTX_new_id", "EVP_PKEY_CTX_set_hkdf_mode")
_SIGN, _VERIFY = "EVP_DigestSign", "EVP_DigestVerify"


def _signing(name: str, **fields: object) -> Callee:
    return Callee(
        Phase.PRIVATE_KEY,
        name,
        skip_null=1,
        operation="sign",
        size_argument=2,
        size_is_pointer=True,
        never_beside=_MAC_KEY,
        **fields,  # type: ignore[arg-type]
    )


CALLEES = (
    _signing(_SIGN),
    _signing("EVP_DigestSignFinal", beside=(_SIGN,)),  # a signature as SSL 3.0 has it; elsewhere a MAC
    Callee(Phase.PRIVATE_KEY, "EVP_SignFinal", operation="sign"),
    Callee(Phase.PRIVATE_KEY, "EVP_PKEY_decrypt", skip_null=1, operation="decrypt", size_argument=4),
    Callee(Phase.PRIVATE_KEY, "RSA_private_decrypt", operation="decrypt", size_argument=0),
    Callee(Phase.KEY_EXCHANGE, "EVP_PKEY_keygen"),
    Callee(Phase.KEY_EXCHANGE, "EVP_PKEY_generate"),
    Callee(Phase.KEY_EXCHANGE, "EVP_PKEY_derive_set_peer"),  # checks the peer's key, which may take longer than all else
    Callee(Phase.KEY_EXCHANGE, "EVP_PKEY_public_check"),  # the same in a client of a version before TLS 1.3
    Callee(Phase.KEY_EXCHANGE, "EVP_PKEY_derive", skip_null=1, never_beside=_HASHES),
    Callee(Phase.KEY_EXCHANGE, "EVP_PKEY_encapsulate", skip_null=1),
    Callee(Phase.KEY_EXCHANGE, "EVP_PKEY_decapsulate", skip_null=1),
    Callee(Phase.PEER_VERIFICATION, "d2i_X509", beside=("OPENSSL_sk_push",), never_beside=("d2i_PUBKEY",)),
    Callee(Phase.PEER_VERIFICATION, "X509_verify_cert", beside=("X509_STORE_CTX_set_ex_data",)),
    Callee(Phase.PEER_VERIFICATION, _VERIFY),
    Callee(Phase.PEER_VERIFICATION, "EVP_DigestVerifyFinal", beside=(_VERIFY,)),
    Callee(Phase.PEER_VERIFICATION, "EVP_VerifyFinal"),
)
# What looks a session up: what is called whether there is a ticket or not, what that calls only where there is one, and what
# looks in the cache.
TICKET, OPENS_TICKET, CACHE = "tls_decrypt_ticket", "EVP_CIPHER_CTX_new", "lookup_sess_in_cache"
OFFERS = {OPENS_TICKET: Offer.TICKET, CACHE: Offer.CACHE}
TRANSPORT = (Callee(Transport.WAIT_PEER, "BIO_read"), Callee(Transport.WAIT_WINDOW, "BIO_write"))
