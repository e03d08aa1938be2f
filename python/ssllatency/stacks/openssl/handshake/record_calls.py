# SPDX-License-Identifier: Apache-2.0
"""Sites at which OpenSSL's handshakes read and write the connection: the calls of the record layer that the state machine
makes, and not those that reads and writes of the application make, which are many more.

The record layer's functions are slots of SSL_METHOD, a fixed way behind those for accepting and connecting; they are called
through the connection's pointer to its method, or by their own addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ssllatency.code.bodies import Bodies
from ssllatency.code.calls import calls_to
from ssllatency.code.flow import Unplannable
from ssllatency.code.machine import Flow, Machine
from ssllatency.code.pointer_calls import calls_through
from ssllatency.elf.image import Image
from ssllatency.stacks.openssl.accessors import field_returned
from ssllatency.stacks.openssl.handshake.libssl_code import LibsslCode
from ssllatency.stacks.openssl.tables.tails import handshake_slots
from ssllatency.stacks.phases import Callee, Transport

READ, WRITE = Callee(Transport.WAIT_PEER, "ssl_read_bytes"), Callee(Transport.WAIT_WINDOW, "ssl_write_bytes")
# Slots of SSL_METHOD by how far they lie behind ssl_accept, the same from 1.1.1 to 3.6: ssl_read, ssl_peek, ssl_write and
# ssl_shutdown are what an application calls, the others are the record layer's.
_DATA = (16, 24, 32, 40)
_READ_BYTES, _WRITE_BYTES = 64, 72


def record_calls(
    image: Image, machine: Machine, bodies: Bodies, code: LibsslCode, tables: Mapping[str, Mapping[int, int]]
) -> dict[Callee, list[int]]:
    """The sites of the handshakes' reads and writes; `tables` are those of ssl_methods(). Unplannable with the reason."""
    slots = handshake_slots(tables)
    method = field_returned(image, "SSL_get_ssl_method", 1)
    if not slots or method is None:
        raise Unplannable("the functions of the record layer aren't found in a connection's method")
    calls = {
        callee: sorted(
            {
                *calls_through(image, machine, bodies, (method[0], slots[0] + slot), code),
                *_direct(image, bodies, code, _in_slots(tables, [slots[0] + slot])),
            }
        )
        for callee, slot in ((READ, _READ_BYTES), (WRITE, _WRITE_BYTES))
    }
    data = _with_callees(bodies, _in_slots(tables, [slots[0] + slot for slot in _DATA]))
    own = {callee: [site for site in sites if bodies.function(site) not in data] for callee, sites in calls.items()}
    for callee, sites in own.items():
        if not sites:
            raise Unplannable(f"no call of {callee.name} in a handshake is found")
    return own


def _in_slots(tables: Mapping[str, Mapping[int, int]], slots: Iterable[int]) -> set[int]:
    return {table[slot] for slot in slots for table in tables.values() if slot in table}


def _direct(image: Image, bodies: Bodies, code: LibsslCode, functions: set[int]) -> set[int]:
    """The calls of these functions by their addresses."""
    sites = {site for sites in calls_to(image, functions, code.within).values() for site in sites}
    return {site for site in sites if _is_call(bodies, code, site)}


def _is_call(bodies: Bodies, code: LibsslCode, site: int) -> bool:
    """Whether there is an instruction that is one, in a function of libssl."""
    start = bodies.function(site)
    if start is None or not code.holds(start):
        return False
    try:
        node = bodies.graph(start).nodes.get(site)
    except Unplannable:
        return False
    return node is not None and node.flow is Flow.CALL


def _with_callees(bodies: Bodies, functions: set[int]) -> set[int]:
    """These functions and those that they call or go on to."""
    found = set(functions)
    for start in functions:
        nodes = bodies.graph(start).nodes
        found |= {node.target for node in nodes.values() if node.flow in (Flow.CALL, Flow.JUMP) and node.target is not None}
    return found
