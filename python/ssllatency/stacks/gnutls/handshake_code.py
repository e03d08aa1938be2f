# SPDX-License-Identifier: Apache-2.0
"""The calls inside libgnutls that a handshake's phases are: of the functions around keys, which have names, and of those by
which the session reads and writes, through the pointers that the application may set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ssllatency.code.bodies import Bodies
from ssllatency.code.machine import Machine
from ssllatency.code.pointer_calls import calls_through_field
from ssllatency.elf.image import Image, Range
from ssllatency.stacks.gnutls.connection import transport_pointers
from ssllatency.stacks.handshake_code import HandshakeCode
from ssllatency.stacks.phases import Callee, CallSite, MissingPart, Transport

_PHASES = {
    "gnutls_transport_set_pull_function": Transport.WAIT_PEER,
    "gnutls_transport_set_pull_timeout_function": Transport.WAIT_PEER,
    "gnutls_transport_set_push_function": Transport.WAIT_WINDOW,
    "gnutls_transport_set_vec_push_function": Transport.WAIT_WINDOW,
}
_WAITS = {Transport.WAIT_PEER: "pull function", Transport.WAIT_WINDOW: "push function"}


class _Whole:
    """The whole library."""

    within: Range | None = None

    def holds(self, start: int) -> bool:  # noqa: ARG002
        return True


class GnuTlsHandshakeCode(HandshakeCode):
    """The calls in libgnutls."""

    library = "libgnutls"

    def __init__(self, image: Image, machine: Machine, bodies: Bodies, callees: Iterable[Callee]) -> None:
        super().__init__(image, bodies, callees, ())
        self._machine = machine

    def transport_calls(self) -> Iterator[CallSite]:
        """The calls of the pull and push functions."""
        pointers = transport_pointers(self.image)
        for phase, name in _WAITS.items():
            offsets = [offset for setter, offset in pointers.items() if _PHASES[setter] is phase]
            sites = sorted(site for offset in offsets for site in self._calls_through(offset))
            if not sites:
                self.missing.append(MissingPart(phase, f"no call of a session's {name} is found"))
            yield from (CallSite(Callee(phase, name), site) for site in sites if not self.is_last(site))

    def _calls_through(self, offset: int) -> list[int]:
        return calls_through_field(self.image, self._machine, self.bodies, offset, _Whole())
