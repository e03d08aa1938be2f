# SPDX-License-Identifier: Apache-2.0
"""Whole handshakes by libbpf: attaches the object handshakes, and reads its maps into the model.

Kernel memory, made at the start: 750 bytes for each handshake that can be in flight, 133 kB for each row of the report, and the
rest (docs/measured/memory.md).
"""

from __future__ import annotations

import ctypes
import heapq
import mmap
import os
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from ssllatency import abi
from ssllatency.accept_queue import AcceptQueueReading
from ssllatency.engines.attach.attachment import Attachment
from ssllatency.engines.attach.sites import Sites
from ssllatency.engines.base import AttachError, TracedImage
from ssllatency.engines.bpf.loadable import Loadable
from ssllatency.engines.bpf.ring import Ring, ring_size
from ssllatency.engines.bpf.running import InFlight
from ssllatency.engines.budget.gates import Gates
from ssllatency.engines.clock import wall_clock_ns
from ssllatency.engines.read import handshakes as collect
from ssllatency.engines.read.collect import Extremes
from ssllatency.engines.read.cpu_time import thread_cpu_s, threads_cpu_s
from ssllatency.engines.read.names import ENDINGS
from ssllatency.engines.read.who import Texts
from ssllatency.engines.sessions import arrivals, who
from ssllatency.engines.sessions.handshake_request import HandshakeRequest, Singles
from ssllatency.engines.sessions.handshake_sites import (
    BATCH_FUNCTIONS,
    offers_of,
    phase_sites,
    row_mask,
    sites_by_program,
    watched,
    windowed_sites,
)
from ssllatency.engines.sessions.phase_windows import PhaseWindows
from ssllatency.engines.source import Ability
from ssllatency.model.arithmetic.handshakes import add_tallies, client_wait_ns
from ssllatency.model.handshakes import (
    WHO,
    Group,
    Handshakes,
    Label,
    Offload,
    PollingThread,
    Role,
    Single,
)
from ssllatency.model.snapshot import Losses, Missing, Snapshot
from ssllatency.probes.handshake.plan import HandshakePlan
from ssllatency.probes.plan import SslOffsets
from ssllatency.stacks.operation import Tier
from ssllatency.stacks.registry import LIBRARIES

_MORE = ("at_phase_end", "at_error", "at_software", "at_wake_set", "at_batch", "at_phase")
_TRACEPOINTS = ("at_write", "at_thread_end")
_MOST_WAKES = 65536  # descriptors that wake the jobs of handshakes in flight
_FEW_SLEEP = 10  # one handshake in so many may sleep for other reasons, as for a lock, and be over before it waits for its peer
_ENOUGH_SLEPT = 3  # so many handshakes don't sleep by chance
_READS = 10  # at most; that a handshake ends while its row is copied is one chance in hundreds
# The tables beside the rows, and how much they grow for each row that a process may have: one of TLS 1.2 and 1.3 has a dozen
# values of labels in four rows.
_TALLIES = {
    "causes": abi.TableSize.CAUSES,
    "keys": abi.TableSize.KEYS,
    "mix": abi.TableSize.MIX,
}
_TALLIES_OF_ROW = 16
_NEVER = (1 << 64) - 1
_ENGINES = tuple(library.name for library in LIBRARIES.values() if library.offloads)


class HandshakeSession:
    """Probes that are attached. Counts in a snapshot are cumulative from the start. `attachment` grows with later processes."""

    abilities = Ability.HANDSHAKES | Ability.LABELS | Ability.SINGLES | Ability.FOLLOW | Ability.BUDGET

    def __init__(self, request: HandshakeRequest, beside: Attachment | None = None) -> None:
        """`beside`: as for Attachment."""
        self._request, self._beside = request, beside
        self._images, self._plans = list(request.base.images), list(map(request.plan_of, request.base.images))
        self._names = request.names_of(self._images)
        base = replace(request.base, images=tuple(map(watched, self._images, self._plans)))
        self.attachment = Attachment(
            base, "handshakes", more=_MORE, tracepoints=(*_TRACEPOINTS, *arrivals.TRACEPOINTS), beside=beside
        )
        self._singles: Ring | None = None
        self._slowest: list[tuple[int, int, Single]] = []
        self._seen = 0
        self._watches_wakes = False
        self._watches_transport = request.blocking
        self._arrivals = arrivals.Arrivals(self.attachment)
        self._dropped = 0
        self._known_places: dict[int, frozenset[Label]] = {}
        self._kept_names: dict[int, str] = {}
        self._windows = PhaseWindows(self.attachment, request.base.budget)

    def load_ahead(self) -> None:
        """Has the object loaded for another session, whose request may have images where this one's has none yet; nothing else
        may be done with this one."""
        self._adjust()
        self.attachment.load_ahead()

    def _adjust(self) -> None:
        """Before loading: adjusts the object to the request."""
        loaded = self.attachment.object
        config = loaded.section(".rodata.handshake_config", abi.HandshakeConfig)
        config.mask = row_mask(self._request.by)
        in_flight, rows = self._request.in_flight, self._request.most_rows if self._request.by else len(ENDINGS)
        excess = max(1, in_flight // 4)
        config.most_handshakes = in_flight - excess
        config.most_rows = rows - rows // 8
        loaded.resize_map("handshakes", in_flight)
        loaded.resize_map("excess_handshakes", excess)
        loaded.resize_map("singles", self._singles_bytes)
        loaded.resize_map("wakes", min(in_flight, _MOST_WAKES))
        self._arrivals.make_room(loaded, in_flight)
        loaded.resize_map("rows", len(ENDINGS) + rows)
        loaded.resize_map("processes", self._request.most_rows)
        if Label.PROCESS in self._request.by:
            for name, entries in _TALLIES.items():
                loaded.resize_map(name, entries + _TALLIES_OF_ROW * rows)
        self._prepare_who(loaded, config)

    def attach(self) -> None:
        """Loads the object, fills its maps and attaches."""
        self._adjust()
        self.attachment.load()
        self._fill_maps()
        self.attachment.attach_tracepoint("at_thread_end")
        self._arrivals.watch(self._counters)
        if self._request.base.budget is not None and self._within_data:
            self.attachment.hold([Tier.DATA])
        self.attachment.attach(self._sites(0, self._images, self._plans), self._sites_below)
        self._cpu_before = threads_cpu_s({pid for image in self._images for pid in image.pids})
        self._watch_wakes()
        self._begin_windows()
        self._accept_queues()

    def _prepare_who(self, loaded: Loadable, config: ctypes.Structure) -> None:
        """Asks for what of the labels tells who shook hands, and makes room for it."""
        singles = self._request.singles
        by, most = (*self._request.by, *self._singles_by), self._request.most_rows
        if singles and singles.by:
            most = max(most, singles.most_texts)
        texts = who.ask(loaded, by, self._request.peer_prefix, most)
        config.most_texts = texts - texts // 8
        if Label.PORT in by or Label.PEER in by:
            loaded.resize_map("endpoints", self._request.in_flight)

    @property
    def _singles_by(self) -> tuple[Label, ...]:
        return self._request.singles.by if self._request.singles else ()

    @property
    def _within_data(self) -> bool:
        """Whether reads and writes have to be watched."""
        return any(plan.within_data for plan in self._plans)

    def _begin_windows(self) -> None:
        if not self._beside:
            self._windows.begin(within_data=self._within_data)

    def _fill_maps(self) -> None:
        loaded, size = self.attachment.object, ctypes.sizeof
        self._rows = loaded.map("rows", size(abi.Labels), size(abi.HandshakeRow))
        self._causes = loaded.map("causes", size(abi.CauseKey), size(abi.Tally))
        self._keys = loaded.map("keys", size(abi.KeyUse), size(abi.Tally))
        self._mix = loaded.map("mix", size(abi.MixKey), 8)
        self._batches = loaded.map("batches", size(abi.BatchKey), 8)
        self._pollers = loaded.map("pollers", 4, size(abi.Poller))
        self._in_flight = InFlight(loaded)
        self._singles = Ring(loaded.map_fd("singles"), self._singles_bytes, size(abi.Single))
        self._counters = loaded.live_section(".data.handshake_counters", abi.HandshakeCounters)
        self._counters.watches_transport = int(self._watches_transport)
        self._set_threshold()
        self._describe(0, self._images, self._plans)
        for ending in ENDINGS:
            self._rows.update(abi.Labels(known=1 << abi.Label.OTHER, ending=ending), abi.HandshakeRow())
        self._processes = loaded.map("processes", 4, size(abi.Process))
        texts = Texts(loaded.map("texts", size(abi.Text), 4).items)
        extremes = Extremes(self._request.base.extremes)
        self._reader = collect.Rows(self._known_places, self._name_of, texts, self._request.by, self._singles_by, extremes)

    def _describe(self, first: int, images: Sequence[TracedImage], plans: Sequence[HandshakePlan]) -> None:
        """Keeps what these libraries show of their connections; the first one's number is `first`."""
        for index, (image, plan) in enumerate(zip(images, plans, strict=True), first):
            self._known_places[index] = _places(plan, image.plan.offsets)

    def extend(self, images: Sequence[TracedImage], plans: Sequence[HandshakePlan] | None = None) -> None:
        """Attaches files that came later, all or nothing. AttachError where the kernel refuses. `plans`: theirs, where they are
        known already."""
        plans = list(map(self._request.plan_of, images)) if plans is None else plans
        first = self.attachment.next_number(len(images))
        self._describe(first, images, plans)
        self._images += images
        self._plans += plans
        try:
            self.attachment.extend(list(map(watched, images, plans)), self._sites(first, images, plans))
        except BaseException:
            del self._images[first:], self._plans[first:]
            raise
        self._watch_wakes()
        self._begin_windows()
        self._windows.look_soon()

    def include(self, index: int, pids: Iterable[int]) -> None:
        """Attaches the image of that number to processes that came later."""
        sites = self._sites(index, self._images[index : index + 1], self._plans[index : index + 1])
        self.attachment.include(index, pids, {program: lists[0] for program, lists in sites.items()})
        self._windows.look_soon()

    def _sites_below(self, number: int) -> dict[str, Sites]:
        """The sites of that image that go into windows where tracing costs too much: those of its phases that may."""
        begins, ends = windowed_sites(self._plans[number].calls, offers_of(self._images[number]))
        return {"at_phase_end": ends, "at_phase": begins}

    def _sites(self, first: int, images: Sequence[TracedImage], plans: Sequence[HandshakePlan]) -> dict[str, list[Sites]]:
        """What `more` of an attachment is for these images, but for what may go into windows; the first one's number is
        `first`."""
        return sites_by_program(first, list(zip(images, plans, strict=True)), transport=self._watches_transport)

    def _watch_wakes(self) -> None:
        """Traces writes to see completions. It runs on every system call of the machine, so only where work may be
        offloaded."""
        if self._watches_wakes or not (self._engines() or self._counters.pauses):
            return
        if any(plan.wake for plan in self._plans):
            self._watches_wakes = True
            with suppress(OSError):  # then no completion is seen, and the report says how many weren't
                self.attachment.attach_tracepoint("at_write")

    def _watch_transport(self) -> None:
        """Watches reads and writes once more than a few handshakes sleep. Those that slept before are counted separately."""
        slept = self._counters.slept
        if self._watches_transport or slept < _ENOUGH_SLEPT or slept * _FEW_SLEEP <= self._counters.ended:
            return
        self._watches_transport = True  # later files as well; where they are refused, sleeping calls go on being reported
        sites_of_plans = [phase_sites(plan.transport, {}) for plan in self._plans]
        sites = {"at_phase_end": [ends for _, ends in sites_of_plans], "at_phase": [begins for begins, _ in sites_of_plans]}
        with suppress(AttachError):
            self.attachment.attach_more(sites)
            self._counters.watches_transport = 1

    @property
    def gates(self) -> Gates:
        """Those of phases, and of reads and writes."""
        return self._windows.gates

    @property
    def ended(self) -> int:
        """How many handshakes have ended so far."""
        return int(self._counters.ended)

    @property
    def events_dropped(self) -> int:
        """How many handshakes that were to be handed over one by one the ring had no room for so far."""
        return int(self._counters.events_dropped)

    @property
    def in_flight(self) -> int:
        """How many handshakes have begun and not ended."""
        return len(self._in_flight.running())

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
        self._windows.tick(self._counters.within_data)
        self._watch_wakes()
        self._watch_transport()
        self._arrivals.poll()
        over: list[Single] = []
        wall_ns = wall_clock_ns()
        for raw in self._singles.records(abi.Single) if self._singles else ():
            handshake = collect.single(raw, self._reader, self._names, wall_ns)
            self._keep(handshake)
            if self._request.singles and client_wait_ns(handshake.parts) >= self._request.singles.over_ns:
                over.append(handshake)
        self._set_threshold()
        return over

    def _keep(self, handshake: Single) -> None:
        self._seen += 1
        heapq.heappush(self._slowest, (client_wait_ns(handshake.parts), -self._seen, handshake))
        while len(self._slowest) > self._request.slowest:
            heapq.heappop(self._slowest)

    @property
    def _singles_bytes(self) -> int:
        """The size of the ring for handshakes that are handed over one by one: the least where none is."""
        if self._request.singles:
            return ring_size(self._request.singles.ring_bytes)
        return Singles.ring_bytes if self._request.slowest else mmap.PAGESIZE

    def _set_threshold(self) -> None:
        """Handshakes whose clients waited for less than both bounds aren't handed over: the kept ones' least, once they are
        enough."""
        wanted = [self._request.singles.over_ns] if self._request.singles else []
        if self._request.slowest:
            full = len(self._slowest) >= self._request.slowest
            wanted.append(self._slowest[0][0] if full else 0)
        self._counters.threshold_ns = min(wanted, default=_NEVER)

    def detach(self) -> None:
        """Removes the probes; what was counted can still be read. May be called twice."""
        self._windows.finish()
        self.attachment.detach()

    def close(self) -> None:
        """Detaches and frees everything; may be called twice."""
        self.attachment.detach()
        if self._singles:
            self._singles.close()
        self.attachment.close()

    def read(self, *, per_interval: bool = False) -> Snapshot:
        """Everything counted so far; the extremes are those since the start, or since the last read."""
        if per_interval:
            self._reader.extremes = Extremes(self._request.base.extremes)
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
                map_full=self.attachment.counters.map_full,
                events_dropped=self._counters.events_dropped,
                late_processes=self.attachment.late_processes,
            ),
            handshakes=handshakes,
            notes=self._notes(),
            cost=self.attachment.cost(),
        )

    def _handshakes(self, interval: int) -> Handshakes:
        names, by = self._names, self._request.by
        counters = self._counters
        created = counters.created  # before, as handshakes begin and end while those in flight are listed
        running = self._in_flight.running()
        self._dropped = max(self._dropped, created - len(running) - self._in_flight.cut_off - counters.ended)
        by_process = collect.tallies(self._causes.items(), self._keys.items(), self._mix.items(), names)
        tallies = collect.in_order(add_tallies(by_process.values()))
        accept_queues = self._accept_queues()
        return Handshakes(
            groups=self._groups(interval),
            causes=tallies.causes,
            keys=tallies.keys,
            mix=tallies.mix,
            slowest=tuple(handshake for _, _, handshake in sorted(self._slowest, key=lambda kept: (-kept[0], kept[1]))),
            by=by,
            role=Role(self._request.base.role),
            in_flight=len(running),
            dropped=self._dropped,
            unattributed=counters.unattributed,
            unsplit=counters.unsplit,
            slept=counters.slept,
            partial=counters.partial,
            bounded=counters.bounded,
            arrivals=self._arrivals.watched,
            off_cpu=True,
            quotas=True,
            exact_share=self._windows.exact_share,
            unknown_labels=self._unknown_labels(),
            offload=self._offload(sum(handshake.waiting == abi.Part.WAIT_OFFLOAD for handshake in running)),
            by_process=by_process if Label.PROCESS in by else {},
            accept_queues=accept_queues.queues,
            overflows_untold=accept_queues.untold,
        )

    def _accept_queues(self) -> AcceptQueueReading:
        """Those of the traced processes, where handshakes of servers are measured."""
        read, role = self._request.accept_queues, Role(self._request.base.role)
        if read is None or role is Role.CLIENT:
            return AcceptQueueReading(None)
        return read({target.pid for target in self.attachment.all_targets()})

    def _name_of(self, pid: int) -> str:
        """The name that the programs have kept of a process with a row of its own."""
        if pid not in self._kept_names:
            for key, raw in self._processes.items():
                self._kept_names[int.from_bytes(key, "little")] = abi.Process.from_buffer_copy(raw).comm.decode(
                    errors="replace"
                )
        return self._kept_names.get(pid) or self.attachment.name_of(pid)

    def forget(self, pids: Collection[int]) -> None:
        """Frees the rows and tallies of processes that had ended before the last `read`; later snapshots are without their
        handshakes."""
        for raw_key, pid in self._reader.processes():
            if pid in pids and self._rows.delete(raw_key):
                self._in_flight.give_back(pid, abi.Shared.ROWS)
        for table, kind, shared in (
            (self._causes, abi.CauseKey, abi.Shared.CAUSES),
            (self._keys, abi.KeyUse, abi.Shared.KEYS),
            (self._mix, abi.MixKey, abi.Shared.MIX),
        ):
            for raw_key, _ in list(table.items()):
                pid = kind.from_buffer_copy(raw_key).tgid
                if pid in pids and table.delete(raw_key):
                    self._in_flight.give_back(pid, shared)
        for pid in pids:
            self._processes.delete(pid.to_bytes(4, "little"))
            self._kept_names.pop(pid, None)
        if self._beside is None:
            self.attachment.forget(pids)

    def _groups(self, interval: int) -> tuple[Group, ...]:
        """The times by label; read again where a handshake was being counted meanwhile, with some of its parts only."""
        for _ in range(_READS):
            groups = self._reader.groups(self._rows.views(), self._names, interval)
            if all(group.adds_up for group in groups):
                break
        return groups

    def _notes(self) -> tuple[str, ...]:
        number = self._in_flight.cut_off
        cut_off = f"Handshakes that were in flight when their process ended, and aren't counted: {number}."
        return (*self.attachment.notes, *([cut_off] if number else []), *self._windows.notes(self._counters.within_data))

    def _unknown_labels(self) -> dict[Label, str]:
        places_by_image = [self._known_places[index] for index, image in enumerate(self._images) if image.plan.offsets.rwstate]
        wanted = [label for label in Label if label not in WHO or label in self._request.by]
        hidden = [label for label in wanted if any(label not in places for places in places_by_image)]
        return dict.fromkeys(hidden, "the library's accessors don't show where it lies")

    def _engines(self) -> list[str]:
        """The kinds of the mapped files that offload."""
        kinds = {image.plan.kind for image in self._images}
        return [kind for kind in _ENGINES if kind in kinds]

    def _offload(self, waiting: int) -> Offload | None:
        """What was offloaded; None where nothing was, and nothing that offloads is mapped."""
        counters, engines = self._counters, self._engines()
        if not (engines or counters.pauses):
            return None
        return Offload(
            engine=", ".join(engines) or "ASYNC jobs",
            waiting=waiting,
            most_waiting=None if self._dropped else counters.most_waiting_offload,  # dropped handshakes may still wait
            pauses=counters.pauses,
            handshakes=counters.paused,
            software=counters.software,
            unseen=counters.unseen,
            batches=collect.batches(self._batches.items(), BATCH_FUNCTIONS),
            pollers=self._polling_threads(),
        )

    def _polling_threads(self) -> tuple[PollingThread, ...]:
        threads = []
        for raw_tid, raw in self._pollers.items():
            tid, poller = int.from_bytes(raw_tid, "little"), abi.Poller.from_buffer_copy(raw)
            now = thread_cpu_s(poller.tgid, tid)
            cpu_s = None if now is None else now - self._cpu_before.get(tid, 0.0)
            threads.append(PollingThread(poller.tgid, tid, poller.comm.decode(errors="replace"), poller.completions, cpu_s))
        return tuple(sorted(threads, key=lambda thread: -thread.completions))

    def _missing(self) -> tuple[Missing, ...]:
        return tuple(Missing(missing.what, plan.path, missing.reason) for plan in self._plans for missing in plan.missing)


def _places(plan: HandshakePlan, offsets: SslOffsets) -> frozenset[Label]:
    """The labels whose places the library shows."""
    names = set(plan.labels)
    labels = {label for label in Label if label.value in names}
    if {"group_tls13", "group_session", "did_kex"} <= names:
        labels.add(Label.GROUP)
    if {"verify_mode", "peer_certificate"} <= names:
        labels.add(Label.CLIENT_CERTIFICATE)
    if {"server_name", "server_name_session"} <= names:
        labels.add(Label.SNI)
    if "alpn_length" not in names:
        labels.discard(Label.ALPN)
    if None not in (offsets.rbio, offsets.bio_method, offsets.bio_descriptor):
        labels |= {Label.PORT, Label.PEER}
    return frozenset(labels | {Label.ROLE, Label.PROCESS})
