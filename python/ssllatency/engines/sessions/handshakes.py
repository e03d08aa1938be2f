# SPDX-License-Identifier: Apache-2.0
"""Whole handshakes by libbpf: attaches the object handshakes, and reads its maps into the model.

Kernel memory, made at the start: 750 bytes for each handshake that can be in flight, 141 KiB for each row of the report, and
the rest (docs/measured/memory.md).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace

from ssllatency import abi
from ssllatency.accept_queue import AcceptQueueReading
from ssllatency.data_class import dataclass
from ssllatency.engines.attach.attachment import Attachment
from ssllatency.engines.attach.images import is_go
from ssllatency.engines.attach.probing import Programs
from ssllatency.engines.attach.program_choice import PROGRAMS_OF_QUIC, TRACEPOINTS_OF_GO, TRACEPOINTS_OF_QUIC
from ssllatency.engines.attach.sites import Sites
from ssllatency.engines.base import AttachError, TracedImage
from ssllatency.engines.bpf.executed import Sweeps
from ssllatency.engines.bpf.goroutines import Goroutines
from ssllatency.engines.bpf.running import exists
from ssllatency.engines.budget.gates import Gates
from ssllatency.engines.clock import wall_clock_ns
from ssllatency.engines.read.collect import Extremes
from ssllatency.engines.read.cpu_time import threads_cpu_s
from ssllatency.engines.read.library_names import names_in
from ssllatency.engines.sessions import arrivals
from ssllatency.engines.sessions.handshake_counts import Counts, asks_for, make_room, wants_sockets
from ssllatency.engines.sessions.handshake_request import HandshakeRequest
from ssllatency.engines.sessions.handshake_sites import (
    Transports,
    collection_sites,
    phase_sites,
    places_of,
    quic_sites,
    raised_sites,
    shows_certificates,
    sites_by_program,
    software_sites,
    tell_why,
    watched,
    windowed_sites,
)
from ssllatency.engines.sessions.phase_windows import PhaseWindows
from ssllatency.engines.sessions.quic import QuicServers
from ssllatency.engines.sessions.singles import SingleHandshakes
from ssllatency.engines.source import Ability
from ssllatency.model.certificates import ServedCertificate
from ssllatency.model.handshakes import (
    WHO,
    Handshakes,
    Label,
    RequestedSide,
    Single,
)
from ssllatency.model.offload import Offload
from ssllatency.model.snapshot import Losses, Missing, Snapshot
from ssllatency.probes.plan import HandshakeSites
from ssllatency.stacks.operation import Tier
from ssllatency.stacks.registry import LIBRARIES

_PROGRAMS = Programs(free="at_exit")
_MORE = ("at_phase_end", "at_error", "at_software", "at_wake_set", "at_signing", "at_batch", *PROGRAMS_OF_QUIC, "at_phase")
_MORE_BELOW = ("at_phase_end", "at_phase")
_MORE_OF_GO_BELOW = ("at_go_phase_end", "at_go_phase", "at_go_collection_end", "at_go_collection")
_MORE_OF_GO = (*_MORE_OF_GO_BELOW, "at_go_certificate")
_TRACEPOINTS = ("at_write", "at_thread_end")
_FEW_SLEEP = 10  # one handshake in so many may sleep for other reasons, as for a lock, and be over before it waits for its peer
_ENOUGH_SLEPT = 3  # so many handshakes don't sleep by chance
_NO_SOFTWARE = "What OpenSSL does itself instead of offloading it isn't counted, as the kernel refuses probes there."
_ENGINES = tuple(library.name for library in LIBRARIES.values() if library.offloads)


def _shows_connections(image: TracedImage) -> bool:
    """Whether connections of the file's library are read."""
    return bool(image.plan.offsets.rwstate) or (is_go(image) and bool(image.plan.operations))


def _more_of_go(request: HandshakeRequest) -> tuple[str, ...]:
    """The programs for Go that are loaded: where there is a Go program, or may be one later."""
    return _MORE_OF_GO if request.base.follow is not None or any(map(is_go, request.base.images)) else ()


def _tracepoints(request: HandshakeRequest) -> tuple[str, ...]:
    of_go = TRACEPOINTS_OF_GO if _more_of_go(request) else ()
    of_quic = TRACEPOINTS_OF_QUIC if wants_sockets(request) else ()
    return (*_TRACEPOINTS, *arrivals.TRACEPOINTS, *of_go, *of_quic)


@dataclass
class _Watched:
    """The parts that are watched only where they matter, then of later files as well: reads and writes, all errors that are
    raised, private-key operations in software, unless the kernel refuses that, and writes that wake who waits for an
    offload."""

    transport: bool = False
    raised: bool = False
    software: bool = False
    refuses_software: bool = False
    wakes: bool = False


class HandshakeSession:
    """Probes that are attached. Counts in a snapshot are cumulative from the start. `attachment` grows with later processes."""

    abilities = Ability.HANDSHAKES | Ability.LABELS | Ability.SINGLES | Ability.FOLLOW | Ability.BUDGET

    def __init__(self, request: HandshakeRequest, beside: Attachment | None = None) -> None:
        """`beside`: as for Attachment."""
        self._request, self._beside = request, beside
        self._images = list(request.base.images)
        base = replace(request.base, images=tuple(watched(self._images, self._images)))
        more = (*_MORE, *_more_of_go(request))
        self.attachment = Attachment(base, "handshakes", _PROGRAMS, more, tracepoints=_tracepoints(request), beside=beside)
        self._opened = ExitStack()
        self._sweeps = Sweeps()
        self._watched = _Watched(transport=request.blocking)
        self._arrivals = arrivals.Arrivals(self.attachment, wants_sockets=asks_for(request, Label.PORT, Label.PEER))
        self._quic = QuicServers(self.attachment, ports=asks_for(request, Label.PORT), wanted=wants_sockets(request))
        self._windows = PhaseWindows(self.attachment, request.base.budget)

    def load_ahead(self) -> None:
        """Has the object loaded for another session, whose request may have images where this one's has none yet; nothing else
        may be done with this one."""
        self._adjust()
        self.attachment.load_ahead()

    def _adjust(self) -> None:
        """Before loading: adjusts the object to the request."""
        make_room(self.attachment.object, self._request)
        self._arrivals.make_room(self.attachment.object, self._request.in_flight)

    def attach(self) -> None:
        """Loads the object, fills its maps and attaches: all probes. The first `poll` begins to keep the budget, which may wait
        until it is known what a hit costs; only where reads and writes are watched that can't wait for it."""
        self._adjust()
        self.attachment.load()
        self._fill_maps()
        self.attachment.attach_tracepoint("at_thread_end")
        self._arrivals.watch(self._counters)
        if self._request.base.budget is not None and self._within_data:
            self.attachment.hold([Tier.DATA])
        self._watched.raised = self._request.base.budget is None or not tell_why(self._all_sites)
        self.attachment.attach(self._sites(0, self._images), self._sites_below)
        self._cpu_before = threads_cpu_s({pid for image in self._images for pid in image.pids})
        self._watch_offload()
        if self._within_data:
            self._begin_windows()
        self._accept_queues()

    @property
    def _within_data(self) -> bool:
        """Whether reads and writes have to be watched."""
        return any(sites.within_data for sites in self._all_sites)

    def _begin_windows(self) -> None:
        if not self._beside:
            self._windows.begin(within_data=self._within_data)

    def _fill_maps(self) -> None:
        loaded = self.attachment.object
        self._singles = SingleHandshakes(loaded, self._request)
        self._opened.callback(self._singles.close)
        self._counts = Counts(loaded, self._request, names_in(self._images), self.attachment.name_of)
        self._opened.callback(self._counts.certificates.close)
        self._goroutines = Goroutines(loaded, self.attachment.counters)
        self._counters = loaded.live_section(".data.handshake_counters", abi.HandshakeCounters)
        self._counters.watches_transport = int(self._watched.transport)
        self._counters.threshold_ns = self._singles.threshold_ns
        self._quic.begin(loaded, self._counters)
        self._describe(0, self._images)

    @property
    def _all_sites(self) -> Iterator[HandshakeSites]:
        """Those of every image, by its number."""
        return (image.plan.handshake for image in self._images)

    def _describe(self, first: int, images: Sequence[TracedImage]) -> None:
        """Keeps what these libraries show of their connections; the first one's number is `first`."""
        for index, image in enumerate(images, first):
            self._counts.known_places[index] = places_of(image.plan)

    def extend(self, images: Sequence[TracedImage]) -> None:
        """Attaches files that came later, all or nothing. AttachError where the kernel refuses."""
        first = self.attachment.next_number(len(images))
        self._describe(first, images)
        self._images += images
        try:
            self.attachment.extend(watched(images, self._images), self._sites(first, images))
        except BaseException:
            del self._images[first:]
            raise
        self._watch_offload()
        if not tell_why(self._all_sites):
            self._watch_raised()
        self._begin_windows()
        self._windows.look_soon()

    def include(self, index: int, pids: Iterable[int]) -> None:
        """Attaches the image of that number to processes that came later."""
        sites = self._sites(index, self._images[index : index + 1])
        self.attachment.include(index, pids, {program: lists[0] for program, lists in sites.items()})
        self._windows.look_soon()

    def _sites_below(self, number: int) -> dict[str, Sites]:
        """The sites of that image that go into windows where tracing costs too much: those of its phases that may."""
        begins, ends = windowed_sites(self._images[number])
        none: dict[str, Sites] = {program: [] for program in (*_MORE_BELOW, *_more_of_go(self._request))}
        if not is_go(self._images[number]):
            return none | dict(zip(_MORE_BELOW, (ends, begins), strict=True))
        collects, collected = collection_sites(self._images[number])
        return none | dict(zip(_MORE_OF_GO_BELOW, (ends, begins, collected, collects), strict=True))

    def _sites(self, first: int, images: Sequence[TracedImage]) -> dict[str, list[Sites]]:
        """Return what `more` of an attachment is for these images, but for what may go into windows; the first one's number is
        `first`."""
        if any(map(is_go, images)):
            self._arrivals.watch_waits()
        transport = Transports(self._watched.transport, goroutines=not self._arrivals.sees_waits)
        return sites_by_program(
            first, images, transport, raised=self._watched.raised, software=self._watched.software, quic=self._quic.watched
        )

    def _watch_offload(self) -> None:
        """Watches what only matters where work may be offloaded: what is done in software all the same, which is a hit in each
        full handshake, and writes, to see completions, which costs every system call of the machine."""
        if not (self._engines() or self._counters.pauses):
            return
        if not (self._watched.software or self._watched.refuses_software):
            try:
                self.attachment.attach_more({"at_software": [software_sites(image.plan) for image in self._images]})
                self._watched.software = True
            except AttachError:
                self._watched.refuses_software = True  # nor is any counted in later files: it would be a part of them
        if not self._watched.wakes and any(sites.wake for sites in self._all_sites):
            self._watched.wakes = True
            with suppress(OSError):  # then no completion is seen, and the report says how many weren't
                self.attachment.attach_tracepoint("at_write")

    def _watch_transport(self) -> None:
        """Watches reads and writes once more than a few handshakes sleep. Those that slept before are counted separately."""
        slept = self._counters.slept - self._counters.slept_of_go
        if self._watched.transport or slept < _ENOUGH_SLEPT or slept * _FEW_SLEEP <= self._counters.ended:
            return
        self._watched.transport = True  # later files as well; where they are refused, sleeping calls go on being reported
        by_image = [
            phase_sites(() if is_go(image) else sites.transport, {})
            for image, sites in zip(self._images, self._all_sites, strict=True)
        ]
        sites = {"at_phase_end": [ends for _, ends in by_image], "at_phase": [begins for begins, _ in by_image]}
        with suppress(AttachError):
            self.attachment.attach_more(sites)
            self._counters.watches_transport = 1

    def _watch_raised(self) -> None:
        """Watches all errors that are raised: a handshake that succeeds may raise tens of them, and clear them again."""
        if self._watched.raised:
            return
        self._watched.raised = True  # of later files as well; where they are refused, reasons are as general as before
        with suppress(AttachError):
            self.attachment.attach_more({"at_error": list(map(raised_sites, self._all_sites))})

    @property
    def gates(self) -> Gates:
        """Those of phases, and of reads and writes."""
        return self._windows.gates

    @property
    def ended(self) -> int:
        """The number of handshakes that have ended so far."""
        return int(self._counters.ended)

    @property
    def events_dropped(self) -> int:
        """The number of handshakes, of those handed over one by one, that the ring had no room for so far."""
        return int(self._counters.events_dropped)

    @property
    def in_flight(self) -> int:
        """The number of handshakes that have begun and not ended."""
        return len(self._running()) - self._goroutines.left_now

    def _running(self) -> list[abi.Handshake]:
        """The handshakes in flight, once those are taken out that will never end."""
        executed = self.attachment.processes.executed
        with self._sweeps.sweep(executed):
            self._goroutines.count(exists, executed)
            return self._counts.in_flight.running(executed=executed)

    @property
    def due_s(self) -> float:
        """The time of the next poll, as for any source."""
        return self._windows.due_s

    @property
    def notes(self) -> Sequence[str]:
        """The sentences for the reader that have come up so far."""
        return self.attachment.notes

    @property
    def rests(self) -> bool:
        """Whether there is a budget, and nobody worked when it was last looked: then `poll` may be called twice a second."""
        return self._windows.rests

    def poll(self) -> list[Single]:
        """To be called several times a second: the handshakes over the bound since the last call, in the order they ended."""
        self.attachment.tend()
        self._begin_windows()
        self._windows.tick(self._counters.within_data)
        self._watch_offload()
        self._watch_transport()
        if self._counters.unexplained:
            self._watch_raised()
        if self._sweeps.are_wanted(self.attachment.processes.executed) and self._sweeps.are_rested():
            self._running()
        self._arrivals.poll()
        self._quic.poll(lambda: quic_sites(self._images))
        self._counts.certificates.take()
        wall_ns = wall_clock_ns()
        over = list(self._singles.take(lambda raw: self._counts.single(raw, wall_ns)))
        self._counters.threshold_ns = self._singles.threshold_ns
        return over

    def detach(self) -> None:
        """Removes the probes; what was counted can still be read. May be called twice."""
        self.finish_windows()
        self.attachment.detach()

    def finish_windows(self) -> None:
        """Ends the account of what was seen in windows; may be called twice."""
        self._windows.finish()

    def close(self) -> None:
        """Detaches and frees everything; may be called twice."""
        self.attachment.detach()
        self._opened.close()
        self.attachment.close()

    def read(self, *, per_interval: bool = False) -> Snapshot:
        """Everything counted so far; the extremes are those since the start, or since the last read."""
        if per_interval:
            self._counts.rows.extremes = Extremes(self._request.base.extremes)
        handshakes = self._handshakes(self.attachment.next_interval())
        return Snapshot(
            host=os.uname().nodename,
            kernel=os.uname().release,
            engine="libbpf",
            started=self.attachment.span.started,
            duration_s=self.attachment.span.duration_s,
            targets=self.attachment.all_targets(),
            series=(),
            missing=self._missing(),
            losses=Losses(
                left=self.attachment.counters.left + self._goroutines.left,
                map_full=self.attachment.counters.map_full,
                events_dropped=self._counters.events_dropped,
                late_processes=self.attachment.late_processes,
            ),
            handshakes=handshakes,
            notes=self._notes(),
            cost=self.attachment.cost(),
        )

    def _handshakes(self, interval: int) -> Handshakes:
        by = self._request.by
        counters = self._counters
        created = counters.created  # before, as handshakes begin and end while those in flight are listed
        running = self._running()
        dropped = self._counts.dropped(created, len(running), counters.ended)
        by_process, tallies = self._counts.tallies()
        accept_queues = self._accept_queues()
        return Handshakes(
            groups=self._counts.groups(interval),
            causes=tallies.causes,
            keys=tallies.keys,
            mix=tallies.mix,
            slowest=tuple(self._singles.slowest),
            by=by,
            role=RequestedSide(self._request.base.role),
            in_flight=max(0, len(running) - self._goroutines.left_now),
            dropped=dropped,
            unattributed=counters.unattributed,
            unsplit=counters.unsplit,
            slept=counters.slept,
            partial=counters.partial,
            inspections=counters.inspections,
            bounded=counters.bounded,
            arrivals=self._arrivals.watched,
            off_cpu=True,
            quotas=True,
            exact_share=self._windows.exact_share,
            unknown_labels=self._unknown_labels(),
            offload=self._offload(sum(handshake.waiting == abi.Part.WAIT_OFFLOAD for handshake in running), dropped),
            by_process=by_process if Label.PROCESS in by else {},
            accept_queues=accept_queues.queues,
            overflows_untold=accept_queues.untold,
            certificates=self._certificates(),
            certificates_untold=counters.untold + self._counts.certificates.untold,
            certificates_pending=self._counts.certificates.pending,
        )

    def _accept_queues(self) -> AcceptQueueReading:
        """Those of the traced processes, where handshakes of servers are measured."""
        read, role = self._request.accept_queues, RequestedSide(self._request.base.role)
        if read is None or role is RequestedSide.CLIENT:
            return AcceptQueueReading(None)
        return read({target.pid for target in self.attachment.all_targets()})

    def _certificates(self) -> tuple[ServedCertificate, ...] | None:
        """None where no library shows where they are."""
        shown = any(shows_certificates(image.plan) for image in self._images if _shows_connections(image))
        return self._counts.certificates.served() if shown and self._request.read_certificates else None

    def forget(self, pids: Collection[int]) -> None:
        """Frees the rows and tallies of processes that had ended before the last `read`; later snapshots are without their
        handshakes."""
        self._counts.forget(pids)
        self._quic.forget(pids)
        if self._beside is None:
            self.attachment.forget(pids)

    def _notes(self) -> tuple[str, ...]:
        number = max(0, self._counts.in_flight.cut_off - self._goroutines.left_for_good)
        cut_off = f"Handshakes that were in flight when their process, or its program, ended, and aren't counted: {number}."
        return (
            *self.attachment.notes,
            *([cut_off] if number else []),
            *([_NO_SOFTWARE] if self._watched.refuses_software else []),
            *self._windows.notes(self._counters.within_data),
        )

    def _unknown_labels(self) -> dict[Label, str]:
        known = self._counts.known_places
        of_reads = {Label.PORT, Label.PEER} if self._arrivals.watched else set()  # a library's reads tell its socket as well
        places_by_image = [known[index] | of_reads for index, image in enumerate(self._images) if _shows_connections(image)]
        wanted = [label for label in Label if label not in WHO or label in self._request.by]
        hidden = [label for label in wanted if any(label not in places for places in places_by_image)]
        return dict.fromkeys(hidden, "the library's accessors don't show where it lies")

    def _engines(self) -> list[str]:
        """The kinds of the mapped files that offload."""
        kinds = {image.plan.kind for image in self._images}
        return [kind for kind in _ENGINES if kind in kinds]

    def _offload(self, waiting: int, dropped: int) -> Offload | None:
        """Return what was offloaded; None where nothing was, and nothing that offloads is mapped."""
        counters, engines = self._counters, self._engines()
        if not (engines or counters.pauses):
            return None
        return Offload(
            engine=", ".join(engines) or "ASYNC jobs",
            waiting=waiting,
            most_waiting=None if dropped else counters.most_waiting_offload,  # dropped handshakes may still wait
            pauses=counters.pauses,
            handshakes=counters.paused,
            software=counters.software,
            unseen=counters.unseen,
            batches=self._counts.batches(),
            pollers=self._counts.polling_threads(self._cpu_before),
        )

    def _missing(self) -> tuple[Missing, ...]:
        plans = (image.plan for image in self._images)
        return tuple(Missing(part.what, plan.path, part.reason) for plan in plans for part in plan.handshake.missing)
