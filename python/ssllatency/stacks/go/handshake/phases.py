# SPDX-License-Identifier: Apache-2.0
"""The phases of a handshake and its waits, as a Go program has them: functions that are called, from their entry to their
returns; calls of functions that the application has put into a Config; and the call in which a goroutine parks until its socket
is ready, with the branch behind it. Also the runtime's collections of garbage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ssllatency.data_class import dataclass
from ssllatency.stacks.base import PhaseSites
from ssllatency.stacks.go.plan import FunctionPlan, FunctionPlanner
from ssllatency.stacks.go.traced_functions import DECRYPTS, NEWEST, OLDEST, Purpose, TracedFunction, functions_of
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
        for traced in functions_of(self.minor):
            part = _PARTS.get(traced.purpose)
            if part is None:
                continue
            planned = self.planner.plan(traced)
            missing += _unseen(planned)
            sites += _sites(part, traced, planned)
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


def _sites(part: Phase | Transport | Runtime, traced: TracedFunction, planned: FunctionPlan) -> Iterator[PhaseSites]:
    start, end = planned.address, planned.address + planned.size
    operation = ("decrypt" if {traced.name, traced.callee} & _DECRYPT else "sign") if part is Phase.PRIVATE_KEY else ""
    for call in planned.calls:
        yield PhaseSites(part, traced.name, start, end, call.call, (call.behind,), operation=operation)
    if planned.entry and planned.exits:
        entry = planned.entry
        yield PhaseSites(part, traced.name, start, end, entry.address, planned.exits, entry.not_taken, operation)
