# SPDX-License-Identifier: Apache-2.0
"""The command that is run when a recording has been written: no shell takes part, so no name of a target is ever code; it gets
facts in its environment, none of our descriptors, and a limited time."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from ssllatency.errors import SsllatencyError
from ssllatency.output.printing import tell

_GRACE_S, _LOOK_S = 3.0, 0.05
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Action:
    """A command with its arguments. Its output goes to our standard error, as standard output has results."""

    def __init__(self, line: str, timeout_s: float) -> None:
        """SsllatencyError where the line has no program that can be run."""
        try:
            self._words = shlex.split(line)
        except ValueError as error:
            raise SsllatencyError(f"--run {line}: {error}.", 2) from None
        if not self._words or not shutil.which(self._words[0]):
            raise SsllatencyError(f"--run: there is no program {self._words[0] if self._words else 'in it'}.", 2)
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._until = 0.0

    def start(self, facts: Mapping[str, str]) -> None:
        """Runs it with these variables added to the environment. Not while it still runs for the incident before."""
        if self._process:
            tell(f"{self._words[0]} still runs for the incident before: it isn't run for this one.")
            return
        try:
            self._process = subprocess.Popen(
                self._words,
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno(),
                env={**os.environ, **facts},
                start_new_session=True,  # so that all it starts can be ended
                preexec_fn=_beginning(os.getpid()),
            )
        except OSError as error:
            tell(f"{self._words[0]} can't be run: {error.strerror}.")
            return
        self._until = time.monotonic() + self._timeout_s

    def look(self) -> None:
        """Call it several times a second: says how the command ended, and ends it when its time is over."""
        if not self._process:
            return
        status = self._process.poll()
        if status is None and time.monotonic() < self._until:
            return
        if status is None:
            tell(f"{self._words[0]} was ended after {self._timeout_s:g} s: --run-timeout gives it longer.")
            self._end(self._process)
        elif status:
            how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
            tell(f"{self._words[0]} {how}.")
        self._process = None

    def wait(self) -> None:
        """Waits for it, within its time."""
        while self._process:
            self.look()
            time.sleep(_LOOK_S)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_S)
        process.wait()


def _beginning(parent: int) -> Callable[[], None]:
    """The child's first step: it takes the signals that we keep blocked while we trace, and has the kernel kill it once
    we are gone, as nobody would end it when its time is over."""
    prctl = ctypes.CDLL(None).prctl

    def begin() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    return begin
