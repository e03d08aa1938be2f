# SPDX-License-Identifier: Apache-2.0
"""A handshake plan as plain data: where in a file the phases of a handshake begin and end, and where its errors are raised.

A phase is a call that the TLS library makes. It begins at the call site, or at a branch that leads to it alone, and ends at the
first cheap instruction past it. Both lie in one frame: the stack pointer at the function's entry, which is the one at the site
plus `stack_delta`, is the same at both. An end may be reached by other ways too, without the call; it ends a phase only where
one that began in the same frame is open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ssllatency.code.values import FieldPath
from ssllatency.probes.plan import CodeRange, OperationPlan, Probe
from ssllatency.stacks.phases import ErrorKind, MissingPart, Phase, Transport


@dataclass(frozen=True)
class PhaseCall:
    """One call site of `callee`: a function's name, or of an indirect call the callback's.

    `begin` has the role ENTRY, `ends` EXIT; a call has run when any end is crossed with the frame of its begin. `skip_null` is
    an argument that is NULL where only the size is asked for: that call isn't counted. `operation` is "sign" or "decrypt" for
    PRIVATE_KEY. `size_argument` tells the key's size in bytes, or where `size_is_pointer` points to a size_t that does: before
    the call it is the buffer's size. Arguments are in their registers at `begin`.

    `condition`: where `begin` is a conditional branch in front of the call, its mnemonic ("je", …); the phase begins only where
    the branch is taken, or falls through, as `taken` says. Such a begin has no arguments that are to be read.
    """

    phase: Phase | Transport
    callee: str
    begin: Probe
    ends: tuple[Probe, ...]
    skip_null: int | None = None
    operation: str = ""
    size_argument: int | None = None
    size_is_pointer: bool = False
    condition: str = ""
    taken: bool = False


@dataclass(frozen=True)
class ErrorSite:
    """The entry of a function that records an error; the arguments that `kind` names are in their registers at `probe`."""

    kind: ErrorKind
    function: str
    probe: Probe


@dataclass(frozen=True)
class HandshakePlan:
    """The sites in one file to split its handshakes. `kind` as in ImagePlan.

    `transport` are the calls by which the library reads and writes: they are watched only in processes whose calls sleep.
    `state_machine` is the function that all of the library's handshakes go through; `within_data`: reads and writes have to be
    watched as well, as handshakes that take place within them go through no other function that is. `wake` is the entry of the
    function that `wakes` of a Library names, with the first three arguments in their registers; `labels` are fields of a
    connection by name; `code` holds every site.
    """

    path: str
    build_id: str
    kind: str
    calls: tuple[PhaseCall, ...]
    transport: tuple[PhaseCall, ...]
    state_machine: OperationPlan | None
    within_data: bool
    errors: tuple[ErrorSite, ...]
    wake: Probe | None
    labels: Mapping[str, FieldPath]
    missing: tuple[MissingPart, ...]
    code: tuple[CodeRange, ...] = ()

    def probes(self) -> Iterator[Probe]:
        """All sites."""
        for call in (*self.calls, *self.transport):
            yield call.begin
            yield from call.ends
        if self.state_machine:
            yield from self.state_machine.probes
        yield from (error.probe for error in self.errors)
        if self.wake:
            yield self.wake
