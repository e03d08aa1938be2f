# SPDX-License-Identifier: Apache-2.0
"""The calls inside BoringSSL's and AWS-LC's libssl that a handshake's phases are: OpenSSL's, but for those of callbacks and of
what looks a session up, which callbacks.py finds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cached_property

from ssllatency.code.flow import Unplannable
from ssllatency.elf.image import ElfError
from ssllatency.errors import phrase
from ssllatency.stacks.boringssl.callbacks import CallbackCalls
from ssllatency.stacks.boringssl.offers import GET_SESSION, PROCESS_TICKET
from ssllatency.stacks.openssl.handshake.code import OpenSslHandshakeCode
from ssllatency.stacks.phases import Callee, CallSite, MissingPart, Phase


class BoringSslHandshakeCode(OpenSslHandshakeCode):
    """The calls in the part of a program, or of a library, that is BoringSSL's libssl."""

    @cached_property
    def _found(self) -> CallbackCalls:
        return CallbackCalls(self.image, self.machine, self.bodies)

    def lookups(self) -> Iterator[CallSite]:
        """The calls of what opens a ticket, and of the application's callback for a session that it keeps. What the library
        looks up in its own cache isn't told from the rest."""
        yield from self._sites(Phase.SESSION_LOOKUP, PROCESS_TICKET, lambda: self._found.calls_of(self._found.process_ticket()))
        yield from self._sites(Phase.SESSION_LOOKUP, GET_SESSION, lambda: self._found.get_session())

    def callbacks(self) -> Iterator[CallSite]:
        """Those that SSL_CTX has, and the one that chooses a certificate."""
        try:
            finders = self._found.finders()
        except (Unplannable, ElfError) as reason:
            self.missing.append(MissingPart(Phase.CALLBACKS, phrase(reason)))
            return
        for name, find in finders.items():
            yield from self._sites(Phase.CALLBACKS, name, find)

    def _sites(self, phase: Phase, name: str, find: Callable[[], Collection[int]]) -> Iterator[CallSite]:
        try:
            sites = find()
        except (Unplannable, ElfError) as reason:
            self.missing.append(MissingPart(name, phrase(reason)))
            return
        if not sites:
            self.missing.append(MissingPart(name, "no call of it is found"))
        yield from (CallSite(Callee(phase, name), site) for site in sites)
