# SPDX-License-Identifier: Apache-2.0
"""The calls inside Mbed TLS that a handshake's phases are, of functions that have names; those by which a context reads and
writes, through the pointers that the application sets; and the function by which it sends alerts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ssllatency.abi import MbedtlsField
from ssllatency.code.bodies import Bodies
from ssllatency.code.machine import Machine
from ssllatency.code.pointer_calls import calls_through_field
from ssllatency.elf.image import Function, Image, Range
from ssllatency.stacks.handshake_code import HandshakeCode
from ssllatency.stacks.mbedtls.connection import transport_pointers
from ssllatency.stacks.phases import Callee, CallSite, ErrorFunction, ErrorKind, MissingPart, Transport

_ALERT = "mbedtls_ssl_send_alert_message"
_WAITS = {
    Transport.WAIT_PEER: ("mbedtls_ssl_fetch_input", (MbedtlsField.RECEIVE, MbedtlsField.RECEIVE_TIMEOUT)),
    Transport.WAIT_WINDOW: ("mbedtls_ssl_flush_output", (MbedtlsField.SEND,)),
}
_CALLED = {Transport.WAIT_PEER: "receive function", Transport.WAIT_WINDOW: "send function"}


class _Function:
    """One function."""

    def __init__(self, function: Function) -> None:
        self.within: Range = (function.address, function.address + function.size)

    def holds(self, start: int) -> bool:
        return start == self.within[0]


class MbedTlsHandshakeCode(HandshakeCode):
    """The calls in libmbedtls, or in a program that has it built in."""

    library = "libmbedtls"

    def __init__(self, image: Image, machine: Machine, bodies: Bodies, callees: Iterable[Callee]) -> None:
        super().__init__(image, bodies, callees, ())
        self._machine = machine

    def fatal(self) -> ErrorFunction | None:
        """The function that sends alerts, each with its level."""
        return ErrorFunction(ErrorKind.ALERT, _ALERT) if self.image.function(_ALERT) else None

    def sites_of(self, callee: Callee) -> list[int]:
        """Those of the callee's calls that aren't part of another callee, as in a program that has all of Mbed TLS built in."""
        others = {function.address for other in self.callees if (function := self.image.function(other.name))}
        return [site for site in super().sites_of(callee) if self.bodies.function(site) not in others]

    def transport_calls(self) -> Iterator[CallSite]:
        """The calls of the functions that mbedtls_ssl_set_bio sets, each in the function that calls it. Elsewhere other
        pointers lie as far behind what has them."""
        pointers = transport_pointers(self.image)
        for phase, (caller, fields) in _WAITS.items():
            offsets = [pointers[field] for field in fields if field in pointers]
            sites = sorted({site for offset in offsets for site in self._calls_in(caller, offset)})
            if not sites:
                self.missing.append(MissingPart(phase, f"{caller} isn't seen to call a context's {_CALLED[phase]}"))
            yield from (CallSite(Callee(phase, _CALLED[phase]), site) for site in sites if not self.is_last(site))

    def _calls_in(self, caller: str, offset: int) -> list[int]:
        function = self.image.function(caller)
        if function is None:
            return []
        return calls_through_field(self.image, self._machine, self.bodies, offset, _Function(function))
