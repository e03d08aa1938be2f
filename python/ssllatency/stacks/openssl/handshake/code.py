# SPDX-License-Identifier: Apache-2.0
"""The calls inside libssl that a handshake's phases are: of libcrypto's functions, of hidden functions that look a session up,
of the application's callbacks, and of what reads and writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from ssllatency.code.bodies import Bodies
from ssllatency.code.calls import calls_of, calls_to
from ssllatency.code.flow import Unplannable
from ssllatency.code.machine import Machine
from ssllatency.code.pointer_calls import calls_in, calls_through
from ssllatency.elf.image import ElfError, Image
from ssllatency.stacks.handshake_code import HandshakeCode
from ssllatency.stacks.openssl.handshake import hidden
from ssllatency.stacks.openssl.handshake.callbacks import TICKET_KEY, CallbackPath, callback_paths
from ssllatency.stacks.openssl.handshake.errors import OWN_ERRORS
from ssllatency.stacks.openssl.handshake.hidden import Hidden
from ssllatency.stacks.openssl.handshake.libssl_code import LibsslCode, static_code
from ssllatency.stacks.openssl.handshake.phases import CACHE, OPENS_TICKET, TICKET
from ssllatency.stacks.openssl.handshake.record_calls import record_calls
from ssllatency.stacks.openssl.tables.methods import ssl_methods
from ssllatency.stacks.phases import Callee, CallSite, ErrorFunction, ErrorKind, MissingPart, Phase, Transport

_OF_TICKETS = ("EVP_EncryptFinal", "EVP_DecryptFinal")
_TAKES_A_REFERENCE = "SSL_SESSION_up_ref"  # libssl calls it for the callback that follows, and nothing else does it do
_NOT_FOUND = {
    Phase.PRIVATE_KEY: "libssl calls no function that is known to use a private key",
    Phase.KEY_EXCHANGE: "libssl calls no function that is known to make or combine a key exchange's keys",
    Phase.PEER_VERIFICATION: "libssl calls no function that is known to check the peer's certificate or signature",
}


class OpenSslHandshakeCode(HandshakeCode):
    """The calls in libssl, or in the part of a program that is libssl's.

    `alone`: the image holds nothing else of OpenSSL's. Unplannable where libssl's functions can't be told from others.
    """

    library = "libssl"

    def __init__(
        self,
        image: Image,
        machine: Machine,
        bodies: Bodies,
        callees: Sequence[Callee],
        transport: Sequence[Callee],
        *,
        alone: bool,
    ) -> None:
        super().__init__(image, bodies, callees, transport)
        self.machine = machine
        self._code = LibsslCode() if alone else self._part()

    def _part(self) -> LibsslCode:
        functions = (self.image.function(callee.name) for callee in self.callees)
        return static_code(self.image, self.bodies, [function.address for function in functions if function])

    def passing(self) -> list[int]:
        """The calls that take a reference for a callback."""
        return self.sites[_TAKES_A_REFERENCE]

    def fatal(self) -> ErrorFunction:
        """Of the hidden functions the one that breaks off."""
        return ErrorFunction(ErrorKind.FATAL, "ossl_statem_fatal", self._hidden.ossl_statem_fatal())

    def own_errors(self) -> list[ErrorFunction]:
        """Since OpenSSL 3.0 libssl's functions that break off call ERR_vset_error. Where libcrypto is in the same file, others
        do, too."""
        sites = [] if self.image.function(OWN_ERRORS) else self.sites[OWN_ERRORS]
        return [ErrorFunction(ErrorKind.OWN, OWN_ERRORS, site) for site in sites]

    def calls(self) -> Iterator[CallSite]:
        """Lookups and callbacks as well."""
        yield from self.phase_calls()
        yield from self.lookups()
        yield from self.callbacks()
        yield from self.transport_calls()

    def named(self) -> set[str]:
        """Those as well by whose calls the others are found."""
        return super().named() | hidden.NAMES | {_TAKES_A_REFERENCE, OPENS_TICKET, OWN_ERRORS, *_OF_TICKETS}

    @cached_property
    def sites(self) -> dict[str, list[int]]:
        """Those in libssl."""
        sites_by_name = calls_of(self.image, self.named(), self._code.within)
        return {name: [site for site in sites if self._inside(site)] for name, sites in sites_by_name.items()}

    def _inside(self, site: int) -> bool:
        start = self.bodies.function(site)
        return start is not None and self._code.holds(start)

    @cached_property
    def _hidden(self) -> Hidden:
        return Hidden(self.image, self.bodies, self._code, self.sites)

    def not_found(self, phase: Phase | Transport) -> str:
        """In libssl's words."""
        return _NOT_FOUND[Phase(phase)]

    def transport_calls(self) -> Iterator[CallSite]:
        """The reads and writes of handshakes alone; where these can't be told, all of libssl's."""
        try:
            methods = ssl_methods(self.image)
            calls = record_calls(self.image, self.machine, self.bodies, self._code, methods)
        except (Unplannable, ElfError):
            calls = {callee: self.sites_of(callee) for callee in self.transport}
        yield from self.transported(calls)

    def lookups(self) -> Iterator[CallSite]:
        """The calls of what looks a session up."""
        for name, find in ((TICKET, self._hidden.tls_decrypt_ticket), (CACHE, self._hidden.lookup_sess_in_cache)):
            try:
                start = find()
                if name == TICKET:
                    yield CallSite(Callee(Phase.SESSION_LOOKUP, OPENS_TICKET), self._opens_ticket(start))
            except (Unplannable, ElfError) as reason:
                self.missing.append(MissingPart(name, str(reason)))
                continue
            sites = self._calls_to(start)
            if not sites:
                self.missing.append(MissingPart(name, "nothing calls it"))
            yield from (CallSite(Callee(Phase.SESSION_LOOKUP, name), site) for site in sites)

    def _opens_ticket(self, start: int) -> int:
        """The call that the function at `start` makes only where the client sent a ticket that is long enough to be one."""
        sites = [site for site in self.sites[OPENS_TICKET] if self.bodies.function(site) == start]
        if len(sites) != 1:
            raise Unplannable(f"it has {len(sites) or 'no'} calls of {OPENS_TICKET}, where one is expected")
        return sites[0]

    def _calls_to(self, start: int, depth: int = 2) -> list[int]:
        """The calls of the function that begins at `start`, and of those that end in it by a tail call."""
        calling = []
        for site in calls_to(self.image, {start}, self._code.within)[start]:
            caller = self.bodies.function(site)
            if caller is None or not self._code.holds(caller):
                continue
            if depth and self.ends_in(caller, site):
                calling += self._calls_to(caller, depth - 1)
            else:
                calling.append(site)
        return calling

    def callbacks(self) -> Iterator[CallSite]:
        """The calls of the application's callbacks."""
        for name, path in callback_paths(self.image).items():
            if isinstance(path, str):
                self.missing.append(MissingPart(name, path))
                continue
            sites = self._calls_through(name, path)
            if not sites:
                self.missing.append(MissingPart(name, "no call of it is found"))
            yield from (CallSite(Callee(Phase.CALLBACKS, name), site) for site in sites)

    def _calls_through(self, name: str, path: CallbackPath) -> list[int]:
        """Those of the callback for a ticket's keys are where tickets are made and opened."""
        if name != TICKET_KEY:
            return calls_through(self.image, self.machine, self.bodies, (path[0], path[1]), self._code)
        starts = self.bodies.functions(site for callee in _OF_TICKETS for site in self.sites[callee])
        return calls_in(self.bodies, sorted(starts), path)
