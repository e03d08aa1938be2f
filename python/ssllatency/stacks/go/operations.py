# SPDX-License-Identifier: Apache-2.0
"""The functions of crypto/tls whose calls are timed, and those of the runtime by which calls are left without a return."""

from __future__ import annotations

from ssllatency.abi import Convention, Returns
from ssllatency.stacks.go.traced_functions import CLIENT_HANDSHAKE, SERVER_HANDSHAKE, TLS
from ssllatency.stacks.operation import Operation, Tier

LIBRARY = "crypto/tls"
SERVER, CLIENT = "tls.Conn.serverHandshake", "tls.Conn.clientHandshake"
LEAVING = ("runtime.gopanic", "runtime.Goexit")
READ, WRITE, CLOSE = "tls.Conn.Read", "tls.Conn.Write", "tls.Conn.Close"


def _call(name: str, symbol: str, convention: Convention, tier: Tier) -> Operation:
    return Operation(name, LIBRARY, convention, (symbol,), tier=tier, returns=Returns.GO_ERROR)


def _leaving(name: str) -> Operation:
    return Operation(name, LIBRARY, Convention.NONE, (name,), only_entry=True, tier=Tier.HANDSHAKE)


OPERATIONS: tuple[Operation, ...] = (
    _call(SERVER, SERVER_HANDSHAKE, Convention.SSL_HANDSHAKE, Tier.HANDSHAKE),
    _call(CLIENT, CLIENT_HANDSHAKE, Convention.SSL_HANDSHAKE, Tier.HANDSHAKE),
    _call(READ, f"{TLS}.(*Conn).Read", Convention.SSL_IO, Tier.DATA),
    _call(WRITE, f"{TLS}.(*Conn).Write", Convention.SSL_IO, Tier.DATA),
    _call(CLOSE, f"{TLS}.(*Conn).Close", Convention.SSL_SHUTDOWN, Tier.DATA),
    *map(_leaving, LEAVING),
)
