# SPDX-License-Identifier: Apache-2.0
"""Every operation of GnuTLS that can be timed. Names are those of gnutls/gnutls.h and gnutls/abstract.h."""

from __future__ import annotations

from dataclasses import replace

from ssllatency.abi import Convention, Returns
from ssllatency.stacks.operation import Operation, Tier

LIBRARY = "libgnutls"


def _call(name: str, convention: Convention, tier: Tier) -> Operation:
    return Operation(
        name, LIBRARY, convention, (name,), ssl_argument=True, async_job=False, tier=tier, returns=Returns.NEGATIVE_ERROR
    )


def _receive(name: str) -> Operation:
    """0: the peer has closed the connection in good order."""
    return _call(name, Convention.SSL_IO, Tier.DATA)


def _send(name: str) -> Operation:
    """0: nothing was to be sent."""
    return _call(name, Convention.LENGTH, Tier.DATA)


def _key(name: str) -> Operation:
    return Operation(name, LIBRARY, Convention.LENGTH, (name,), async_job=False, returns=Returns.NEGATIVE_ERROR)


OPERATIONS: tuple[Operation, ...] = (
    _call("gnutls_handshake", Convention.SSL_HANDSHAKE, Tier.HANDSHAKE),
    _receive("gnutls_record_recv"),
    _receive("gnutls_record_recv_seq"),
    _receive("gnutls_record_recv_packet"),
    _receive("gnutls_record_recv_early_data"),
    _send("gnutls_record_send"),
    _send("gnutls_record_send2"),
    _send("gnutls_record_send_file"),
    _send("gnutls_record_send_early_data"),
    _send("gnutls_record_uncork"),
    _call("gnutls_bye", Convention.SSL_SHUTDOWN, Tier.DATA),
    replace(_call("gnutls_deinit", Convention.NONE, Tier.HANDSHAKE), only_entry=True),
    # Keys, wherever they lie: in memory, in a PKCS #11 token, in a TPM.
    _key("gnutls_privkey_sign_data2"),
    _key("gnutls_privkey_sign_hash2"),
    _key("gnutls_privkey_decrypt_data2"),
    _key("gnutls_pubkey_verify_data2"),
    _key("gnutls_pubkey_verify_hash2"),
)
