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
