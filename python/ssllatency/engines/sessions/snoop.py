# SPDX-License-Identifier: Apache-2.0
"""Single calls by the libbpf engine: the object snoop.bpf.o, its ring buffer, and what the records in it mean.

Kernel memory: the ring, 8 MiB where nothing else is asked for, and room for calls that run (docs/measured/memory.md).
"""

from __future__ import annotations

import ctypes
import math
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ssllatency import abi
from ssllatency.abi import Convention
from ssllatency.data_class import dataclass
from ssllatency.engines.attach.attachment import Attachment
from ssllatency.engines.attach.sites import argument
from ssllatency.engines.base import Request, TracedImage
from ssllatency.engines.bpf.ring import HEADER, Ring, ring_size
from ssllatency.engines.budget.windows import Windows
from ssllatency.engines.read.collect import OUTCOMES, REASONS
from ssllatency.engines.read.who import Texts
from ssllatency.engines.sessions import who
from ssllatency.engines.sessions.handshake_sites import labelled
from ssllatency.engines.sessions.windowed import ending_if_refused, windows_of
from ssllatency.engines.source import Ability
from ssllatency.model.events import Call, Caller, Event, Returned
from ssllatency.model.handshakes import NONE, WHO, Label, PeerPrefix, Single
from ssllatency.model.sampling import Sampling
from ssllatency.model.snapshot import Outcome, Snapshot
from ssllatency.probes.catalogue import BY_NAME
from ssllatency.probes.plan import OperationPlan, Role
from ssllatency.stacks.operation import Tier

RING_BYTES = 1 << 23
_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}  # of the module struct, by bytes


def _code(kind: Any) -> str:
    """Return the code of a member of a record in a format of the module struct."""
    size = ctypes.sizeof(kind)
    if issubclass(kind, ctypes.Array):
        return f"{size}s"
    return _CODES[size].lower() if kind(-1).value < 0 else _CODES[size]


def _members(*names: str) -> struct.Struct:
    """These members of abi.Event, in this order."""
    kinds: dict[str, Any] = {name: kind for name, kind, *_ in abi.Event._fields_}
    return struct.Struct("<" + "".join(_code(kinds[name]) for name in names))


# A record of the ring holds these members of abi.Event; those of the caller, and those of the call, are read as one value.
_MEASURED = _members("ended_ns", "duration_ns", "returned", "bytes")
_CALLER = _members("tgid", "tid", "comm")
_CALL = _members("operation", "outcome", "reason")
_WHO = _members("known", "who")
_WITHOUT_WHO = f"{HEADER}x{_MEASURED.format[1:]}{_CALLER.size}s{_CODES[_CALL.size]}"
_RECORD = struct.Struct(f"<{_WITHOUT_WHO}{_members('known').size}x")
_RECORD_WITH_WHO = struct.Struct(f"<{_WITHOUT_WHO}{_WHO.size}s")
_MOST_TEXTS = 4096  # of each label
_SMALL_BATCH = 1 << 16  # bytes: they take some milliseconds to print
_RETURNED = {
    Convention.POINTER: Returned.POINTER,
    Convention.MBX8: Returned.STATUS,
    Convention.NONE: Returned.NOTHING,
}


@dataclass(frozen=True)
class EventFilter:
    """The calls that become events; the kernel side drops the others."""

    minimum_ns: int = 0
    outcomes: frozenset[Outcome] = frozenset(Outcome)


@dataclass(frozen=True)
class Whom:
    """Labels of who shook hands that are wanted, in calls that end a handshake."""

    by: tuple[Label, ...]
    peer_prefix: PeerPrefix


class EventKeys:
    """Meanings of the keys of events."""

    def __init__(self, operations: list[str], by: Sequence[Label] = (), texts: Texts | None = None) -> None:
        self._operations, self._by, self._texts = operations, by, texts or Texts(tuple)

    def whom(self, key: bytes) -> dict[Label, str | None]:
        """Return who shook hands; nothing for a call that ends no handshake."""
        known, content = _WHO.unpack(key)
        values = struct.unpack(f"<{len(WHO)}I", content)
        if not known:
            return {}
        return {label: self._value(label, known, value) for label, value in zip(WHO, values, strict=True) if label in self._by}

    def _value(self, label: Label, known: int, value: int) -> str | None:
        if not known >> abi.Label[label.name] & 1:
            return None
        if label is Label.PORT:
            return str(value) if value else NONE
        return self._texts.of(value)

    def caller(self, key: bytes) -> Caller:
        """The caller of this key."""
        pid, tid, comm = _CALLER.unpack(key)
        return Caller(pid, tid, comm.split(b"\0")[0].decode(errors="replace"))

    def call(self, key: int) -> Call:
        """The call of this key: operation, outcome and reason as they lie in the record."""
        operation, outcome, reason = _CALL.unpack(key.to_bytes(_CALL.size, "little"))
        name = self._operations[operation]
        kind = _RETURNED.get(BY_NAME[name].convention, Returned.NUMBER)
        why = "" if reason == abi.Reason.NONE else REASONS.get(reason, "unknown")
        return Call(name, kind, OUTCOMES[abi.Outcome(outcome)], why)


def events_of(batch: bytes) -> Iterator[Event]:
    """The events in a batch of the ring."""
    return _RECORD.iter_unpack(batch)


def events_with_whom(batch: bytes) -> Iterator[tuple[int, int, int, int, bytes, int, bytes]]:
    """The events in a batch of a session that tells who shook hands: each with the key of that."""
    return _RECORD_WITH_WHO.iter_unpack(batch)


def length_arguments(request: Request, operations: list[str]) -> dict[int, int]:
    """By operation number, 1 + the argument through which it says its bytes, where each file's entry site still has it."""
    kept: dict[str, bool] = {}
    for image in request.images:
        for planned in image.plan.operations:
            kept[planned.operation] = kept.get(planned.operation, True) and _keeps_length(planned)
    arguments = {number: argument(BY_NAME[name].length_argument) for number, name in enumerate(operations) if kept.get(name)}
    return {number: place for number, place in arguments.items() if place}


def _keeps_length(planned: OperationPlan) -> bool:
    return next(probe for probe in planned.probes if probe.role is not Role.EXIT).keeps_length


class SnoopSession:
    """The probes of one request, and the events that they send. Closing is allowed at any time.

    `attachment` grows with later processes.
    """

    abilities = Ability.CALLS | Ability.FOLLOW | Ability.BUDGET

    def __init__(self, request: Request, wanted: EventFilter, ring_bytes: int = RING_BYTES, whom: Whom | None = None) -> None:
        self._whom = whom
        request = replace(request, images=tuple(map(self._labelled, request.images)))
        self._request, self._wanted, self._size = request, wanted, ring_size(ring_bytes)
        self.attachment = Attachment(request, "snoop")
        self._ring: Ring | None = None
        self._lengths = length_arguments(request, self.attachment.operations)
        self._windows: Windows | None = None
        self.keys = EventKeys(self.attachment.operations)

    def attach(self) -> None:
        """Loads the object and attaches all probes or none."""
        loaded = self.attachment.object
        self._set_filter(loaded.section(".rodata.filter", abi.EventFilter))
        loaded.resize_map("events", self._size)
        if self._whom:
            who.ask(loaded, self._whom.by, self._whom.peer_prefix, _MOST_TEXTS)
        self.attachment.load()
        size = ctypes.sizeof(abi.Event) if self._whom else abi.EventSize.SHORT
        self._ring = Ring(loaded.map_fd("events"), self._size, size)
        if self._whom:
            texts = Texts(loaded.map("texts", ctypes.sizeof(abi.Text), 4).items)
            self.keys = EventKeys(self.attachment.operations, self._whom.by, texts)
        if self._request.budget is not None:
            self.attachment.hold([Tier.DATA])
        self.attachment.attach()
        self._begin_windows()

    def _begin_windows(self) -> None:
        if self._request.budget is not None:
            self._windows = windows_of(self.attachment, self._request.budget)
            self._windows.start(self.attachment.held)

    def _labelled(self, image: TracedImage) -> TracedImage:
        """The image with where its connections keep who shook hands, where that is asked for."""
        return labelled(image) if self._whom else image

    def _set_filter(self, section: ctypes.Structure) -> None:
        section.minimum_ns, section.wake_bytes = self._wanted.minimum_ns, self._size // 4
        section.outcomes = sum(1 << abi.Outcome[outcome.name] for outcome in self._wanted.outcomes)
        for number, place in self._lengths.items():
            section.length_argument[number] = place

    def extend(self, images: Sequence[TracedImage]) -> None:
        """Attaches files that came later, all or nothing. AttachError where the kernel refuses.

        Left out are calls that say their bytes through an argument which these files' sites don't have any more.
        """
        self.attachment.extend([self._tellable(self._labelled(image)) for image in images])
        self._look_soon()

    def _look_soon(self) -> None:
        if self._windows:
            self._windows.look_soon()

    def _tellable(self, image: TracedImage) -> TracedImage:
        told = {self.attachment.operations[number] for number in self._lengths}
        kept = tuple(planned for planned in image.plan.operations if planned.operation not in told or _keeps_length(planned))
        return replace(image, plan=replace(image.plan, operations=kept))

    def include(self, index: int, pids: Iterable[int]) -> None:
        """Attaches the image of that number to processes that came later."""
        self.attachment.include(index, pids)
        self._look_soon()

    def poll(self) -> Sequence[Single]:
        """To be called several times a second; no handshake is handed over."""
        self.attachment.tend()
        if self._windows:
            with ending_if_refused(self._windows, self.attachment):
                self._windows.tick()
        return ()

    @property
    def due_s(self) -> float:
        """The time of the next call of `poll` at the latest, by time.monotonic(); infinity while all is watched."""
        return self._windows.due_s if self._windows else math.inf

    @property
    def events_dropped(self) -> int:
        """The number of calls that the ring had no room for so far."""
        return int(self.attachment.counters.events_dropped)

    def read(self, *, per_interval: bool = False) -> Snapshot:
        """Everything but calls, which are taken one by one: what was missed, calls of processes that are gone included, how
        many calls run now, and which functions are watched in windows only, final once the probes are removed."""
        del per_interval
        in_flight = self.attachment.running_calls()
        return Snapshot(
            host=os.uname().nodename,
            kernel=os.uname().release,
            engine="libbpf",
            started=self.attachment.span.started,
            duration_s=self.attachment.span.duration_s,
            targets=self.attachment.all_targets(),
            series=(),
            losses=self.attachment.losses(),
            in_flight=in_flight,
            notes=tuple(self.attachment.notes),
            sampling=self._sampling(),
        )

    def _sampling(self) -> tuple[Sampling, ...]:
        """Return which functions are watched in windows only, and for how much of the time; without estimates, as nothing is
        counted."""
        watched = self._windows.by_tier() if self._windows else {}
        return tuple(replace(part, functions=self._functions_of(tier)) for tier, part in watched.items())

    def _functions_of(self, tier: Tier) -> tuple[str, ...]:
        planned = {planned.operation for image in self.attachment.images for planned in image.plan.operations}
        return tuple(sorted(name for name in planned if BY_NAME[name].tier is tier and not BY_NAME[name].only_entry))

    def wait(self, timeout_s: float) -> bool:
        """Waits so long, or until a good part of the ring is full; whether it is."""
        return self._ring is not None and self._ring.wait(timeout_s)

    def fileno(self) -> int:
        """Return what `wait` waits for, as a descriptor for select()."""
        assert self._ring
        return self._ring.fileno()

    def batches(self) -> Iterator[bytes]:
        """Take what waits in the ring now, for `events_of`; ends when it has been read. With a budget small ones: `poll` may be
        due after each."""
        if self._ring is None:
            return iter(())
        return iter(self._ring.read if self._request.budget is None else partial(self._ring.read, _SMALL_BATCH), b"")

    def detach(self) -> None:
        """Removes the probes; the ring can still be read."""
        if self._windows:
            self._windows.finish()
        self.attachment.detach()

    def close(self) -> None:
        """Detaches and frees everything; may be called twice."""
        self.attachment.detach()
        if self._ring:
            self._ring.close()
        self.attachment.close()
