# SPDX-License-Identifier: Apache-2.0
"""A measurement as the rules see it: what its clients waited for, and the shares of that.

A client waits from its ClientHello's arrival on: for the wall time, and for the queue before the first call.
"""

from __future__ import annotations

from functools import cached_property

from ssllatency.data_class import dataclass
from ssllatency.model.arithmetic.handshake_sums import total
from ssllatency.model.handshakes import CLIENT_WAIT_PARTS, SAMPLED, Ending, Fact, Group, Handshakes, Part, RequestedSide
from ssllatency.reports.diagnosis.numbers import FEWEST, MUCH, ratio
from ssllatency.units import duration, share


@dataclass(frozen=True)
class Case:
    """The handshakes, and how long they were measured where that is known. All but those is of the successful ones, and nothing
    where there are too few of them to judge by."""

    handshakes: Handshakes
    duration_s: float | None = None

    @cached_property
    def group(self) -> Group | None:
        """The successful handshakes, where there are enough."""
        group = total(self.handshakes, Ending.SUCCESS)
        return group.estimated if group and group.count >= FEWEST else None

    @property
    def count(self) -> int:
        """Their number."""
        return self.group.count if self.group else 0

    @property
    def phased(self) -> int:
        """The number of them that had all their phases watched, session lookups among them."""
        return self.group.phased if self.group else 0

    def ns(self, *parts: Part) -> int:
        """The time that these parts took in all."""
        return self.group.total_ns(*parts) if self.group else 0

    def had(self, part: Part) -> int:
        """Return how many handshakes had the part; estimated, where it was watched in some of them only."""
        if not self.group or part not in self.group.parts:
            return 0
        count, phased = self.group.parts[part].count, self.group.phased
        return round(count * self.count / phased) if part in SAMPLED and phased else count

    @property
    def tells_sleep(self) -> bool:
        """Whether sleep is told from being ready to run, within the time off the processor: not in older measurements, which
        have no facts."""
        return bool(self.group and self.group.facts.keys() - {Fact.UNPHASED}) or self.had(Part.OFF_CPU_RUNNABLE) > 0

    def fact(self, fact: Fact) -> int:
        """The sum of a fact."""
        return self.group.facts.get(fact, 0) if self.group else 0

    @property
    def is_server(self) -> bool:
        """Whether all handshakes are those of a server with its clients."""
        return self.handshakes.role is RequestedSide.SERVER

    @property
    def own(self) -> str:
        """The traced side, as the subject of a sentence."""
        return "this server" if self.is_server else "this program"

    @property
    def own_work(self) -> str:
        """Its work in the library's calls."""
        return f"{'the server' if self.is_server else 'this program'}'s own work"

    @property
    def peers(self) -> str:
        """The other side."""
        return {RequestedSide.SERVER: "clients", RequestedSide.CLIENT: "servers", RequestedSide.ANY: "peers"}[
            self.handshakes.role
        ]

    @cached_property
    def wait_ns(self) -> int:
        """The time that the clients waited in all."""
        return self.ns(*CLIENT_WAIT_PARTS)

    def share(self, *parts: Part) -> float:
        """The share of that which these parts took."""
        return ratio(self.ns(*parts), self.wait_ns)

    def mean(self, *parts: Part) -> str:
        """The time of these parts in the mean handshake."""
        return duration(ratio(self.ns(*parts), self.count))

    def slowest_ns(self, *parts: Part) -> int:
        """The longest that any one of these parts took in a handshake; 0 where that isn't known of any."""
        times = [self.group.parts[part] for part in parts if part in self.group.parts] if self.group else []
        return max((one.max_ns or 0 for one in times), default=0)

    def much(self, floor_ns: int, *parts: Part) -> bool:
        """Whether these parts are much of what clients wait for, and no less than `floor_ns` a handshake: with its slowest
        handshake like the others as well, as a single stall says nothing about those."""
        return self.is_much(floor_ns, self.ns(*parts), slowest_ns=self.slowest_ns(*parts), weight=self.weight(*parts))

    def weight(self, *parts: Part) -> float:
        """The number of handshakes that each one stands for in which these parts were watched."""
        return self.count / self.phased if self.phased and {*parts} & {*SAMPLED} else 1

    def is_much(self, floor_ns: float, time_ns: float, fraction: float = MUCH, slowest_ns: int = 0, weight: float = 1) -> bool:
        """Whether so much time in all is, and would be if the handshake that had `slowest_ns` of it were like the others. Where
        that one stands for `weight` handshakes, the estimate has all of these have as much."""
        others_ns = max(0, ratio(time_ns - weight * slowest_ns, self.count - weight))
        stall_ns = max(0, slowest_ns - others_ns)
        left_ns = time_ns - weight * stall_ns
        return self.count > 0 and left_ns >= floor_ns * self.count and left_ns >= fraction * (self.wait_ns - stall_ns)

    def of_wait(self, time_ns: float) -> str:
        """Return how much of what clients wait for this is, as the subject of a sentence."""
        whole = "the time that clients wait" if self.handshakes.arrivals and self.is_server else "the handshakes' time"
        mean = f"{duration(ratio(time_ns, self.count))} of {duration(ratio(self.wait_ns, self.count))} a handshake"
        return f"{share(time_ns, self.wait_ns)} of {whole}, {mean},"
