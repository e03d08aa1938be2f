# SPDX-License-Identifier: Apache-2.0
"""OpenSSL's state machine: the one function that every handshake of the library goes through, be it asked for by
SSL_do_handshake or made on the way by a read or a write. Reads and writes after the handshake don't come by.

It has no exported name. The slots of SSL_METHOD for accepting and connecting lead to two functions that only say which side it
is, and jump to it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ssllatency.code.bodies import Bodies
from ssllatency.code.flow import Unplannable
from ssllatency.code.machine import Flow
from ssllatency.elf.image import Function, Image
from ssllatency.stacks.openssl.tables.methods import ssl_methods
from ssllatency.stacks.openssl.tables.tails import handshake_slots

_FOUND = "SSL_METHOD"


def state_machine(image: Image, bodies: Bodies) -> Function:
    """The function. Unplannable with the reason."""
    return Function("state_machine", _address(bodies, ssl_methods(image)), 0, _FOUND)


def _address(bodies: Bodies, tables: Mapping[str, Mapping[int, int]]) -> int:
    slots = handshake_slots(tables)
    if not slots:
        raise Unplannable("no table of methods shows which functions accept and connect")
    sides = (tables["TLS_server_method"][slots[0]], tables["TLS_client_method"][slots[1]])
    for table in tables.values():
        if not {table[slot] for slot in slots if slot in table} & set(sides):
            raise Unplannable("the library's methods don't share their functions for accepting and connecting")
    common = set.intersection(*(_jumps(bodies, side) for side in sides))
    if len(common) != 1:
        raise Unplannable("the functions for accepting and connecting don't both go on to one other")
    return common.pop()


def _jumps(bodies: Bodies, start: int) -> set[int]:
    """The targets to which the function that begins at `start` goes on by a jump."""
    nodes = bodies.graph(start).nodes
    jumps = {node.target for node in nodes.values() if node.flow is Flow.JUMP and node.target is not None}
    return jumps - set(nodes)
