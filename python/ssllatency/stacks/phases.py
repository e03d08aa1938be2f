# SPDX-License-Identifier: Apache-2.0
"""What a stack says of the calls that a handshake's phases are."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """What the time of a call goes to."""

    PRIVATE_KEY = "private_key"
    KEY_EXCHANGE = "key_exchange"
    PEER_VERIFICATION = "peer_verification"
    SESSION_LOOKUP = "session_lookup"
    CALLBACKS = "callbacks"


class Transport(StrEnum):
    """What the time of a call goes to that reads or writes the connection, where it sleeps meanwhile."""

    WAIT_PEER = "wait_peer"
    WAIT_WINDOW = "wait_window"


@dataclass(frozen=True)
class Callee:
    """A function whose calls are a phase. Fields as in PhaseCall of a handshake's plan; a call counts where its function also
    calls one of `beside`, if any are given, and none of `never_beside`."""

    phase: Phase | Transport
    name: str
    skip_null: int | None = None
    operation: str = ""
    size_argument: int | None = None
    size_is_pointer: bool = False
    beside: tuple[str, ...] = ()
    never_beside: tuple[str, ...] = ()
