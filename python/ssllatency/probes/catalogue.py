# SPDX-License-Identifier: Apache-2.0
"""The catalogue: every operation that can be timed, of all stacks."""

from __future__ import annotations

from collections.abc import Iterator

from ssllatency.abi import Convention
from ssllatency.stacks.operation import Operation, Tier
from ssllatency.stacks.registry import LIBRARIES, STACKS

CATALOGUE: tuple[Operation, ...] = tuple(operation for stack in STACKS for operation in stack.operations)

# What SSL_do_handshake, reads and writes call alike for a handshake. It isn't timed for itself.
STATE_MACHINE = Operation("state_machine", "libssl", Convention.SSL_HANDSHAKE, ssl_argument=True, tier=Tier.HANDSHAKE)

BY_NAME = {operation.name: operation for operation in CATALOGUE}


def _of_handshakes() -> Iterator[str]:
    for stack in STACKS:
        calls = stack.handshake_calls
        yield from (calls.shakes, *calls.around, *calls.beside, calls.pauses, *calls.software)
    yield from (operation.name for operation in CATALOGUE if LIBRARIES[operation.library].batches)


OF_HANDSHAKES = frozenset(_of_handshakes())
"""The names of those that handshakes are followed by; reads and writes as well, where they have to be watched for them."""
