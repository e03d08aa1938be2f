# SPDX-License-Identifier: Apache-2.0
"""Every operation of wolfSSL that can be timed. Names are those of wolfssl/ssl.h."""

from __future__ import annotations

from dataclasses import replace

from ssllatency.abi import Convention
from ssllatency.stacks.operation import Operation, Tier

LIBRARY = "libwolfssl"


def _call(name: str, convention: Convention, tier: Tier = Tier.DATA) -> Operation:
    return Operation(name, LIBRARY, convention, (name,), ssl_argument=True, async_job=False, tier=tier)


def _handshake(name: str, twin: str = "") -> Operation:
    return replace(_call(name, Convention.SSL_HANDSHAKE, Tier.HANDSHAKE), twin=twin)


def _end(name: str) -> Operation:
    """A connection that is freed, or emptied for another use."""
    return replace(_call(name, Convention.NONE, Tier.HANDSHAKE), only_entry=True)


def _moved(name: str) -> Operation:
    return replace(_call(name, Convention.SSL_EX), length_argument=3)


# Before it knows the version, a handshake may be in the one function or the other: each ends in a call of its twin where that
# turns out to be right.
OPERATIONS: tuple[Operation, ...] = (
    _handshake("wolfSSL_accept", twin="wolfSSL_accept_TLSv13"),
    _handshake("wolfSSL_connect", twin="wolfSSL_connect_TLSv13"),
    _handshake("wolfSSL_accept_TLSv13"),
    _handshake("wolfSSL_connect_TLSv13"),
    _handshake("wolfSSL_negotiate"),
    _handshake("wolfSSL_SSL_do_handshake"),
    _call("wolfSSL_read", Convention.SSL_IO),
    _moved("wolfSSL_read_ex"),
    _call("wolfSSL_recv", Convention.SSL_IO),
    _call("wolfSSL_write", Convention.SSL_IO),
    _moved("wolfSSL_write_ex"),
    _call("wolfSSL_send", Convention.SSL_IO),
    _call("wolfSSL_shutdown", Convention.SSL_SHUTDOWN),
    _end("wolfSSL_free"),
    _end("wolfSSL_clear"),
)
