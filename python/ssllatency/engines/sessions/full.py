# SPDX-License-Identifier: Apache-2.0
"""Functions and whole handshakes of the same targets at the same time, by libbpf: the probes of both, and one set of processes.

Kernel memory: what trace.py and handshakes.py say, together. A call's time includes the other's probes in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from ssllatency.engines.attach.attachment import Attachment, detach_together
from ssllatency.engines.base import TracedImage
from ssllatency.engines.sessions.handshake_request import HandshakeRequest
from ssllatency.engines.sessions.handshakes import HandshakeSession
from ssllatency.engines.sessions.libbpf_engine import LibbpfEngine
from ssllatency.engines.sessions.trace import TraceSession
from ssllatency.model.arithmetic.snapshots import add_losses
from ssllatency.model.handshakes import Single
from ssllatency.model.snapshot import Snapshot


class FullSession:
    """Probes of functions and of handshakes. Counts in a snapshot are cumulative; the first `read` tells from where on.

    `attachment` is that of the functions; it grows with later processes.
    """

    abilities = TraceSession.abilities | HandshakeSession.abilities
    _functions: TraceSession
    _handshakes: HandshakeSession
    attachment: Attachment

    def __init__(self, request: HandshakeRequest) -> None:
        self._request = request
        self._opened = ExitStack()
        self._last: Snapshot | None = None
        self._per_interval = False  # as it was read the last time
        # By the number of an image in `attachment`, that of the same image to the handshakes; None where they don't have it.
        self._numbers: list[int | None] = list(range(len(request.base.images)))

    def attach(self) -> None:
        """Attaches the probes of both, or none. AttachError where the kernel refuses."""
        with ExitStack() as opened:
            self.attachment = Attachment(self._request.base, LibbpfEngine.object_name)
            self._functions = TraceSession(self.attachment, LibbpfEngine.name)
            opened.callback(self._functions.close)
            self._functions.attach(begin_windows=False)
            self._handshakes = HandshakeSession(self._request, beside=self.attachment)
            opened.callback(self._handshakes.close)
            self._handshakes.attach()
            self._functions.begin_windows(self._handshakes.gates)
            self._opened = opened.pop_all()

    def close(self) -> None:
        """Detaches and frees everything; may be called twice."""
        self._opened.close()

    def extend(self, images: Sequence[TracedImage]) -> None:
        """Attaches files that came later. AttachError where the kernel refuses, for both or for the handshakes alone."""
        self._functions.extend(images)
        first = len(self._handshakes.attachment.images)
        self._numbers += [None] * len(images)
        self._handshakes.extend(images)
        self._numbers[-len(images) :] = range(first, first + len(images))

    def include(self, index: int, pids: Iterable[int]) -> None:
        """Attaches the image of that number to processes that came later."""
        pids, number = list(pids), self._numbers[index]
        self._functions.include(index, pids)
        if number is not None:
            self._handshakes.include(number, pids)

    @property
    def ended(self) -> int:
        """The number of handshakes that have ended so far."""
        return self._handshakes.ended

    @property
    def in_flight(self) -> int:
        """The number of handshakes that have begun and not ended."""
        return self._handshakes.in_flight

    @property
    def events_dropped(self) -> int:
        """The number of handshakes, of those handed over one by one, that the ring had no room for so far."""
        return self._handshakes.events_dropped

    def poll(self) -> Sequence[Single]:
        """To be called several times a second: the handshakes over the bound since the last call, in the order they ended."""
        singles = self._handshakes.poll()
        self._functions.poll()
        return singles

    @property
    def due_s(self) -> float:
        """The time of the next poll, as for any source."""
        return self._functions.due_s

    @property
    def notes(self) -> Sequence[str]:
        """The sentences for the reader that have come up so far."""
        return self.attachment.notes

    @property
    def rests(self) -> bool:
        """Whether there is a budget, and nobody worked when it was last looked: then `poll` may be called twice a second."""
        return self._functions.rests

    def forget(self, pids: Collection[int]) -> None:
        """Frees the rows of processes that had ended before the last `read`; later snapshots are without their counts."""
        self._handshakes.forget(pids)
        self._functions.forget(pids)

    def read(self, *, per_interval: bool = False) -> Snapshot:
        """Everything counted so far; the extremes are those since the start, or since the last read."""
        if self._last:
            return self._last
        self._per_interval = per_interval
        functions = self._functions.read(per_interval=per_interval)
        handshakes = self._handshakes.read(per_interval=per_interval)
        left = max(0, handshakes.losses.left - functions.losses.left)  # these are calls of functions as well
        return replace(
            functions,
            missing=tuple(dict.fromkeys((*functions.missing, *handshakes.missing))),
            losses=add_losses(functions.losses, replace(handshakes.losses, left=left)),
            notes=tuple(dict.fromkeys((*functions.notes, *handshakes.notes))),
            handshakes=handshakes.handshakes,
        )

    def detach(self) -> None:
        """Removes the probes. What was counted by then can still be read: of both by the same time, with the extremes since the
        start, or since the last read if that was for an interval. May be called twice."""
        if self._last is None:
            self.poll()
            self._functions.finish_windows()
            self._last = self.read(per_interval=self._per_interval)
        self._handshakes.finish_windows()
        self._functions.finish_windows()
        detach_together([self._handshakes.attachment, self.attachment])
