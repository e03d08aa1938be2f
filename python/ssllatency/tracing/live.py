# SPDX-License-Identifier: Apache-2.0
"""Common parts of the commands that trace processes while they run: privileges, signals, the first words, the end."""

from __future__ import annotations

import argparse
import gc
import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from ssllatency.engines import choice, doctor, resources
from ssllatency.engines.base import Request
from ssllatency.engines.source import Attached, Source
from ssllatency.errors import SsllatencyError
from ssllatency.model.snapshot import Snapshot
from ssllatency.output.printing import tell, tell_line
from ssllatency.output.progress import Progress
from ssllatency.probes.catalogue import BY_NAME
from ssllatency.probes.costs import HitCosts
from ssllatency.stopping import STOP, end_if_asked, stop_is_asked_for, wait_for
from ssllatency.targets import Selection, exists
from ssllatency.tracing.resolve import Resolved, resolve
from ssllatency.tracing.stuck import end_if_stuck
from ssllatency.units import counted

if TYPE_CHECKING:
    from ssllatency.engines.follow.following import Following
    from ssllatency.model.handshakes import Single
    from ssllatency.tracing.follow import Follower

_LOOK_AGAIN_S = 0.5  # how often it is seen that all targets have ended
_LOOK_S = 0.1  # how often what comes one by one is taken from the kernel
_LOOK_AT_WINDOWS_S = 0.2  # the same where tracing is to cost little, and does too much: so does a look, of the whole machine
_LEAST_PAUSE_S = 0.01
_FOLLOW_S = 0.2  # how long a signal may wait while the kernel's notices of later processes are waited for
_FIRST_LOOKS_S = 0.04  # in which looks come close together
_FRESH_S = 0.02  # what was looked at so recently isn't looked at again


def prepare(engine: str = doctor.DEFAULT_ENGINE) -> str:
    """The name of the engine to trace by; SsllatencyError where this machine can't trace by it, or with "auto" by any.

    From here on the signals of STOP end only the waits below: no probe is left half attached by one that comes early. Until
    announce() or resume_collector() Python's collector rests, which finds no garbage in what a start makes, and took a tenth of
    it.
    """
    host = doctor.this_host()
    chosen = choice.choose(engine, lambda name: doctor.lacking(host, name))
    if chosen.why:
        tell(chosen.why)
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP)
    resources.take_all_files()
    resources.make_room_for_files()
    end_if_stuck()
    gc.disable()
    return chosen.name


def resolved_ahead(
    selection: Selection,
    arguments: argparse.Namespace,
    stack: ExitStack,
    *,
    handshakes: bool = False,
    functions: bool = True,
    modules: Sequence[str] = (),
    load: Callable[[Resolved], None] | None = None,
    choose: Callable[[Resolved], Resolved] = lambda resolved: resolved,
) -> Resolved:
    """Return what to trace, from resolve(); what an attachment needs anyway is loaded while files are planned:
    `modules`, which the caller imports once this is done, and what follows later processes. `load` may have more loaded, and
    gets what is known before any file is. `choose` leaves out what isn't to be traced, or raises SsllatencyError."""

    def load_early(known: Resolved, stack: ExitStack) -> Following | None:
        end_if_asked()
        from ssllatency.tracing.follow import load_early

        def bring_in() -> None:
            for module in modules:
                end_if_asked()
                import_module(module)
                known.source.hear()
            end_if_asked()

        following = load_early(known.selection, stack, wait=getattr(arguments, "wait", False), meanwhile=bring_in)
        if load and following:
            with suppress(SsllatencyError):  # which is said when it is loaded for good
                load(replace(known, following=following))
        return following

    resolved = choose(resolve(selection, arguments, stack, handshakes=handshakes, functions=functions, load_early=load_early))
    end_if_asked()
    from ssllatency.tracing.links.changed_code import spared

    return spared(resolved, request(resolved, arguments), arguments)


def announce(resolved: Resolved, duration: float | None, what: str = "") -> None:
    """Says on standard error that the probes are attached, and what couldn't be looked at. `what` is traced, else functions."""
    planned = (planned.operation for image in resolved.images for planned in image.plan.operations)
    functions = {name for name in planned if not BY_NAME[name].only_entry}
    whom = "every process" if resolved.everyone else counted(len(resolved.targets), "process")
    whom = "processes that come later" if resolved.waits else whom
    since = " from the first process's arrival on" if resolved.waits else ""
    until = "Ctrl-C ends it" if duration is None else f"for {duration:g} s{since}, Ctrl-C ends it sooner"
    for warning in (*resolved.warnings, *resolved.notes):
        tell(warning)
    if resolved.images:
        tell_line(f"Tracing {what or counted(len(functions), 'function')} in {whom} ... {until}.")
    else:
        tell_line(f"Tracing nothing yet, as no process maps a TLS library: {until}.")
    resources.trim_heap()
    resume_collector()


def resume_collector() -> None:
    """Has Python's collector go on, which has rested since prepare(). It won't look at what a start has made."""
    gc.freeze()
    gc.enable()


def take_first_looks(source: Source, wait: Callable[[float], object] | None = None) -> list[Single]:
    """Poll as the first looks of a budget are due, as poll() does: what is imported next mustn't delay them, as until then all
    pay in full who share the probes. `wait` waits so many seconds, or until the caller has something else to do, which it
    says."""
    until_s = time.monotonic() + _FIRST_LOOKS_S
    singles = list(source.poll())
    while source.due_s <= until_s and (now := time.monotonic()) < until_s and not stop_is_asked_for():
        if (wait or time.sleep)(max(0.0, source.due_s - now)):
            break
        singles += source.poll()
    return singles


def request(resolved: Resolved, arguments: argparse.Namespace) -> Request:
    """Return the request of the options that all these commands have."""
    from ssllatency.engines.attach.links import needs_own_links
    from ssllatency.tracing.follow import childless, rules_for

    wait = getattr(arguments, "wait", False)
    asked = Request(
        resolved.images,
        resolved.targets,
        resolved.everyone,
        following=resolved.following,
        childless=childless(resolved.selection),
        role=arguments.role,
        method=arguments.attach,
        links=arguments.links,
        wait=wait,
        maximum_processes=getattr(arguments, "max_processes", Request.maximum_processes),
        hit_costs=partial(_hit_costs, keep=not arguments.no_cache),
        budget=getattr(arguments, "budget", None),
        before=resolved.before,
        spares=bool(resolved.spared),
        extremes=getattr(arguments, "extremes", True),
        linking=resolved.linking,
    )
    return replace(asked, follow=rules_for(resolved.selection, wait=wait or needs_own_links(asked)))


def _hit_costs(*, keep: bool) -> HitCosts | None:
    from ssllatency.tracing.hit_costs import of_this_machine  # not before the probes are attached

    return of_this_machine(keep=keep)


class RunEnd:
    """The end of a run: after so long, at a signal, or once all traced processes have ended. Meanwhile `follower` looks.

    `at` is when by the monotonic clock, as far as that is known: a run that waits for processes lasts from the arrival of the
    first one.
    """

    def __init__(self, resolved: Resolved, duration: float | None, follower: Follower | None = None) -> None:
        self._duration = duration or math.inf
        self._began = bool(follower is None or follower.arrived)
        self.at = time.monotonic() + self._duration if self._began else math.inf
        self._resolved, self._look, self._over = resolved, time.monotonic() + _LOOK_AGAIN_S, False
        self._follower, self._looked_s, self._bursts = follower, 0.0, 0
        self._progress = Progress(duration, exact=True) if duration else None

    def has_come(self) -> bool:
        """Whether the run is over. Looks for the processes only now and then."""
        now = time.monotonic()
        if self._over or stop_is_asked_for() or now >= self.at:
            return True
        if self._follower:
            if now - self._looked_s > _FRESH_S:
                self._follower.look()
            if not self._began and self._follower.arrived:
                self._began, self.at = True, now + self._duration
        if now >= self._look:
            self._look = now + _LOOK_AGAIN_S
            self._resolved.gather()
            self._over = self._all_have_ended()
        return self._over

    def wait(self, until: float) -> bool:
        """Waits until then, until the end, or until there is a burst of hits to look at; whether it was the end. It sees that
        even where it needn't wait."""
        is_over = self._waited(until)
        if is_over and self._progress:
            self._progress.close()
        return is_over

    def _waited(self, until: float) -> bool:
        if self.has_come():
            return True
        while (left := min(until, self.at) - time.monotonic()) > 0:
            if self._progress and self._began:
                self._progress.show(self._duration - (self.at - time.monotonic()), "Ctrl-C ends it sooner")
            if self._wait(left) or self.has_come():
                return True
            if self._is_hit():
                return False
        return time.monotonic() >= self.at

    def _wait(self, seconds: float) -> bool:
        """Waits so long at most; whether a signal came, which is taken."""
        if self._follower is None:
            return signal.sigtimedwait(STOP, min(seconds, _LOOK_AGAIN_S)) is not None
        self._follower.wait(min(seconds, _FOLLOW_S))
        self._looked_s = time.monotonic()
        return False

    def wait_for(self, descriptor: int, seconds: float) -> None:
        """Waits until the descriptor can be read, a signal comes, or something needs a look, as a burst of hits does; at most
        so long."""
        if self._follower is None:
            wait_for([descriptor], seconds)
        else:
            self._follower.wait(seconds, descriptor)
            self._looked_s = time.monotonic()

    def _is_hit(self) -> bool:
        """Whether probes were hit many times since this was asked."""
        bursts, self._bursts = self._bursts, self._follower.bursts if self._follower else 0
        return self._bursts > bursts

    def _all_have_ended(self) -> bool:
        resolved = self._resolved
        if self._follower:
            left = self._follower.anyone_left()
        else:
            left = resolved.everyone or any(exists(target.pid) for target in resolved.targets)
        if not left:
            tell("all traced processes have ended.")
        return not left


def pause_s(due_s: float, most_s: float) -> float:
    """Return how long may be waited until a source is polled: so long, or less where that is due."""
    return min(most_s, max(_LEAST_PAUSE_S, due_s - time.monotonic()))


def look_pause_s(due_s: float) -> float:
    """Return how long may be waited until a source is polled that hands handshakes over one by one."""
    return pause_s(due_s, _LOOK_S if due_s == math.inf else _LOOK_AT_WINDOWS_S)


def snapshots(
    source: Attached,
    end: RunEnd,
    interval: float | None,
    look: Callable[[], object] | None = None,
    earlier: Snapshot | None = None,
) -> Iterator[Snapshot]:
    """The whole run as one snapshot, or one for each interval; then the probes are gone. `look` is called many times a second,
    and once more before each snapshot. What was counted by `earlier` isn't in the first."""
    from ssllatency.model.arithmetic.snapshots import difference  # not before the probes are attached

    for later in readings(source, end, interval, look):
        yield later if earlier is None else difference(later, earlier)
        earlier = later


def readings(
    source: Attached, end: RunEnd, interval: float | None, look: Callable[[], object] | None = None
) -> Iterator[Snapshot]:
    """All that was counted so far, after each interval and at the end, by snapshots()."""
    stopped = False
    border = time.monotonic() + (interval or math.inf)
    while not stopped:
        pause = look_pause_s(source.due_s) if look else math.inf
        due = border if border < end.at else math.inf  # the last interval ends with the run, with no moment left for one more
        stopped = end.wait(min(due, time.monotonic() + pause))
        if stopped:
            source.detach()
        if look:
            look()
        if not stopped and time.monotonic() < due:
            continue
        yield source.read(per_interval=interval is not None)
        border += interval or 0
        if border <= (now := time.monotonic()):
            border = now + (interval or 0)  # no burst of short ones after one that took too long
