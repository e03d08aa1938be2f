# SPDX-License-Identifier: Apache-2.0
"""Every operation of s2n-tls that can be timed. Names are those of api/s2n.h."""

from __future__ import annotations

from dataclasses import replace

from ssllatency.abi import Convention, Returns
from ssllatency.stacks.operation import Operation, Tier

LIBRARY = "libs2n"


def _call(name: str, convention: Convention, tier: Tier = Tier.DATA) -> Operation:
    """-1: s2n_errno says why."""
    return Operation(
        name, LIBRARY, convention, (name,), ssl_argument=True, async_job=False, tier=tier, returns=Returns.NEGATIVE_ERROR
    )


def _end(name: str) -> Operation:
    """A connection that is freed, or emptied for another use."""
    return replace(_call(name, Convention.NONE, Tier.HANDSHAKE), only_entry=True)


OPERATIONS: tuple[Operation, ...] = (
    _call("s2n_negotiate", Convention.SSL_HANDSHAKE, Tier.HANDSHAKE),
    _call("s2n_recv", Convention.SSL_IO),  # 0: the peer has closed the connection in good order
    _call("s2n_send", Convention.LENGTH),
    _call("s2n_sendv", Convention.LENGTH),
    _call("s2n_sendv_with_offset", Convention.LENGTH),
    _call("s2n_shutdown", Convention.SSL_SHUTDOWN),
    _call("s2n_shutdown_send", Convention.SSL_SHUTDOWN),
    _end("s2n_connection_free"),
    _end("s2n_connection_wipe"),
)
