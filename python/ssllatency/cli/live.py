# SPDX-License-Identifier: Apache-2.0
"""What the commands share that trace processes while they run: privileges, signals, the first words, the end."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from ssllatency.cli import doctor as doctor_command
from ssllatency.cli.follow import Follower
from ssllatency.cli.resolve import Resolved
from ssllatency.engines import choice, doctor
from ssllatency.probes.catalogue import BY_NAME
from ssllatency.reports.units import printable

STOP = {signal.SIGINT, signal.SIGTERM}
_LOOK_AGAIN_S = 0.5  # how often it is seen that all targets have ended
_FOLLOW_S = 0.05  # how long a signal may wait while the kernel's notices of later processes are waited for


def prepare(engine: str = doctor.DEFAULT_ENGINE) -> str:
    """The name of the engine to trace by; SsllatencyError where this machine can't trace by it, or with "auto" by any.

    From here on the signals of STOP end only the waits below: no probe is left half attached by one that comes early.
    """
    here = doctor_command.host()
    chosen = choice.choose(engine, lambda name: doctor.lacking(here, name))
    if chosen.why:
        print(f"ssllatency: {printable(chosen.why)}", file=sys.stderr)
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP)
    return chosen.name


def stop_is_asked_for() -> bool:
    """Whether one of the signals has come."""
    return bool(signal.sigpending() & STOP)


def announce(resolved: Resolved, duration: float | None, what: str = "") -> None:
    """Says on standard error that the probes are attached, and what couldn't be looked at. `what` is traced, else functions."""
    planned = (planned.operation for image in resolved.images for planned in image.plan.operations)
    functions = {name for name in planned if not BY_NAME[name].only_entry}
    pids = len(resolved.targets)
    whom = "every process" if resolved.everyone else f"{pids} process{'es' if pids != 1 else ''}"
    until = "Ctrl-C ends it" if duration is None else f"for {duration:g} s, Ctrl-C ends it sooner"
    for warning in (*resolved.warnings, *resolved.notes):
        print(f"ssllatency: {printable(warning)}", file=sys.stderr)
    number = f"{len(functions)} function{'s' if len(functions) != 1 else ''}"
    if not resolved.images:
        what = "nothing yet: no TLS library is mapped"
    print(f"Tracing {what or number} in {whom} ... {until}.", file=sys.stderr, flush=True)


class Ending:
    """When a run is to end: after so long, at a signal, or once all traced processes have ended. Meanwhile `follower` looks."""

    def __init__(self, resolved: Resolved, duration: float | None, follower: Follower | None = None) -> None:
        self.at = time.monotonic() + duration if duration else float("inf")
        self._resolved, self._look, self._over = resolved, time.monotonic() + _LOOK_AGAIN_S, False
        self._follower = follower

    def has_come(self) -> bool:
        """Whether the run is over. Looks for the processes only now and then."""
        now = time.monotonic()
        if self._over or stop_is_asked_for() or now >= self.at:
            return True
        if self._follower:
            self._follower.look()
        if now >= self._look:
            self._look = now + _LOOK_AGAIN_S
            self._over = self._all_have_ended()
        return self._over

    def wait(self, until: float) -> bool:
        """Waits until then, or until the end; whether it was the end."""
        while (left := min(until, self.at) - time.monotonic()) > 0:
            if self._wait(left) or self.has_come():
                return True
        return time.monotonic() >= self.at

    def _wait(self, seconds: float) -> bool:
        """Waits so long at most; whether a signal came, which is taken."""
        if self._follower is None:
            return signal.sigtimedwait(STOP, min(seconds, _LOOK_AGAIN_S)) is not None
        self._follower.wait(min(seconds, _FOLLOW_S))
        return False

    def _all_have_ended(self) -> bool:
        resolved = self._resolved
        if self._follower:
            left = self._follower.anyone_left()
        else:
            left = resolved.everyone or any(Path(f"/proc/{target.pid}").exists() for target in resolved.targets)
        if not left:
            print("ssllatency: all traced processes have ended.", file=sys.stderr)
        return not left
