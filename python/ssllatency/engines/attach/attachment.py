# SPDX-License-Identifier: Apache-2.0
"""A request put to work by one BPF object: what the sessions of all commands have in common.

An object that includes bpf/calls/calls.bpf.h and bpf/common/programs.bpf.h has the programs, the configuration and the maps
`targets`, `libraries`, `starts` and `overflow` that this looks for. A session of its own owns an Attachment and adds what only
it has: before `start` it may size maps and set sections of `attachment.object`, after `load` fill and open them.

    attachment = Attachment(request, "snoop")           # opens build/snoop.bpf.o
    attachment.object.resize_map("events", size)
    attachment.load()
    ring = Ring(attachment.object.map_fd("events"), …)
    attachment.attach()                                  # or attach({"at_phase": [sites of each image]})
    …
    attachment.extend(images); attachment.include(0, [pid])  # what has come later
    attachment.detach(); attachment.close()              # close at any time, also when one of the above has failed
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ssllatency import abi
from ssllatency.engines.attach.changed_files import ChangedFiles
from ssllatency.engines.attach.code_check import is_overwritten
from ssllatency.engines.attach.images import can_trace, why_no_call_can_begin
from ssllatency.engines.attach.links import Linker, close_all, decide, links_each_process, may_link_each, method_of_programs
from ssllatency.engines.attach.loaded import Loaded
from ssllatency.engines.attach.probing import STANDARD, Probing, Programs, close_together
from ssllatency.engines.attach.processes import Processes
from ssllatency.engines.attach.program_choice import ProgramChoice
from ssllatency.engines.attach.sites import (
    MOST_LIBRARIES,
    Sites,
    library_record,
    numbered,
    remembers_sides,
)
from ssllatency.engines.attach.tiers import SitesOf, TierProbes
from ssllatency.engines.base import AttachError, Request, TooManyFilesError, TracedImage
from ssllatency.engines.bpf import kernel, process_slots
from ssllatency.engines.bpf.libbpf import BpfObject
from ssllatency.engines.bpf.loadable import Closable, Loadable, LoadedMap
from ssllatency.engines.bpf.objects import open_object
from ssllatency.engines.bpf.running import Running, exists
from ssllatency.engines.clock import Span
from ssllatency.engines.cost.hits import make_room
from ssllatency.engines.follow.following import Following
from ssllatency.model.cost import TracingCost
from ssllatency.model.snapshot import Losses, Target
from ssllatency.probes.catalogue import BY_NAME
from ssllatency.stacks.operation import Tier
from ssllatency.stacks.registry import stack_named
from ssllatency.stopping import end_if_asked

_SHORT_CALL_S = 0.001  # in which most calls end


class Attachment:
    """The probes of one request. `operations` are the names by the numbers that the kernel side knows.

    `images` grow with what later processes bring. `processes` are those that are traced; `targets`, `notes`, `late`,
    `following` and `unfollowed` are theirs. `span` is the time that the probes are attached.
    """

    def __init__(
        self,
        request: Request,
        opened: Loadable | str,
        programs: Programs = STANDARD,
        more: Sequence[str] = (),
        tracepoints: Sequence[str] = (),
        beside: Attachment | None = None,
    ) -> None:
        """Takes what is opened, or opens the object of that name. `more` are programs beyond `programs` that `attach` will be
        given sites for; `tracepoints` those that `attach_tracepoint` may be called for. `beside`: another of the same targets,
        loaded already and closed later than this one, whose `processes` serve both."""
        self.request, self._choice = request, ProgramChoice(programs, more, tracepoints)
        self.object: Loadable = open_object(opened) if isinstance(opened, str) else opened
        linking = request.linking or decide(request)
        self.method = method_of_programs(request, linking.method, sessions=self.object.sessions)
        self.operations = numbered(request.images, later=request.follow is not None)
        self.images = list(request.images)
        self._beside = beside
        self._others_beside: list[Attachment] = []
        if beside:
            beside._others_beside.append(self)
        self.processes: Processes = beside.processes if beside else Processes(request)
        self.each_process = linking.each_process
        if request.follow and not self.following:  # as the kernel refuses, nobody comes who would share the links
            self.each_process = links_each_process(replace(request, follow=None), self.method)
        self.processes.filtered |= self._filtered
        self._probes = TierProbes(
            self.operations,
            lambda: Probing(Linker(self.object, self.method, self.each_process), programs),
            partial(can_trace, self.object),
            by_tier=request.budget is not None,
        )
        self._changed_files = ChangedFiles()
        self.processes.when_ended.append(self._release)
        self.span = Span()
        self._loaded: Loaded | None = None

    @property
    def _counts(self) -> Loaded:
        assert self._loaded  # by load()
        return self._loaded

    @property
    def counters(self) -> ctypes.Structure:
        """The counts that all objects keep, once it is loaded."""
        return self._counts.counters

    @property
    def running(self) -> Running | None:
        """The calls that run, where the object knows them."""
        return self._loaded.running if self._loaded else None

    @property
    def targets(self) -> dict[int, Target]:
        """Those of `processes`."""
        return self.processes.targets

    @property
    def notes(self) -> list[str]:
        """Those of `processes`."""
        return self.processes.notes

    @property
    def late(self) -> set[int]:
        """Those of `processes`."""
        return self.processes.late

    @property
    def following(self) -> Following | None:
        """The one of `processes`."""
        return self.processes.following

    @property
    def unfollowed(self) -> str:
        """The one of `processes`."""
        return self.processes.unfollowed

    @property
    def _filtered(self) -> bool:
        """Whether the programs pick the targets; else the kernel picks the process, all its threads."""
        return not self.request.everyone and not self.each_process

    @property
    def _companions(self) -> bool:
        """Whether there are files whose calls count only in processes that map one that was asked for."""
        everyone = self.request.everyone and not self.each_process
        return everyone and any(image.companion for image in self.request.images)

    def load(self) -> None:
        """Loads the object and fills the maps that all objects have. SsllatencyError where the kernel refuses.

        KeyboardInterrupt where a signal asks for the end.
        """
        end_if_asked()
        programs = self._adjust()
        self.object.load()
        if self.processes.meter:
            self.processes.meter.add(self.object, programs, self._choice.tracepoints_at_once)
        self._loaded = Loaded(self.object, [*programs, *self._choice.tracepoints_at_once])
        self._describe(0, self.images, attached=False)
        if not self.following and not self._beside and (self._filtered or self._companions):
            self._loaded.add_targets(sorted({pid for image in self.request.images for pid in image.pids}))

    def load_ahead(self) -> None:
        """Has the object loaded for another attachment, whose request may have images where this one's has none yet; nothing
        else may be done with this one."""
        assert isinstance(self.object, BpfObject)
        self._adjust()
        self.object.load_ahead()

    def _adjust(self) -> list[str]:
        """Before loading: adjusts the object to the request. Says which programs are for probes."""
        config = self.object.section(".rodata.config", abi.Config)
        config.filter_tgid, config.role = int(self._filtered), abi.Side[self.request.role.name]
        config.companions = int(self._companions)
        config.slot_secret = process_slots.secret()
        self._share_maps()
        programs = self._choice.choose(self.object, self.method, self.images, later=self.request.follow is not None)
        if self.processes.meter:
            make_room(self.object)
        return programs

    def _share_maps(self) -> None:
        """Before loading: has the object use the same set of processes, and the same ring of notices, as the others do."""
        others = self.following or (self._beside.object if self._beside else None)
        for name in ("targets", "notices"):
            if others and self.object.has_map(name):
                self.object.reuse_map(name, others.map_fd(name))

    def _describe(self, first: int, images: Sequence[TracedImage], *, attached: bool) -> None:
        """Tells the programs how the SSLs of these libraries are read, and whether all their sites are attached; the first
        one's number is `first`."""
        libraries: LoadedMap = self.object.map("libraries", 4, ctypes.sizeof(abi.Library))
        for index, image in enumerate(images, first):
            record = library_record(
                image.plan.offsets,
                stack_named(image.plan.stack),
                image.labels,
                remember=remembers_sides(image.plan),
                companion=self._companions and image.companion,
                attached=attached,
                tells_ids=image.plan.handshake.tells_ids,
            )
            libraries.update(ctypes.c_uint32(index), record)

    def admit(self, pid: int, *, member: bool = False) -> None:
        """Adds a process to those that the programs know as targets; `member` as for Following.admit.

        With companions the programs themselves add it, at its first call: to write beside them could undo what they write.
        """
        if self.following:
            self.following.admit(pid, member=member)
        elif self._filtered:
            self._counts.add_targets([pid])

    def attach(self, more: Mapping[str, Sequence[Sites]] | None = None, below: SitesOf | None = None) -> None:
        """Attaches all or nothing; KeyboardInterrupt where a signal asks for the end. Who starts from here on is followed,
        where that is wanted.

        `more` gives for other programs the sites of each image, in the order of the request's images. `below` gives those of
        the tier BELOW for one image by its number, whenever they are set.
        """
        end_if_asked()
        self._probes.below = below
        if not self._beside:
            self.processes.attach()
        if self.processes.around:
            self.processes.around.before_attach()
        self.processes.note_images(self.images)
        self._probes.add(0, self.images, more or {})
        if self._sees_no_call() and self.images and not (self.request.wait or self._beside):
            raise AttachError(self._why_no_call_can_begin())
        self._describe(0, self.images, attached=True)
        self._measure_late()
        self.span.begin()
        if self.processes.meter:
            self.processes.meter.begin(self.targets)
        if self.processes.around:
            self.processes.around.attached()

    def _sees_no_call(self) -> bool:
        """Whether there is no probe at which a call begins, now or once what is held back is set."""
        there = any(exists(pid) for image in self.images for pid in image.pids) or not self.each_process
        if there and self._probes.will_have_entries(self.images):
            return False
        return not self._probes.has_entries

    def _why_no_call_can_begin(self) -> str:
        if any(exists(pid) for image in self.images for pid in image.pids):
            return why_no_call_can_begin()
        return "none of the processes to trace is left: they ended while the probes were attached."

    def leave_overwritten(self) -> list[TracedImage]:
        """Removes the probes of the files that were overwritten since they were attached to: who maps one from now on would get
        breakpoints in the midst of other instructions. Which these are."""
        left = [image for _, image in self._watched_images() if is_overwritten(image)]
        for attachment in (self, *self._others_beside) if left else ():
            attachment.leave({image.file for image in left})
        return left

    def leave_copied(self) -> list[int]:
        """Sets no more probes of the files with shared links of which processes map another file from now on, though under the
        same path: an overlay has copied it to its upper layer, as it does when it is opened for writing, or touched. To the
        kernel the copy is a file without probes. Which these are; what is attached to them stays."""
        copied = [
            number
            for number, image in self._watched_images()
            if not self.has_own_links(number) and self._changed_files.is_copied(number, image, self.site_in(number))
        ]
        files = {self.images[number].file for number in copied}
        for attachment in (self, *self._others_beside) if copied else ():
            attachment._probes.left_alone |= {number for number, image in enumerate(attachment.images) if image.file in files}
        return copied

    def perhaps_copied(self) -> list[int]:
        """The files of an overlay, with links of each process's own, whose status has changed since this was asked last: it may
        have copied them. Whether it has, no mapping of ours shows, as the links aren't ours."""
        return [
            number
            for number, image in self._watched_images()
            if self.has_own_links(number) and self._changed_files.may_be_copied(number, image)
        ]

    def _watched_images(self) -> list[tuple[int, TracedImage]]:
        return [(number, image) for number, image in enumerate(self.images) if number not in self._probes.left_alone]

    def leave(self, files: Collection[str]) -> None:
        """Removes the probes of these files, and sets none of them again."""
        self._probes.left_alone |= {number for number, image in enumerate(self.images) if image.file in files}
        self._probes.leave(files)

    def set_probes(self, tiers: Collection[Tier]) -> None:
        """Sets all probes of tiers that were shut; calls don't count before these take them in. AttachError where the kernel
        refuses."""
        self._probes.set_again(tiers, self.images)

    def hold(self, tiers: Collection[Tier]) -> None:
        """Before attaching, with a budget: these are set and taken in later, when all else is attached."""
        self._probes.hold(tiers)

    @property
    def held(self) -> Collection[Tier]:
        """The tiers that are held back until now."""
        return sorted(self._probes.held)

    @property
    def can_set_again(self) -> bool:
        """Whether probes that were removed can be set again and again: perf events take seconds to go, and a session would lose
        its calls that run."""
        return self.method is kernel.Method.MULTI

    def resume_counting(self, tiers: Collection[Tier]) -> None:
        """Calls that begin from now on count."""
        is_last = self._probes.open(tiers)
        self.counters.shut = self._probes.shut_word
        if is_last:
            self.span.begin()
            if self.processes.around:
                self.processes.around.attached()

    def stop_counting(self, tiers: Collection[Tier]) -> None:
        """No call of these tiers that begins from now on counts; those that run are still seen to end."""
        self._probes.shut |= set(tiers)
        self.counters.shut = self._probes.shut_word

    def drop_entries(self, tiers: Collection[Tier]) -> None:
        """Of tiers that were just shut: leaves only what sees calls end, where any run on."""
        time.sleep(_SHORT_CALL_S)
        if not self.is_quiet(tiers):  # else they go together with those that see calls end
            self._probes.close_entries(tiers)

    def finish(self, tier: Tier) -> int:
        """Removes the probes of a tier that is shut; how many of its calls ran on, which aren't counted any more."""
        running = self._counts.drop(tier, self._operations_of([tier]))  # first: ends aren't seen while their probes are removed
        self._probes.close_tier(tier)
        return running

    def is_quiet(self, tiers: Collection[Tier]) -> bool:
        """Whether no call of these tiers runs that has been seen to begin."""
        return self._counts.is_quiet(self._operations_of(tiers))

    def _operations_of(self, tiers: Collection[Tier]) -> set[int]:
        return {number for number, name in enumerate(self.operations) if BY_NAME[name].tier in tiers}

    def next_number(self, count: int) -> int:
        """The number of the next file, which so many are to have room from; TooManyFilesError where there is none."""
        if len(self.images) + count > MOST_LIBRARIES:
            raise TooManyFilesError(f"there are {len(self.images)} traced files already: there is room for {MOST_LIBRARIES}.")
        return len(self.images)

    def extend(self, images: Sequence[TracedImage], more: Mapping[str, Sequence[Sites]] | None = None) -> None:
        """Attaches all or nothing of files that came later; `more` as for attach. AttachError where the kernel refuses."""
        first = self.next_number(len(images))
        self._describe(first, images, attached=False)
        self.processes.note_images(images)
        self._probes.add(first, images, more or {})
        self._describe(first, images, attached=True)
        self.images += images

    def include(self, index: int, pids: Iterable[int], more: Mapping[str, Sites] | None = None) -> None:
        """Attaches the image of that number to processes that came later; where all share the links there is nothing to do."""
        if self.has_own_links(index) and index not in self._probes.left_alone:
            image = replace(self.images[index], pids=tuple(pids))
            self.processes.note_images([image])
            self._probes.add(index, [image], {program: [sites] for program, sites in (more or {}).items()})
            self.images[index] = replace(image, pids=(*self.images[index].pids, *image.pids))

    def has_own_links(self, number: int) -> bool:
        """Whether each process has links of its own to the image of that number."""
        return self.each_process or self.images[number].own_links

    @property
    def may_link_each(self) -> bool:
        """Whether processes may get links of their own to a file that comes later."""
        return may_link_each(self.request, self.method)

    def _release(self, pids: Collection[int]) -> None:
        """Closes the links that processes had of their own which have ended."""
        self._probes.release(pids)
        for index, image in enumerate(self.images):
            self.images[index] = replace(image, pids=tuple(pid for pid in image.pids if pid not in pids))

    def attach_more(self, more: Mapping[str, Sequence[Sites]]) -> None:
        """Attaches programs at further sites of the images, all or nothing. AttachError where the kernel refuses."""
        self._probes.add_programs(self.images, more)

    def remove_programs(self, programs: Collection[str]) -> bool:
        """Removes these programs, which `attach_more` was given sites for, from all sites, later files' as well. Returns
        whether they are gone: perf events, which the kernel takes long to end, stay."""
        return self._probes.remove_programs(programs)

    def site_in(self, number: int) -> int | None:
        """The place of a site in the image of that number that is attached; None where nothing is attached to it."""
        return self._probes.site_in(self.images[number].file)

    def attach_tracepoint(self, program: str) -> Closable:
        """Attaches a program of a BpfObject to the raw tracepoint that its section names: by this link, which is closed with
        the others at the latest. OSError where the kernel has none."""
        assert isinstance(self.object, BpfObject)
        link = self.object.attach_by_section(program)
        self._probes.add_link(link)
        return link

    def remove_links(self, links: list[Closable]) -> None:
        """Closes and forgets links of tracepoints."""
        self._probes.take_links(links)
        close_all(links)

    def all_targets(self) -> tuple[Target, ...]:
        """The processes that were asked for and those found later, ascending."""
        return tuple(self.targets[pid] for pid in sorted(self.targets))

    def name_of(self, pid: int) -> str:
        """The name of a target, "?" where it wasn't there long enough to be asked."""
        return self.targets[pid].comm if pid in self.targets else "?"

    def tend(self) -> None:
        """To be called several times a second."""
        self._measure_late()
        self.processes.measure()
        if self.running:
            self.running.make_room(self.counters.map_full, self.processes.executed)

    def _measure_late(self) -> None:
        if self.processes.meter:
            self._counts.measure_late(self.processes.meter)

    def running_calls(self) -> int:
        """The number of calls that run now, in processes that are still there."""
        return self.running.count(executed=self.processes.executed) if self.running else 0

    def losses(self) -> Losses:
        """Everything that was missed so far. Read `running_calls()` first: it finds the calls of processes that are gone."""
        return self._counts.losses(self.late_processes)

    @property
    def late_processes(self) -> int:
        """The number of processes that were traced late; beside another attachment they are in its losses."""
        return 0 if self._beside else self.processes.were_late

    def forget(self, pids: Iterable[int]) -> None:
        """Takes processes that have ended out of the targets; those that were late stay counted."""
        self.processes.forget(pids)

    def cost(self) -> TracingCost | None:
        """The cost of tracing so far, None where that isn't known; beside another attachment it is in that one's."""
        return None if self._beside else self.processes.cost()

    def next_interval(self) -> int:
        """Has the programs begin another interval; the number of the one that ends."""
        return self._counts.next_interval()

    def detach(self) -> None:
        """Removes the probes; calls that run on are in flight, not lost. May be called twice."""
        detach_together([self])

    def stop(self) -> bool:
        """Has the programs count nothing from now on; whether they did until now."""
        stops = self.span.end()
        if stops:
            self._counts.stop()
            if self.processes.around:
                self.processes.around.before_detach()
        return stops

    @property
    def probings(self) -> Collection[Probing]:
        """The links of all probes."""
        return self._probes.all

    def close(self) -> None:
        """Detaches and frees the programs and maps; may be called twice."""
        self.detach()
        if self.processes.meter and self._loaded and self._loaded.measured:
            self.processes.meter.leave_out(self.object, self._loaded.measured)
            self._loaded.measured = ()
        self.processes.when_ended = [release for release in self.processes.when_ended if release != self._release]
        if not self._beside:
            self.processes.close()
        self.object.close()


def detach_together(attachments: Sequence[Attachment]) -> None:
    """Removes the probes of several that trace the same processes. Nothing counts any more by then, so all links go at once,
    and share what the kernel waits for."""
    stopped = [attachment for attachment in attachments if attachment.stop()]
    close_together([probing for attachment in attachments for probing in attachment.probings])
    for around in (attachment.processes.around for attachment in stopped):
        if around:
            around.detached()
