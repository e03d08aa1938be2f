# SPDX-License-Identifier: Apache-2.0
"""Recordings of Java virtual machines, from the options of a command to a snapshot."""

from __future__ import annotations

import os
import platform
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime

from ssllatency.bounded_json import parsed
from ssllatency.errors import SsllatencyError, about_one_of_many
from ssllatency.fields import Field
from ssllatency.model.flight_recorder import FlightRecording, read_recording
from ssllatency.model.snapshot import Snapshot, Target
from ssllatency.output.printing import tell, tell_line
from ssllatency.stopping import STOP as SIGNALS
from ssllatency.stopping import end_if_asked, readable, wait_for
from ssllatency.targets import Process, Selection, mapped_files, select
from ssllatency.tracing.jfr.attach import open_jvm
from ssllatency.tracing.jfr.helper import STOP, be_helper
from ssllatency.units import counted

_JVM = "libjvm.so"
_MOST_JVMS = 32
_MOST_SAID = 1 << 20
_SAYS_S, _READS_S = 120.0, 180.0  # how long all helpers together may take to begin, and one to read what was recorded
_ENDS_S, _LOOK_S = 30.0, 0.02  # all helpers together to end, and how often it is looked whether one has


class HelperField(Field):
    """A field of what a helper says, which has read a file of the JVM's owner."""

    __slots__ = ()

    def error(self, must: str) -> SsllatencyError:
        return SsllatencyError(f"The recording of a JVM can't be read: {self.must_be(must)}.")


class JvmRecording:
    """One JVM's, begun by start() and ended by stop() or close()."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.error = ""
        self._telling = self._hearing = self._helper = -1
        self._said = b""

    def start(self, duration_s: float) -> None:
        """Has a process of its own begin it."""
        with ExitStack() as opened:
            jvm = open_jvm(self.process.pid)
            opened.callback(os.close, jvm.root)
            opened.callback(os.close, jvm.process)
            told, self._telling = os.pipe2(os.O_CLOEXEC)
            self._hearing, saying = os.pipe2(os.O_CLOEXEC)
            self._helper = os.fork()
            if not self._helper:
                os.close(self._telling)  # else it would never see that it is closed
                be_helper(jvm, told, saying, duration_s)
            os.close(told)
            os.close(saying)

    def has_begun(self, until_s: float) -> bool:
        """Waits until the JVM records, or has said why not, at most until this time by time.monotonic(). KeyboardInterrupt
        where a signal asks for the end meanwhile."""
        return self._line(until_s, stoppable=True).optional("started") is not None

    def stop(self) -> None:
        """Tells the helper to end it."""
        with suppress(OSError):
            os.write(self._telling, STOP)

    def read(self) -> FlightRecording | None:
        """The recording; None where that can't be had, as `error` says then."""
        line = self._line(time.monotonic() + _READS_S).optional("recording")
        if line is None:
            return None
        if isinstance(line.value, str):
            self.error = line.value
            return None
        return read_recording(line)

    def leave(self) -> None:
        """Has the helper end, and the recording before if it still runs."""
        for descriptor in (self._telling, self._hearing):
            if descriptor >= 0:
                os.close(descriptor)
        self._telling = self._hearing = -1

    def close(self, until_s: float | None = None) -> None:
        """Leaves the helper and waits for its end, until this time by time.monotonic() at most, as the JVM's user may have
        stopped it, or let it wait: then it is killed."""
        self.leave()
        if self._helper <= 0:
            return
        helper, self._helper = self._helper, -1
        until_s = time.monotonic() + _ENDS_S if until_s is None else until_s
        while not os.waitpid(helper, os.WNOHANG)[0]:
            if time.monotonic() >= until_s:
                os.kill(helper, signal.SIGKILL)  # it is our child, and nobody has waited for it
                os.waitpid(helper, 0)
                tell(
                    f"The process that speaks to the JVM {self.process.pid} didn't end, and was killed: a recording that still"
                    " runs there ends by itself."
                )
                return
            time.sleep(_LOOK_S)

    def _line(self, until_s: float, *, stoppable: bool = False) -> HelperField:
        """The next line of the helper's; an empty one where there is none, with the reason in `error`."""
        while b"\n" not in self._said and len(self._said) < _MOST_SAID:
            ready = (wait_for if stoppable else readable)([self._hearing], max(0.0, until_s - time.monotonic()))
            if stoppable:
                end_if_asked()
            piece = os.read(self._hearing, 1 << 16) if ready else b""
            if not piece:
                self.error = f"Speaking to the JVM {self.process.pid} took too much time or memory."
                return HelperField({})
            self._said += piece
        line, _, self._said = self._said.partition(b"\n")
        said = HelperField(parsed(line.decode(errors="replace")))
        error = said.optional("error")
        self.error = error.text() if error else ""
        return said


def record(selection: Selection, duration_s: float) -> Snapshot:
    """Records the selected JVMs for so long, or until a signal of STOP, which the caller has blocked. SsllatencyError where
    none can be recorded."""
    processes = _jvms(select(selection))
    with ExitStack() as stack:
        recordings = list[JvmRecording]()
        stack.callback(_close, recordings)
        for process in processes:
            recording = JvmRecording(process)
            recordings.append(recording)
            try:
                with about_one_of_many():
                    recording.start(duration_s)
            except SsllatencyError as error:
                recording.error = str(error)
        until_s = time.monotonic() + _SAYS_S
        begun = [recording for recording in recordings if not recording.error and recording.has_begun(until_s)]
        problems = [recording.error for recording in recordings if recording.error]
        if not begun:
            raise SsllatencyError(" ".join(dict.fromkeys(problems)))
        for problem in problems:
            tell(problem)
        started, began_s = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"), time.monotonic()
        tell_line(f"Recording handshakes in {counted(len(begun), 'JVM')} ... for {duration_s:g} s, Ctrl-C ends it sooner.")
        signal.sigtimedwait(SIGNALS, duration_s)
        took_s = time.monotonic() - began_s
        for recording in begun:
            recording.stop()
        read = [found for recording in begun if (found := recording.read())]
        problems += [recording.error for recording in begun if recording.error]
    return Snapshot(
        host=platform.node(),
        kernel=platform.release(),
        engine="jfr",
        started=started,
        duration_s=took_s,
        targets=tuple(Target(recording.process.pid, recording.process.comm, ()) for recording in begun),
        series=(),
        notes=tuple(dict.fromkeys(problems)),
        flight_recordings=tuple(read),
    )


def _close(recordings: Sequence[JvmRecording]) -> None:
    """Closes all, which have the same time for that: of no JVM's user the command waits longer for having named others."""
    for recording in recordings:
        recording.leave()
    until_s = time.monotonic() + _ENDS_S
    for recording in recordings:
        recording.close(until_s)


def _jvms(processes: Sequence[Process]) -> list[Process]:
    """Those that are JVMs. SsllatencyError where there is none, or are too many."""
    found = [process for process in processes if _is_jvm(process)]
    if not found:
        raise SsllatencyError("None of these processes is a Java virtual machine (libjvm.so): --jfr is for those.")
    if len(found) > _MOST_JVMS:
        raise SsllatencyError(f"These are {len(found)} JVMs: --jfr takes {_MOST_JVMS} at most, name fewer.")
    return found


def _is_jvm(process: Process) -> bool:
    try:
        return any(file.path.rpartition("/")[2] == _JVM for file in mapped_files(process.pid))
    except (OSError, SsllatencyError):
        return False
