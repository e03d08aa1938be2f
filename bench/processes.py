# SPDX-License-Identifier: Apache-2.0
"""How the cost of a hit grows with the number of traced processes, and what a process that isn't traced pays.

Every process is a pump that maps the same libssl. One of them works, the others only are there. The default is compared with
links of its own for each process.
"""

from __future__ import annotations

from bench.measuring.tracers import AGAIN, TRACE, Tracer, stock

COUNTS = (1, 8, 64, 500)
MOST_LINKS = 64  # processes with links of their own: the kernel's work to detach them grows with the square of their number
DEFAULT = "ssllatency"
EACH = "ssllatency --links process"
_KINDS = {DEFAULT: TRACE, EACH: (*TRACE, "--links", "process")}


def row_name(kind: str, processes: int) -> str:
    """A tracer of so many processes."""
    return f"{kind}, processes: {processes}"


def growing(most: int) -> list[Tracer]:
    """For each number of processes, up to `most`, the default and links for each process where that can be done in time."""
    tried = ((kind, count) for count in COUNTS for kind in _KINDS if count <= (MOST_LINKS if kind == EACH else most))
    return [
        Tracer(AGAIN),
        *(Tracer(row_name(kind, count), _KINDS[kind], processes=count) for kind, count in tried if count <= most),
    ]


def unrelated() -> list[Tracer]:
    """The tracers of a process, by whose side another one maps the same libssl. ssllatency.bt traces the whole machine."""
    return [Tracer(AGAIN), *(Tracer(kind, command) for kind, command in _KINDS.items()), *stock()]
