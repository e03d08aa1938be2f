# SPDX-License-Identifier: Apache-2.0
"""The calls inside libgnutls that a handshake's phases are: of the functions around keys, which have names; of key exchange's,
through the library's table of public-key functions; and of those by which the session reads and writes, through the pointers
that the application may set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ssllatency.code.bodies import Bodies
from ssllatency.code.machine import Machine
from ssllatency.code.pointer_calls import calls_through_field
from ssllatency.code.table_calls import TableCalls
from ssllatency.elf.image import Image, Range
from ssllatency.stacks.gnutls.connection import transport_pointers
from ssllatency.stacks.handshake_code import HandshakeCode
from ssllatency.stacks.phases import Callee, CallSite, MissingPart, Phase, Transport

_PHASES = {
    "gnutls_transport_set_pull_function": Transport.WAIT_PEER,
    "gnutls_transport_set_pull_timeout_function": Transport.WAIT_PEER,
    "gnutls_transport_set_push_function": Transport.WAIT_WINDOW,
    "gnutls_transport_set_vec_push_function": Transport.WAIT_WINDOW,
}
_WAITS = {Transport.WAIT_PEER: "pull function", Transport.WAIT_WINDOW: "push function"}

# Offsets in gnutls_crypto_pk_st, of lib/crypto-backend.h, where exported functions call through it in this order. In GnuTLS 3.8
# two more functions stand before the next one of which that can be told.
_KNOWN = {"gnutls_x509_privkey_sign_hash": 0x18, "gnutls_x509_privkey_generate2": 0x38, "gnutls_x509_privkey_import": 0x48}
_NEXT = "gnutls_ecc_curve_list"
_EXCHANGE = {0x38: "_gnutls_pk_generate_keys", 0x50: "_gnutls_pk_derive"}
_ENCAPSULATION = {0x58: "_gnutls_pk_encaps", 0x60: "_gnutls_pk_decaps"}
_BEHIND_ENCAPSULATION = 0x68


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

    def phase_calls(self) -> Iterator[CallSite]:
        """Those of functions that have names, and of key exchange's."""
        yield from super().phase_calls()
        sites = self._exchange_sites()
        if not sites:
            reason = "no exported function shows the table of public-key functions"
            self.missing.append(MissingPart(Phase.KEY_EXCHANGE, reason))
        yield from (CallSite(Callee(Phase.KEY_EXCHANGE, name), site) for site, name in sorted(sites.items()))

    def _exchange_sites(self) -> dict[int, str]:
        """The calls through the table that agree on keys, with what they call."""
        calls = TableCalls(self.image, self._machine, self.bodies)
        slots = {
            name: set(calls.of_function(function.address).values())
            for name in (*_KNOWN, _NEXT)
            if (function := self.image.function(name))
        }
        tables = [{table for table, offset in slots.get(name, ()) if offset == known} for name, known in _KNOWN.items()]
        common = set.intersection(*tables)
        if len(common) != 1:
            return {}
        table = common.pop()
        functions = _EXCHANGE | (_ENCAPSULATION if (table, _BEHIND_ENCAPSULATION) in slots.get(_NEXT, ()) else {})
        return {site: functions[offset] for site, offset in calls.through(table, functions).items()}

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
