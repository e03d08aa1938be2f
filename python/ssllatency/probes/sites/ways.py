# SPDX-License-Identifier: Apache-2.0
"""From chosen sites to probes: what a call pays that leaves by each, and whether it may have succeeded then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from ssllatency.code.flow import Graph, reachable
from ssllatency.code.return_values import constants
from ssllatency.data_class import dataclass
from ssllatency.elf.image import Image
from ssllatency.probes.plan import Leaving, Probe, Role
from ssllatency.probes.sites.entry import Site
from ssllatency.stacks.operation import ReturnValue


def probe(image: Image, graph: Graph, site: Site, role: Role) -> Probe:
    """The site as a probe of an operation."""
    return Probe(
        offset=image.file_offset(site.address),
        address=site.address,
        role=role,
        instruction=site.instruction.text,
        cost=site.cost,
        stack_delta=site.stack_delta,
        shared=role is Role.EXIT and graph.functions[site.address] in graph.shared,
    )


@dataclass(frozen=True)
class Ways:
    """The ways out of one operation by its exit sites."""

    image: Image
    graph: Graph
    exits: Sequence[Site]
    meaning: ReturnValue

    def probes(self) -> list[Probe]:
        """The exit sites as probes."""
        return [self._probe(site) for site in self.exits]

    def _probe(self, site: Site) -> Probe:
        ending = site.ending
        decides = ending.taken != ending.other
        return replace(
            probe(self.image, self.graph, site, Role.EXIT),
            return_register=next(iter(ending.registers), ""),
            condition=site.instruction.condition if decides else "",
            leaving=Leaving.TAKEN if ending.other is None else Leaving.OTHER if ending.taken is None else Leaving.BOTH,
            taken_value=ending.taken if isinstance(ending.taken, int) else None,
            other_value=ending.other if isinstance(ending.other, int) else None,
            passed=self._passed(site),
            fails=self._fails(site),
        )

    def _fails(self, site: Site) -> bool:
        """Whether all that may be returned there are constants of failed calls."""
        for value in (site.ending.taken, site.ending.other):
            possible = constants(self.graph, site.address, value, self.meaning.bits) if value is not None else set()
            if possible is None or any(self.meaning.is_success(constant) for constant in possible):
                return False
        return True

    def _passed(self, site: Site) -> int:
        """Return how many other sites a call passes at most before this one. None of them lies in a loop."""
        if site.address not in self._most_passed:
            before = [earlier for earlier in self._passable if site.address in self._ahead[earlier.address]]
            self._most_passed[site.address] = max((self._passed(earlier) + 1 for earlier in before), default=0)
        return self._most_passed[site.address]

    @cached_property
    def _most_passed(self) -> dict[int, int]:
        """The most of what _passed() has found."""
        return {}

    @cached_property
    def _passable(self) -> list[Site]:
        """The exits that a call may go on from. They are few."""
        return [site for site in self.exits if site.ending.goes_on]

    @cached_property
    def _ahead(self) -> dict[int, set[int]]:
        """The instructions that may be run after a branch went on in the direction in which it isn't left."""
        successors = self.graph.successors
        return {
            site.address: reachable(
                successors, [to for to in successors[site.address] if site.ending.towards(site.instruction, to) is None]
            )
            for site in self._passable
        }
