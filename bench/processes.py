# SPDX-License-Identifier: Apache-2.0
"""How the cost of a hit grows with the number of traced processes, and what a process that isn't traced pays.

Every process is a pump that maps the same libssl. One of them works, the others only are there. Links of its own for each
process are compared with one link for all and a filter in the program.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from tracers import ROOT, STOCK, Tracer, attached, tracers
from works import Cpus, Pump

COUNTS = (1, 8, 64, 500)
MOST_LINKS = 64  # processes with links of their own: the kernel's work to detach them grows with the square of their number
LINKS = {"process": "a link each", "shared": "one link, filter"}
TURNS, BATCHES = 5_000, 3


@dataclass
class Growth:
    """Nanoseconds a call of the traced pump by (processes, kind of links), and of an untraced one by tracer."""

    plain: list[float] = field(default_factory=list)
    traced: dict[tuple[int, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    unrelated: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


def measure(program: Path, cpus: Cpus, directory: Path, rounds: int, most: int) -> Growth:
    """All cases in turn, `rounds` times; with at most `most` processes."""
    growth = Growth()
    with ExitStack() as stack:
        pumps = [stack.enter_context(Pump(program, cpus.server)) for _ in range(min(most, COUNTS[-1]))]
        for _ in range(rounds):
            growth.plain.append(_fastest(pumps[0]))
            for count in (count for count in COUNTS if count <= most):
                for links in LINKS if count <= MOST_LINKS else ("shared",):
                    with attached(_tracer(pumps[:count], links), pumps[0].pid, directory):
                        growth.traced[count, links].append(_fastest(pumps[0]))
            _measure_unrelated(growth, pumps[:2], directory)
    return growth


def _measure_unrelated(growth: Growth, pumps: list[Pump], directory: Path) -> None:
    """The second pump is never named; ssllatency.bt traces the whole machine."""
    stock = next(tracer for tracer in tracers() if tracer.name == STOCK)
    for name, tracer in ((LINKS["process"], _tracer(pumps[:1], "process")), (LINKS["shared"], _tracer(pumps[:1], "shared"))):
        with attached(tracer, pumps[0].pid, directory):
            growth.unrelated[name].append(_fastest(pumps[1]))
    with attached(stock, pumps[0].pid, directory):
        growth.unrelated[STOCK].append(_fastest(pumps[1]))


def _fastest(pump: Pump) -> float:
    pump.run(TURNS)
    return min(pump.run(TURNS) for _ in range(BATCHES))


def _tracer(pumps: list[Pump], links: str) -> Tracer:
    named = [word for pump in pumps for word in ("-p", str(pump.pid))]
    command = (str(ROOT / "tools" / "ssllatency"), "trace", *named, "--links", links, "-d", "600", "--json")
    return Tracer(f"ssllatency, {LINKS[links]}", command)


def table(growth: Growth) -> str:
    """What is added to a call of a traced process, by number of processes."""
    plain = median(growth.plain)
    head = "| traced processes | " + " | ".join(f"{name}: added ns a call" for name in LINKS.values()) + " |"
    lines = [head, "| ---: | " + " | ".join("---:" for _ in LINKS) + " |"]
    for count in sorted({count for count, _ in growth.traced}):
        cells = (_added(growth.traced.get((count, links)), plain) for links in LINKS)
        lines.append(f"| {count} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _added(costs: list[float] | None, plain: float) -> str:
    return f"{median(costs) - plain:,.0f}" if costs else "-"


def unrelated_table(growth: Growth) -> str:
    """What a process pays that isn't traced, while another one is."""
    plain = median(growth.plain)
    lines = ["| tracer | ns a call of the other process | of its speed kept |", "| --- | ---: | ---: |"]
    for name, costs in {"no tracing": growth.plain, **growth.unrelated}.items():
        label = name if name in ("no tracing", STOCK) else f"ssllatency, {name}"
        lines.append(f"| {label} | {median(costs):,.0f} | {plain / median(costs):.0%} |")
    return "\n".join(lines)
