# SPDX-License-Identifier: Apache-2.0
"""The phases of a handshake and its waits, as a Go program has them: functions that are called, from their entry to their
returns; calls of functions that the application has put into a Config; and the call in which a goroutine parks until its socket
is ready, with the branch behind it. Also the runtime's collections of garbage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ssllatency.data_class import dataclass
from ssllatency.stacks.base import PhaseSites
from ssllatency.stacks.go.plan import FunctionPlan, FunctionPlanner
from ssllatency.stacks.go.traced_functions import (
    DECRYPTS,
    NEWEST,
    OLDEST,
    Purpose,
    Shape,
    TracedFunction,
    functions_of,
)
from ssllatency.stacks.phases import MissingPart, Phase, Runtime, Transport

# A wait says by itself whether it is one for the peer's bytes or for its window.
_PARTS: dict[Purpose, Phase | Transport | Runtime] = {
    Purpose.PRIVATE_KEY: Phase.PRIVATE_KEY,
    Purpose.KEY_EXCHANGE: Phase.KEY_EXCHANGE,
    Purpose.CERTIFICATE: Phase.PEER_VERIFICATION,
    Purpose.TICKET: Phase.SESSION_LOOKUP,
    Purpose.WAIT: Transport.WAIT_PEER,
    Purpose.CALLBACK: Phase.CALLBACKS,
    Purpose.COLLECTION: Runtime.COLLECTION,
    Purpose.ASSIST: Runtime.ASSIST,
}
_NAMED_HOSTS = 3  # functions into which one is inlined, in a sentence
_DECRYPT = {DECRYPTS, "crypto/rsa.(*PrivateKey).Decrypt"}


@dataclass(frozen=True)
class Phases:
    """The phases of one program."""

    planner: FunctionPlanner
    minor: int | None

    def plan(self) -> tuple[Sequence[PhaseSites], Sequence[MissingPart]]:
        """Those that can be seen, and those that can't."""
        sites: list[PhaseSites] = []
        missing: list[MissingPart] = []
        found = [self.planner.plan(traced) for traced in functions_of(self.minor) if traced.purpose in _PARTS]
        bounded = _bounded_uses(found)
        for planned in found:
            missing += _unseen(planned)
            inner = _is_inner(planned.traced) and _operation(planned.traced) in bounded
            sites += _sites(_PARTS[planned.traced.purpose], planned, inner=inner)
        if not any(site.phase is Transport.WAIT_PEER for site in sites):
            missing.append(MissingPart(Transport.WAIT_PEER, "the file doesn't have what goroutines wait for sockets in"))
        if self.minor is not None and self.minor > NEWEST:
            known = f"those of Go 1.{OLDEST} to 1.{NEWEST} are known, and this is 1.{self.minor}"
            missing.append(MissingPart("functions with new names", f"{known}: what they take is part of rest"))
        return sites, missing


def _unseen(planned: FunctionPlan) -> Iterator[MissingPart]:
    if planned.obstacle and planned.address:
        yield MissingPart(planned.traced.name, planned.obstacle)
    if planned.inlined_into:
        hosts = [*planned.inlined_into[:_NAMED_HOSTS], *(["others"] if planned.inlined_into[_NAMED_HOSTS:] else [])]
        yield MissingPart(planned.traced.name, f"it is inlined into {', '.join(hosts)}, where it can't be seen")


def _operation(traced: TracedFunction) -> str:
    """The use that the function makes of a private key; "" of none."""
    if traced.purpose is not Purpose.PRIVATE_KEY:
        return ""
    return "decrypt" if {traced.name, traced.callee} & _DECRYPT else "sign"


def _is_inner(traced: TracedFunction) -> bool:
    """Whether it is a method of one kind of key, which handshakes call within what uses any key."""
    return traced.purpose is Purpose.PRIVATE_KEY and traced.shape is Shape.SPAN


def _bounded_uses(found: Sequence[FunctionPlan]) -> set[str]:
    """The uses of a private key that the program's handshakes make, whatever key it is, in functions that are all seen."""
    there = [planned for planned in found if planned.address or planned.inlined_into]
    users = [planned for planned in there if _operation(planned.traced) and not _is_inner(planned.traced)]
    unseen = {_operation(planned.traced) for planned in users if not _is_seen(planned)}
    return {_operation(planned.traced) for planned in users} - unseen


def _is_seen(planned: FunctionPlan) -> bool:
    return bool(planned.calls) and not planned.inlined_into


def _sites(part: Phase | Transport | Runtime, planned: FunctionPlan, *, inner: bool) -> Iterator[PhaseSites]:
    """Return them; of an `inner` one its entry alone, which tells the kind of key."""
    name, start, end = planned.traced.name, planned.address, planned.address + planned.size
    operation = _operation(planned.traced)
    for call in planned.calls:
        yield PhaseSites(part, name, start, end, call.call, (call.behind,), operation=operation)
    if planned.entry and planned.exits:
        entry, exits = planned.entry, () if inner else planned.exits
        yield PhaseSites(part, name, start, end, entry.address, exits, entry.not_taken, operation)
