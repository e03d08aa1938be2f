# SPDX-License-Identifier: Apache-2.0
"""The calls that a handshake's phases are, as a stack describes them, and of the functions that raise errors."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from ssllatency.data_class import dataclass

if TYPE_CHECKING:
    from ssllatency.elf.image import Function


class Phase(StrEnum):
    """The phases that the time of a call goes to."""

    PRIVATE_KEY = "private_key"
    KEY_EXCHANGE = "key_exchange"
    PEER_VERIFICATION = "peer_verification"
    SESSION_LOOKUP = "session_lookup"
    CALLBACKS = "callbacks"


class Transport(StrEnum):
    """The waits that the time of a call which reads or writes the connection goes to, where it sleeps meanwhile."""

    WAIT_PEER = "wait_peer"
    WAIT_WINDOW = "wait_window"


class Runtime(StrEnum):
    """The work of a language's runtime. COLLECTION: what a collection of garbage is to keep is marked, in whatever thread,
    which keeps others from running. ASSIST: whoever wants to allocate has to help with that first."""

    COLLECTION = "collection"
    ASSIST = "assist"


class Offer(StrEnum):
    """The fact that a call tells of the client's offer. TICKET: it is made only where there is a session ticket, within a call
    that is made in any case, and is no phase of its own. OPENS: the same of a call that is one. CACHE: it looks in the cache of
    sessions."""

    TICKET = "ticket"
    OPENS = "opens"
    CACHE = "cache"


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


@dataclass(frozen=True)
class CallSite:
    """The address of one call of `callee`, or of a jump to it."""

    callee: Callee
    address: int


@dataclass(frozen=True)
class PhaseFunction:
    """A function that is a phase from its entry to its exits, wherever the library calls it."""

    phase: Phase
    function: Function


class ErrorKind(StrEnum):
    """The arguments that tell of an error, in the order of ARGUMENTS. RAISE, OWN and RAISE_1_1: the library and the reason, OWN
    at the calls by which a library breaks off. FATAL: the connection and the alert (-1: none). ALERT: the connection, the level
    of the alert that is sent, and the alert."""

    RAISE = "raise"
    OWN = "own"
    RAISE_1_1 = "raise_1_1"
    FATAL = "fatal"
    ALERT = "alert"


ARGUMENTS = {
    ErrorKind.RAISE: (0, 1),
    ErrorKind.OWN: (0, 1),
    ErrorKind.RAISE_1_1: (0, 2),
    ErrorKind.FATAL: (0, 1),
    ErrorKind.ALERT: (0, 1, 2),
}


@dataclass(frozen=True)
class ErrorFunction:
    """A function that records an error; `address` is None where its name leads to it."""

    kind: ErrorKind
    name: str
    address: int | None = None


@dataclass(frozen=True)
class MissingPart:
    """A part of a handshake that is not seen in a file, and why (a phrase without a full stop)."""

    what: str
    reason: str
