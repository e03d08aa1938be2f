# SPDX-License-Identifier: Apache-2.0
"""The catalogue: every operation that can be timed, of all stacks."""

from __future__ import annotations

from ssllatency.abi import Convention
from ssllatency.stacks.operation import Operation, Tier
from ssllatency.stacks.registry import STACKS

CATALOGUE: tuple[Operation, ...] = tuple(operation for stack in STACKS for operation in stack.operations)

# What SSL_do_handshake, reads and writes call alike for a handshake. It isn't timed for itself.
STATE_MACHINE = Operation("state_machine", "libssl", Convention.SSL_HANDSHAKE, ssl_argument=True, tier=Tier.HANDSHAKE)

BY_NAME = {operation.name: operation for operation in CATALOGUE}


def succeeds(convention: Convention, returned: int) -> bool:
    """Whether a call that returned this has done its work (`succeeded` in bpf/common/outcome.bpf.h says the same)."""
    match convention:
        case Convention.SSL_HANDSHAKE | Convention.ONE:
            return returned == 1
        case Convention.SSL_IO | Convention.SSL_EX | Convention.POSITIVE:
            return returned > 0
        case Convention.SSL_SHUTDOWN | Convention.LENGTH:
            return returned >= 0
        case Convention.POINTER:
            return returned != 0
        case Convention.MBX8:
            unused = (returned & 0x22222222) >> 1
            return returned & 0xFFFFFFFF & ~(unused * 15) == 0
    return True
