# SPDX-License-Identifier: Apache-2.0
"""Finds what processes that came later map, and has it traced: a glance many times a second, a look at most every LOOK_S.

The kernel keeps the set of processes, so no child is missed however short it lives. This only looks for code that isn't probed
yet (another OpenSSL after an upgrade, a library loaded late), and gathers names for the report.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from ssllatency.engines.base import TracedImage
from ssllatency.engines.bpf.kernel import Method
from ssllatency.engines.follow.following import Arrival, Following
from ssllatency.engines.follow.mappings import MappingNotice
from ssllatency.engines.rules import Rules
from ssllatency.engines.source import FollowingSource
from ssllatency.errors import SsllatencyError, TooManyOpenFiles, Unforeseen, about_one_of_many
from ssllatency.model.cost import MOST_OTHERS, PayingProcess
from ssllatency.own_processes import own_pids
from ssllatency.probes.costs import HitCosts
from ssllatency.stacks.file_names import has_library_name
from ssllatency.stopping import wait_for
from ssllatency.targets import (
    MappedFile,
    Members,
    Selection,
    all_processes,
    can_have_children,
    exists,
    is_unified,
    kept_comm,
    members,
    never_notes,
    opt_out_reason,
    tls_candidates,
)
from ssllatency.tracing.late.files import LateFiles, OnDisk, Told
from ssllatency.tracing.late.new_files import NewFiles
from ssllatency.tracing.late.notes import Notes, name_of
from ssllatency.tracing.late.on_disk import FilesOnDisk
from ssllatency.tracing.late.targets import LateTargets
from ssllatency.tracing.late.waiting import LookTimes, WaitingProcesses
from ssllatency.tracing.links.others import OtherUsers, maps_any
from ssllatency.tracing.links.own_links import OwnLinks
from ssllatency.tracing.resolve import Resolved
from ssllatency.tracing.seen_files import SeenFiles

_AT_ONCE = 64  # processes looked at in one go: the report must come though thousands start


def rules_for(selection: Selection, *, wait: bool = False) -> Rules | None:
    """Return the rules by which processes are followed; None for everyone who maps a file, for whom nothing can come later.
    With `wait` it is told when one of them comes: the first, or each where they don't share links."""
    if selection.libraries:
        return Rules() if wait else None
    unified = selection.cgroup is not None and is_unified(Path(selection.cgroup))
    return Rules(
        members=Members(selection),
        comms=tuple(map(kept_comm, selection.comms)),
        cgroup=selection.cgroup if unified and selection.cgroup else "",
    )


def childless(selection: Selection) -> bool:
    """Whether none of the processes that are selected can ever start another, and no others are selected later."""
    if not selection.pids or selection != Selection(pids=selection.pids):
        return False
    # Most can, and whoever they have started needn't be looked for then.
    return not (any(map(can_have_children, selection.pids)) or any(map(can_have_children, members(selection))))


def load_early(
    selection: Selection, stack: ExitStack, *, wait: bool = False, meanwhile: Callable[[], object] = lambda: None
) -> Following | None:
    """Return what will follow later processes, loaded and kept as long as `stack`; None where there is nothing to follow, or
    the kernel refuses: that is found out and told when the probes are attached. `meanwhile`: what there is to do until then."""
    rules = rules_for(selection, wait=wait)
    if rules is None:
        meanwhile()
        return None
    following = Following(rules, everyone=selection.everything or bool(selection.libraries))
    stack.callback(following.close)
    with suppress(SsllatencyError):
        following.load_ahead()
        meanwhile()
        following.load()
        return following
    return None


class Follower:
    """The follower of a run's processes and files. `extend` attaches images that came later instead of the session, and may
    leave some out. `has_links_option`: as for OtherUsers.

    `arrived`: a process to trace maps, or has mapped, one of the files.
    """

    def __init__(
        self,
        session: FollowingSource,
        resolved: Resolved,
        stack: ExitStack,
        extend: Callable[[Sequence[TracedImage]], None] | None = None,
        *,
        has_links_option: bool = True,
    ) -> None:
        self._attachment, self._resolved = session.attachment, resolved
        self._notes = Notes(self._attachment.notes)
        self._seen = SeenFiles(resolved.files)
        self._links = OwnLinks(session, resolved.spared, self._notes.say)
        self._files = LateFiles(self._attachment, extend or session.extend, stack, self._seen, self._links, self._notes)
        self._times, self._waiting = LookTimes(), WaitingProcesses()
        self._new_files = NewFiles(resolved, self._files, self._seen, self._notes, self._times, self._waiting)
        self._on_disk = FilesOnDisk(self._attachment, resolved.source, self._seen, self._present)
        admits = bool(resolved.selection.libraries)
        self._targets = LateTargets(
            self._attachment, self._seen, self._links, self._notes, self._hear_more, self._arrive, admits=admits
        )
        self.arrived = not resolved.waits
        self._lost = 0
        self._members = Members(resolved.selection)
        alone = self._attachment.each_process or resolved.selection.everything
        self._others = (
            None
            if alone
            else OtherUsers(self._seen.shared, self._seen.hints, self._is_target, has_links_option=has_links_option)
        )
        if self._attachment.unfollowed:
            self._notes.say(f"Processes that start later are found late: {self._attachment.unfollowed}")

    @property
    def refused(self) -> int:
        """The number of processes and files that couldn't be traced though they are there."""
        return self._notes.refused

    @property
    def spared(self) -> int:
        """The number of processes that get no probe and would otherwise, or that share a file with those that do."""
        return self._links.spared

    def wait(self, timeout_s: float, also: int | None = None) -> bool:
        """Waits so long, or until a process has done something worth a look; then looks. A signal that asks for the
        end ends the wait, and so does `also`, a descriptor, once it can be read: whether it can."""
        following = self._attachment.following
        descriptors = [following.fileno()] if following else []
        ready = wait_for(descriptors if also is None else [*descriptors, also], timeout_s)
        if following:
            following.wait(0)
        self.look()
        return also in ready

    @property
    def bursts(self) -> int:
        """The number of times that probes were hit so often that the budget needs a look."""
        following = self._attachment.following
        return following.bursts if following else 0

    def look(self) -> None:
        """Takes what the kernel tells; looks at those processes, and now and then at all that are new. What there is no time
        for waits for the next look."""
        self._times.begin()
        self._seen.begin_look()
        following = self._attachment.following
        self._look_for_others()
        if following:
            self._hear(following)
        if self._is_time():
            for sentence in never_notes():
                self._notes.say(sentence)
            self._files.leave_overwritten()
            self._files.retrace_copied()
            self._files.warn_of_copied()
            self._waiting.add_new(self._new_files.due())
            try:
                self._look_around()
            except TooManyOpenFiles:  # who is there is looked for again
                self._notes.say_too_many()
        with suppress(KeyboardInterrupt):  # the signal ends the run, not the report: whoever looks for it sees it waiting
            for pid in self._waiting.first(_AT_ONCE):
                if following:
                    self._hear_of_children(following)
                self._look_at(pid, self._waiting.take(pid))
                if self._times.is_late:
                    break

    def _look_for_others(self) -> None:
        """Says once, when there are any, which other processes pay for the links that the targets share."""
        others = self._others.look() if self._others else []
        if self._others and others:
            paying = (PayingProcess(process.pid, process.comm) for process in others[:MOST_OTHERS])
            self._attachment.processes.others = tuple(paying)
            self._notes.say(self._others.sentence(others, self._attachment.images, self._hit_costs()))
            self._others = None

    def _hit_costs(self) -> HitCosts | None:
        meter = self._attachment.processes.meter
        return meter.hit_costs() if meter else None

    def _is_target(self, pid: int) -> bool:
        """Whether the process is, or was, one to trace. Where all users of a file are, what it maps tells."""
        following = self._attachment.following
        if pid in self._attachment.targets:
            return True
        if self._resolved.everyone:
            images = self._attachment.images
            return maps_any(pid, {identity for identity, number in self._seen.traced.items() if not images[number].companion})
        return bool(following and following.has_been(pid))

    def _hear(self, following: Following) -> None:
        """Puts on the list whom the kernel tells of: who has mapped what may be TLS, and who has become a target."""
        self._hear_of_children(following)
        if following.cgroup_is_new():
            self._refill(following)
        mapped = following.mapped()
        if self._others:
            self._others.hear(following.by_others)
        self._respect((*mapped, *following.by_others))
        for mapping in mapped:
            self._take_notice(mapping, self._seen.certain(mapping))
            if self._matters(mapping):
                self._waiting.hear(mapping)

    def _respect(self, mapped: Iterable[MappingNotice]) -> None:
        """Leaves processes alone that have just mapped a traced file and have opted out, where they have links of their own;
        else says that this can't be. Each is looked at once, however often it has mapped the file, and again where it
        can't be told now."""
        latest, self._waiting.unasked = self._waiting.unasked, {}
        latest |= {
            (mapping.pid, number): mapping.path for mapping in mapped if (number := self._seen.certain(mapping)) is not None
        }
        why_off: dict[int, str] = {}
        for (pid, number), path in latest.items():
            try:
                with about_one_of_many():
                    if pid not in why_off:
                        why_off[pid] = opt_out_reason(pid)
                    if why_off[pid]:
                        self._leave_alone(pid, why_off[pid], number, path)
            except Unforeseen as error:
                self._leave_unasked(pid, number, error)
            except TooManyOpenFiles:
                if exists(pid):
                    self._waiting.unasked[pid, number] = path
                self._notes.say_too_many()

    def _leave_unasked(self, pid: int, number: int, error: SsllatencyError) -> None:
        """Leaves a process alone of which nobody can tell whether it has opted out, where that can be."""
        self._notes.refuse(f"{name_of(pid)} can't be asked whether it has opted out: {error}")
        if self._links.has(pid, number) and self._attachment.method is not Method.PERF:
            self._links.withdraw(pid, number)

    def _leave_alone(self, pid: int, why: str, number: int, path: str) -> None:
        who = f"{name_of(pid)} {why}"
        if not self._attachment.has_own_links(number):
            self._notes.refuse(
                f"{who}, but started when every process that maps {path} was probed already, and has probes until this run"
                " ends: --links process spares those that come later."
            )
        elif self._links.has(pid, number) and self._attachment.method is Method.PERF:
            self._notes.refuse(f"{who}, but had probes when it executed its program, and has them until this run ends.")
        elif self._links.has(pid, number):
            self._links.withdraw(pid, number)

    def _hear_of_children(self, following: Following) -> None:
        """Attaches at once to children that have links of their own: each may make its first call at any moment."""
        for pid, arrival in following.joined().items():
            if arrival.parent:
                self._link_child(pid, arrival)
            self._waiting.add(pid)
        self._notes.say_dropped(following.counters.dropped)

    def _link_child(self, pid: int, arrival: Arrival) -> None:
        """A child that has a traced file mapped from its parent may have made calls before: it counts as late however soon."""
        try:
            with about_one_of_many():
                linked = self._links.include_child(pid, arrival.parent)
        except TooManyOpenFiles:  # it is looked at again
            linked = False
            self._notes.say_too_many()
        except SsllatencyError as error:
            linked = False
            if exists(pid):
                self._notes.refuse(f"{name_of(pid)} isn't traced: {error}")
        if self._links.is_mapping(arrival.parent):
            self._attachment.late.add(pid)
            if linked:
                self._notes.say_late(pid, time.monotonic_ns() - arrival.at_ns)

    def _take_notice(self, mapping: MappingNotice, number: int | None) -> None:
        """Notes that a process has come that maps a traced file, the one of that number, and whether it came before the probes
        did."""
        if number is None:
            return
        self.arrived = True
        self._attachment.processes.note_mapping(mapping.pid, self._attachment.images[number])
        in_time = self._links.note_mapping(mapping.pid, number, mapping.at_ns)
        if not in_time or mapping.at_ns < self._files.attached_ns(number):
            self._attachment.late.add(mapping.pid)

    def _refill(self, following: Following) -> None:
        self._targets.joined_late |= following.refill(self._has_begun)

    def _has_begun(self, pid: int) -> bool:
        """Whether the process maps a traced file already, or is gone and may have: who is just starting has made no call."""
        try:
            with about_one_of_many():
                maps = any(file.identity in self._seen.traced for file in tls_candidates(pid))
        except SsllatencyError:
            maps = False
        return maps or not exists(pid)

    def _matters(self, mapping: MappingNotice) -> bool:
        """Whether what was mapped may be new: a file, or to the process a file that is traced. Whoever maps what can't be told
        apart by what is told of it is looked at."""
        if self._resolved.selection.libraries and not self._seen.may_be_traced(mapping):
            return False
        if self._resolved.everyone and mapping.pid in own_pids():
            return False
        number = self._seen.certain(mapping)
        if number is None:
            return not self._seen.is_settled(mapping)
        alone = self._attachment.has_own_links(number) and not self._links.has(mapping.pid, number)
        return alone or mapping.pid not in self._attachment.targets

    def _is_time(self) -> bool:
        """Whether it is time to look who is there."""
        following = self._attachment.following
        return self._times.is_time(following.counters.joined if following else 0)

    def anyone_left(self) -> bool:
        """Whether a process is left to trace, or one of the name or in the cgroup may yet come."""
        following, selection = self._attachment.following, self._resolved.selection
        if self._resolved.everyone or selection.lasts:
            return True
        if selection.container is not None and not self.arrived:
            return True
        return bool(following.alive()) if following else any(exists(pid) for pid in self._attachment.targets)

    def _look_around(self) -> None:
        """Puts on the list who is new, and where mappings aren't seen who might have mapped something."""
        following, selection = self._attachment.following, self._resolved.selection
        sees = bool(following and following.sees_mappings)
        if following and following.lost > self._lost:
            if self._resolved.everyone:  # else most of them were other processes', and those that count are few to look at
                self._notes.say(
                    f"{following.lost - self._lost} notices of mapped files, executed programs and new names were lost: "
                    "all processes are looked at again."
                )
            self._lost = following.lost
            self._waiting.looked.clear()
        if self._resolved.everyone and sees and self._waiting.looked:
            self._links.keep({pid for pid in self._links.pids if exists(pid)})
            return
        if following and (selection.lasts or selection.container is not None):
            self._refill(following)
        present = self._present()
        self._waiting.looked &= present
        self._links.keep(present)
        self._new_files.keep(present)
        self._waiting.add_new(sorted(present - self._waiting.looked if sees else present))

    def _present(self) -> set[int]:
        if self._resolved.everyone:
            return {process.pid for process in all_processes()} - own_pids()
        following = self._attachment.following
        return set(following.alive() if following else self._members())

    def _look_at(self, pid: int, mapped: Told) -> None:
        if not self._attachment.following and not self._resolved.selection.libraries:
            self._attachment.admit(pid)
        candidates: list[MappedFile] = []
        try:
            with about_one_of_many():
                candidates = tls_candidates(pid)
                if not candidates and mapped and not self._resolved.selection.libraries:
                    self._look_back(pid, mapped)
                candidates, is_more = self._new_files.look_into(pid, candidates, mapped, self._heard_of)
                if is_more:
                    self._put_off(pid, mapped)
                elif pid in self._waiting:
                    self._waiting.add_again(pid, mapped)
                else:
                    self._settle(pid, candidates, mapped)
                self._targets.enlist(pid, candidates)
        except TooManyOpenFiles:
            self._waiting.add_again(pid, mapped)
            self._notes.say_too_many()
        except SsllatencyError as error:
            if exists(pid):
                self._notes.refuse(f"{name_of(pid)} can't be inspected: {error}")
        for mapping in mapped.values():
            self._take_notice(mapping, self._seen.number_told(mapping, candidates))
        self._waiting.looked.add(pid)

    def _settle(self, pid: int, candidates: Sequence[MappedFile], mapped: Told) -> None:
        """Has nobody looked at any more for having mapped one of these files that are known not to be traced."""
        generations = {mapping.numbers: mapping.generation for mapping in mapped.values()}
        for file in candidates:
            generation = generations.get(file.numbers, 0)
            if generation and self._seen.number_of(file) is None and self._seen.is_known(pid, file):
                self._seen.settle(file.identity, file.numbers, generation)

    def _look_back(self, pid: int, mapped: Told) -> None:
        """Has those files traced that a process had mapped which is gone: the next one like it maps them as well. Files for
        which there is no time wait for the next look."""
        left: Told = {}
        with ExitStack() as opened:
            fresh = self._found_on_disk(pid, mapped, left, opened)
            if left:
                self._waiting.add_again(pid, left)
            if fresh:
                self.arrived = True
                self._files.add_from_disk(pid, fresh, mapped, opened)

    def _found_on_disk(self, pid: int, mapped: Told, left: Told, opened: ExitStack) -> list[OnDisk]:
        """Those files, open as long as `opened`; `left` gets what there is no time for."""
        fresh: list[OnDisk] = []
        has_looked = False
        for key, mapping in mapped.items():
            number = self._seen.certain(mapping)
            if number is not None:
                if self._attachment.has_own_links(number):
                    self._attachment.late.add(pid)
            elif not self._seen.is_settled(mapping) and (not self._resolved.everyone or has_library_name(mapping.path)):
                if has_looked and self._times.is_late:
                    left[key] = mapping
                    continue
                found, has_looked = self._on_disk.image_of(mapping, opened), True
                fresh += [(found[0], mapping, found[1])] if found else []
        return fresh

    def _put_off(self, pid: int, mapped: Told) -> None:
        """Has the next look go on with a process that has mapped more new files than one look takes."""
        self._notes.say(f"{name_of(pid)} maps new files faster than they can be inspected: the rest are traced later.")
        self._waiting.put_off(pid, mapped)

    def _arrive(self) -> None:
        self.arrived = True

    def _hear_more(self) -> None:
        if self._attachment.following:
            self._hear(self._attachment.following)

    def _heard_of(self, pid: int) -> Told:
        """Take what the kernel tells of a process that is being looked at: its mappings may be seen before they are told of."""
        self._hear_more()
        return self._waiting.take(pid)
