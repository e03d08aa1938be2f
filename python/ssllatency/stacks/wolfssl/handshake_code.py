# SPDX-License-Identifier: Apache-2.0
"""The parts of wolfSSL's code that make handshakes: calls of its own cryptography, which has names, and those through the
pointers by which a connection reads and writes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from itertools import chain

from ssllatency.code.bodies import Bodies
from ssllatency.code.calls import calls_to
from ssllatency.code.flow import Unplannable
from ssllatency.code.machine import Machine
from ssllatency.code.pointer_calls import calls_through_field
from ssllatency.elf.image import Image, Range
from ssllatency.stacks.handshake_code import HandshakeCode
from ssllatency.stacks.openssl.accessors import field_set
from ssllatency.stacks.phases import Callee, CallSite, MissingPart, Transport

_SETTERS = {
    "wolfSSL_SSLSetIORecv": (Transport.WAIT_PEER, "receive function"),
    "wolfSSL_SSLSetIOSend": (Transport.WAIT_WINDOW, "send function"),
}


_HANDSHAKES = ("wolfSSL_accept", "wolfSSL_connect", "wolfSSL_accept_TLSv13", "wolfSSL_connect_TLSv13")


def _reached(roots: set[int], callers: Mapping[int, Collection[int]]) -> set[int]:
    """The functions that the roots lead to, themselves included, of those whose callers are known."""
    reached, new = set(roots), set(roots)
    while new:
        new = {start for start, found in callers.items() if start not in reached and not new.isdisjoint(found)}
        reached |= new
    return reached


_MOST_WRAPPERS = 4  # functions each of which ends in a call of the next one


class _Whole:
    """The whole library."""

    within: Range | None = None

    def holds(self, start: int) -> bool:  # noqa: ARG002
        return True


class WolfSslHandshakeCode(HandshakeCode):
    """The calls in libwolfssl. Where a release has no function of a callee's name, others of its phase are called."""

    library = "libwolfssl"

    def __init__(self, image: Image, machine: Machine, bodies: Bodies, callees: Iterable[Callee]) -> None:
        super().__init__(image, bodies, callees, ())
        self._machine = machine

    def sites_of(self, callee: Callee) -> list[int]:
        """Those of its calls that handshakes may make. Where a function ends in it, that function's calls are."""
        sites, ending = {site for site in super().sites_of(callee) if self._is_of_handshakes(site)}, set[int]()
        for _ in range(_MOST_WRAPPERS):
            last = {site for site in sites if self.is_last(site)}
            new = self.bodies.functions(last) - ending
            ending |= new
            sites = (sites - last) | {
                site for places in calls_to(self.image, new).values() for site in places if self._is_of_handshakes(site)
            }
        return sorted(site for site in sites if self._is_followed(site, callee))

    def _is_followed(self, site: int, callee: Callee) -> bool:
        """Whether the call is in what is known of its function's control flow: some of those of clients jump by tables in a way
        that isn't understood."""
        start = self.bodies.function(site)
        with suppress(Unplannable):
            if start is not None and site in self.bodies.graph(start).nodes:
                return True
        part = MissingPart(f"some calls of {callee.name}", "the function that makes them can't be followed")
        if part not in self.missing:
            self.missing.append(part)
        return False

    def _is_of_handshakes(self, site: int) -> bool:
        return self.bodies.function(site) in self._of_handshakes

    @cached_property
    def _of_handshakes(self) -> set[int]:
        """The functions that lead to those of the callees and are led to from a call that makes a handshake, by direct calls:
        its other interfaces call its cryptography, too."""
        made_by = {function.address for name in _HANDSHAKES if (function := self.image.function(name))}
        callers: dict[int, set[int]] = {}
        new = self.bodies.functions(chain.from_iterable(self.sites[callee.name] for callee in self.callees))
        while new:
            found = {start: self.bodies.functions(sites) for start, sites in calls_to(self.image, new).items()}
            callers |= found
            new = set().union(*found.values()) - callers.keys()
        leading = made_by & callers.keys()
        return _reached(leading, callers)

    def transport_calls(self) -> Iterator[CallSite]:
        """The calls of the functions that a connection's two setters set."""
        for setter, (phase, name) in _SETTERS.items():
            field = field_set(self.image, setter)
            sites = sorted(self._calls_through(field.offsets[0])) if field else []
            if not sites:
                self.missing.append(MissingPart(phase, f"no call of a connection's {name} is found"))
            yield from (CallSite(Callee(phase, name), site) for site in sites if not self.is_last(site))

    def _calls_through(self, offset: int) -> list[int]:
        return calls_through_field(self.image, self._machine, self.bodies, offset, _Whole())
