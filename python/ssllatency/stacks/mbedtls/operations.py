# SPDX-License-Identifier: Apache-2.0
"""Every operation of Mbed TLS that can be timed. Names are those of mbedtls/ssl.h."""

from __future__ import annotations

from dataclasses import replace

from ssllatency.abi import Convention, Returns
from ssllatency.stacks.operation import Operation, Tier

LIBRARY = "libmbedtls"
STEP = "mbedtls_ssl_handshake_step"


def _call(name: str, convention: Convention, tier: Tier) -> Operation:
    return Operation(
        name, LIBRARY, convention, (name,), ssl_argument=True, async_job=False, tier=tier, returns=Returns.NEGATIVE_ERROR
    )


def _end(name: str) -> Operation:
    """It ends whatever handshake a context was in."""
    return replace(_call(name, Convention.NONE, Tier.HANDSHAKE), only_entry=True)


OPERATIONS: tuple[Operation, ...] = (
    _call("mbedtls_ssl_handshake", Convention.SSL_HANDSHAKE, Tier.HANDSHAKE),
    _call(STEP, Convention.ONE, Tier.BELOW),  # not the end of a handshake, but for the last
    _call("mbedtls_ssl_read", Convention.SSL_IO, Tier.DATA),  # 0: the transport has ended
    _call("mbedtls_ssl_write", Convention.LENGTH, Tier.DATA),
    _call("mbedtls_ssl_close_notify", Convention.SSL_SHUTDOWN, Tier.DATA),
    _end("mbedtls_ssl_free"),
    _end("mbedtls_ssl_session_reset"),
)
