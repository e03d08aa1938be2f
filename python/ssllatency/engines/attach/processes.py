# SPDX-License-Identifier: Apache-2.0
"""The processes of a request: who they are, what there is to say of them, and what follows those that come later."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from ssllatency.engines.attach.images import is_go
from ssllatency.engines.base import Request, TracedImage
from ssllatency.engines.bpf.executed import NOT_KNOWN, Executed
from ssllatency.engines.bpf.running import exists
from ssllatency.engines.clock import process_clock_ns
from ssllatency.engines.cost.around import Around
from ssllatency.engines.cost.meter import CostMeter
from ssllatency.engines.cost.spent import Spent
from ssllatency.engines.follow.following import Following
from ssllatency.engines.read.io_calls import IoCalls
from ssllatency.errors import SsllatencyError
from ssllatency.host.processors import tickless
from ssllatency.model.cost import PayingProcess, TracingCost
from ssllatency.model.sampling import Work
from ssllatency.model.snapshot import Target


class Processes:
    """The processes that one attachment traces, or several do that are attached to the same ones.

    `targets`, `notes`, `late` (those that ran before what they map was traced) and `others` (those that share the probes and
    aren't traced) are filled by whoever finds the processes.
    `of_go` are those that map a Go program, and some that have and are gone.
    `following` keeps the set of them, where the request asks for that and the machine can; `unfollowed` says why it can't.
    `meter` measures what their probes cost, where that is asked for.
    """

    def __init__(self, request: Request) -> None:
        self.targets: dict[int, Target] = {target.pid: target for target in request.targets}
        self.notes: list[str] = []
        self.late: set[int] = set()
        self.of_go: set[int] = set()
        self._late_forgotten = 0
        self.others: tuple[PayingProcess, ...] = ()
        self.when_ended: list[Callable[[Collection[int]], None]] = []  # what closes an attachment's links of processes
        self.following: Following | None = None
        self.unfollowed = ""
        clock = None if tickless() else process_clock_ns
        self._io_calls = None if request.everyone else IoCalls(clock=clock)  # of everyone only some would be known
        self.filtered = False  # whether others hit the probes, too
        self.meter: CostMeter | None = None
        if request.hit_costs and not request.floor:  # a budget needs it as soon as it begins
            self.meter = CostMeter(request.hit_costs, self._paying, when_needed=request.budget is not None)
        self.around = Around(self.targets, request.before) if self.meter and not request.everyone else None
        if request.following:
            self.following = request.following
        elif request.follow is not None:
            self._follow(request)

    def _follow(self, request: Request) -> None:
        assert request.follow is not None
        try:
            following = Following(request.follow, everyone=request.everyone)
        except SsllatencyError as error:
            self.unfollowed = str(error)
            return
        try:
            following.load()
        except SsllatencyError as error:
            following.close()
            self.unfollowed = str(error)
            return
        self.following = following

    def _paying(self) -> Collection[int] | None:
        """The processes that were traced so far, those among them that have ended; None for all that hit a probe."""
        if not self.filtered:
            return None
        return self.following.ever() if self.following else self.targets

    @property
    def executed(self) -> Executed:
        """The programs that processes have executed, as far as that is known."""
        return self.following.executed if self.following else NOT_KNOWN

    def note_images(self, images: Iterable[TracedImage]) -> None:
        """Takes it that the processes of these images map them."""
        for image in images:
            for pid in image.pids:
                self.note_mapping(pid, image)

    def note_mapping(self, pid: int, image: TracedImage) -> None:
        """Takes it that the process maps the image, whose links everyone may share."""
        if is_go(image):
            self.of_go.add(pid)

    def go_is_left(self) -> bool:
        """Whether a process of a Go program is there."""
        self.of_go = {pid for pid in self.of_go if exists(pid)}
        return bool(self.of_go)

    @property
    def were_late(self) -> int:
        """The number that were late, with those that are forgotten."""
        return len(self.late) + self._late_forgotten

    def forget(self, pids: Iterable[int]) -> None:
        """Takes processes that have ended out of the targets; those that were late stay counted."""
        for pid in pids:
            self.targets.pop(pid, None)
            self._late_forgotten += pid in self.late
            self.late.discard(pid)
            self.of_go.discard(pid)

    def measure(self) -> None:
        """Measures what has to be measured meanwhile; for many calls a second."""
        if self.meter:
            self.meter.tick(self.targets)

    def cost(self) -> TracingCost | None:
        """The cost of tracing so far, None where that isn't known."""
        cost = self.meter.read(self.targets) if self.meter else None
        if cost and self.others:
            cost = replace(cost, others=self.others)
        if cost and self.around:
            cost = replace(cost, attach_ns=self.attach_ns())
        seen = self.around.share() if self.around else None
        if cost is None or cost.cpu_ns is None or seen is None:
            return cost
        return replace(cost, seen_ns=round(seen * cost.cpu_ns))

    def spent(self) -> Spent | None:
        """The cost of tracing so far, by process too, and what the processes have used; None where it isn't measured."""
        return self.meter.spent(self.targets, each=True) if self.meter else None

    def spent_unhit(self) -> Spent | None:
        """The cost of tracing so far where no probe was hit since `spent` was asked, at next to no cost; None where one was."""
        return self.meter.spent_unhit() if self.meter else None

    def attach_ns(self) -> int:
        """The tracer's own processor time for setting the probes at first; 0 where that isn't measured."""
        return self.around.attach_ns if self.around else 0

    def tool_ns(self) -> int:
        """Processor time that tracing has taken beside hits: this process' own, and that of programs at tracepoints."""
        return time.process_time_ns() + (self.meter.elsewhere_ns() if self.meter else 0)

    def bursts(self) -> int:
        """Bursts, as Following counts them; 0 where nobody is followed."""
        return self.following.bursts if self.following else 0

    def work(self) -> Work:
        """The work of the processes so far."""
        io_calls = self._io_calls.total(self.targets) if self._io_calls else None
        spent = self.meter.spent(self.targets) if self.meter and self._io_calls else None
        if spent is None:
            return Work(io_calls)
        return Work(io_calls, max(0, spent.cpu_ns - spent.cost_ns), spent.cost_ns)

    def attach(self) -> None:
        """Has those followed that start from here on, where that is asked for."""
        if self.following:
            self.following.attach(self.targets)

    def release(self, pids: Collection[int]) -> None:
        """Has the links closed that processes had of their own which have ended."""
        for release in self.when_ended:
            release(pids)

    def close(self) -> None:
        """Ends that; may be called twice."""
        if self.meter:
            self.meter.close()
            self.meter = None
        if self.following:
            self.following.close()
