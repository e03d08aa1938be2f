# SPDX-License-Identifier: Apache-2.0
"""The calls of a stack's functions that are phases of a handshake."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ssllatency.code.bodies import Bodies
from ssllatency.stacks.phases import Callee


def names_of(callees: Iterable[Callee]) -> set[str]:
    """The functions whose sites calls() has to know."""
    return {name for callee in callees for name in (callee.name, *callee.beside, *callee.never_beside)}


def calls(callee: Callee, sites: Mapping[str, list[int]], bodies: Bodies) -> list[int]:
    """Those of the callee's sites that count. `sites` are those of names_of()."""

    def functions(names: tuple[str, ...]) -> set[int]:
        return bodies.functions(site for name in names for site in sites[name])

    beside, never = functions(callee.beside), functions(callee.never_beside)
    return [
        site
        for site in sites[callee.name]
        if (start := bodies.function(site)) is None or ((start in beside or not callee.beside) and start not in never)
    ]
