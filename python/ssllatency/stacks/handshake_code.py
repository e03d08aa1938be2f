# SPDX-License-Identifier: Apache-2.0
"""The parts of an image's code that make handshakes: the calls of a stack's functions that are phases."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property

from ssllatency.code.bodies import Bodies
from ssllatency.code.calls import calls_of
from ssllatency.code.flow import Unplannable
from ssllatency.code.machine import Flow
from ssllatency.elf.image import Image
from ssllatency.stacks.phases import Callee, CallSite, ErrorFunction, MissingPart, Phase, Transport


class HandshakeCode:
    """The calls of functions that have names, anywhere in the image. A stack that knows more derives its own from this."""

    library = "the library"
    """What calls them, in reasons."""

    def __init__(self, image: Image, bodies: Bodies, callees: Iterable[Callee], transport: Iterable[Callee]) -> None:
        self.image = image
        self.bodies = bodies
        self.callees = tuple(callees)
        self.transport = tuple(transport)
        self.missing: list[MissingPart] = []
        """What of calls() wasn't found, once all of them have been taken."""

    def passing(self) -> Collection[int]:
        """The addresses of calls of small functions, which a phase may begin in front of."""
        return ()

    def fatal(self) -> ErrorFunction | None:
        """The function that ends a handshake with an alert, None where the stack has none. Unplannable, or ElfError, where it
        can't be told."""
        return None

    def own_errors(self) -> Collection[ErrorFunction]:
        """The calls by which the library says why it breaks off, each with the function called and the call's address; none
        where all errors have to be watched to know that."""
        return ()

    def calls(self) -> Iterator[CallSite]:
        """The calls that are phases, and those that read and write; of those at one address the last counts."""
        yield from self.phase_calls()
        yield from self.transport_calls()

    def phase_calls(self) -> Iterator[CallSite]:
        """The calls of `callees`."""
        phases = set()
        for callee in self.callees:
            for site in self.sites_of(callee):
                phases.add(callee.phase)
                yield CallSite(callee, site)
        wanted = dict.fromkeys(callee.phase for callee in self.callees)
        self.missing += [MissingPart(phase, self.not_found(phase)) for phase in wanted if phase not in phases]

    def not_found(self, phase: Phase | Transport) -> str:
        """Return why a phase is missing of which no call was found."""
        return f"{self.library} doesn't call {' or '.join(callee.name for callee in self.callees if callee.phase == phase)}"

    def transport_calls(self) -> Iterator[CallSite]:
        """The calls of `transport`, but for those that are the last step of their function."""
        yield from self.transported({callee: self.sites_of(callee) for callee in self.transport})

    def transported(self, sites_by_callee: Mapping[Callee, Iterable[int]]) -> Iterator[CallSite]:
        """Those of these calls that something follows in their function."""
        found = {callee: list(sites) for callee, sites in sites_by_callee.items()}
        for phase in dict.fromkeys(callee.phase for callee in found):
            callees = [callee for callee in found if callee.phase == phase]
            if not any(found[callee] for callee in callees):
                names = " or ".join(callee.name for callee in callees)
                self.missing.append(MissingPart(phase, f"{self.library} doesn't call {names}"))
        for callee, sites in found.items():
            yield from (CallSite(callee, site) for site in sites if not self.is_last(site))

    def named(self) -> set[str]:
        """The functions whose call sites are looked for."""
        callees = (*self.callees, *self.transport)
        return {name for callee in callees for name in (callee.name, *callee.beside, *callee.never_beside)}

    @cached_property
    def sites(self) -> dict[str, list[int]]:
        """The addresses of the calls of the functions named()."""
        return calls_of(self.image, self.named())

    def sites_of(self, callee: Callee) -> list[int]:
        """Those of the callee's calls that count."""

        def functions(names: tuple[str, ...]) -> set[int]:
            return self.bodies.functions(site for name in names for site in self.sites[name])

        beside, never = functions(callee.beside), functions(callee.never_beside)
        return [
            site
            for site in self.sites[callee.name]
            if (start := self.bodies.function(site)) is None or ((start in beside or not callee.beside) and start not in never)
        ]

    def is_last(self, site: int) -> bool:
        """Whether the call is its function's last step, as in those that print: nothing follows it there."""
        caller = self.bodies.function(site)
        return caller is not None and self.ends_in(caller, site)

    def ends_in(self, caller: int, site: int) -> bool:
        """Whether the instruction at `site` leaves its function by a jump."""
        try:
            instruction = self.bodies.graph(caller).nodes.get(site)
        except Unplannable:
            return False
        return instruction is not None and instruction.flow is Flow.JUMP
