# SPDX-License-Identifier: Apache-2.0
"""Who follows the processes of a run: what it attaches, what it looks at, and what it says. The kernel's side is played."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ssllatency.engines.base import AttachError, TracedImage
from ssllatency.engines.bpf.kernel import Method
from ssllatency.engines.follow.following import Arrival
from ssllatency.engines.follow.mappings import MappingNotice
from ssllatency.errors import SsllatencyError
from ssllatency.model.snapshot import Target
from ssllatency.probes.plan import FilePlan
from ssllatency.targets import MOST_OF_PROCESS, ExpectedFile, FileVersion, MappedFile, Process, Selection, TracedFile
from ssllatency.tracing import follow
from ssllatency.tracing.follow import Follower
from ssllatency.tracing.late import files, new_files, notes, on_disk, targets, waiting
from ssllatency.tracing.links import others, own_links
from ssllatency.tracing.resolve import Resolved, library_of

OLD, NEW = 100, 101  # processes


def mapped_file(inode: int, path: str = "/usr/lib/libssl.so.3") -> MappedFile:
    return MappedFile(path, (8, 1), inode, "1000-2000", False)


def image_of(file: MappedFile, descriptor: int, *pids: int) -> TracedImage:
    plan = FilePlan(file.path, "aa", "OpenSSL 3.0", "libssl", (), ())
    return TracedImage(plan, f"/proc/self/fd/{descriptor}", pids)


@dataclass
class Kernel:
    """What the kernel would tell of processes and their mappings."""

    maps: dict[int, list[MappedFile]] = field(default_factory=dict)
    told: list[MappingNotice] = field(default_factory=list)
    deaf: int = 0  # so often nothing is told yet
    lost: int = 0
    sees_mappings: bool = True
    found_late: set[int] = field(default_factory=set)  # whom the next look adds to the set
    started: dict[int, Arrival] = field(default_factory=dict)  # children that it tells of, where it was asked to
    tells_of_children: bool = False
    watched: set[int] = field(default_factory=set)  # whose children it tells of where everyone is traced
    others: set[int] = field(default_factory=set)  # who isn't in the set
    by_others: list[MappingNotice] = field(default_factory=list)
    counters: Any = field(default_factory=lambda: SimpleNamespace(joined=0, dropped=0))

    def tell_of_children(self) -> None:
        self.tells_of_children = True

    def watch(self, pid: int) -> None:
        self.watched.add(pid)

    def joined(self) -> dict[int, Arrival]:
        started, self.started = self.started, {}
        return started

    def mapped(self) -> list[MappingNotice]:
        self.deaf -= 1
        if self.deaf >= 0:
            return []
        told, self.told = self.told, []
        self.by_others = [mapping for mapping in told if mapping.pid in self.others]
        return [mapping for mapping in told if mapping.pid not in self.others]

    def has_been(self, pid: int) -> bool:
        return pid not in self.others

    def alive(self) -> list[int]:
        return [pid for pid in self.maps if pid not in self.others]

    def refill(self, has_begun: Callable[[int], bool]) -> set[int]:
        found, self.found_late = self.found_late, set()
        return {pid for pid in found if has_begun(pid)}

    def cgroup_is_new(self) -> bool:
        return False

    def map(self, pid: int, file: MappedFile) -> None:
        """A process maps a file, and the kernel tells of it."""
        self.maps.setdefault(pid, []).append(file)
        self.told.append(MappingNotice(pid, 1, file.path, file.identity))


class Session:
    """The session of these images, and a Follower of it that may look as often as it likes."""

    def __init__(
        self,
        kernel: Kernel,
        files: Sequence[MappedFile],
        selection: Selection,
        *,
        alone: bool = False,
        waits: bool = False,
        sites: int | None = 4096,
        method: Method = Method.MULTI,
    ) -> None:
        images = [image_of(file, number, OLD) for number, file in enumerate(files)]
        self.included: list[tuple[int, list[int]]] = []
        self.released: list[int] = []
        self.extended: list[TracedImage] = []
        self.admitted: list[int] = []
        self.overwritten: list[TracedImage] = []
        self.copied: list[int] = []
        self.perhaps_copied: list[int] = []
        self.attachment: Any = SimpleNamespace(
            targets={OLD: Target(OLD, "nginx", ())},
            following=kernel,
            unfollowed="",
            notes=[],
            late=set(),
            images=images,
            each_process=alone,
            method=method,
            processes=SimpleNamespace(meter=None, release=self.released.extend),
            site_in=lambda _: sites,
            admit=self._admit,
            leave_overwritten=lambda: self.overwritten.copy(),
            leave_copied=lambda: [self.copied.pop()] if self.copied else [],
            perhaps_copied=lambda: [self.perhaps_copied.pop()] if self.perhaps_copied else [],
            may_link_each=True,
            has_own_links=lambda number: alone or images[number].own_links,
        )
        everyone = selection.everything or bool(selection.libraries)
        resolved = Resolved(tuple(images), (), everyone, (), cast("Any", None), tuple(files), selection, waits=waits)
        self._stack = ExitStack()
        self._follower = Follower(self, resolved, self._stack, self._extend)

    @property
    def arrived(self) -> bool:
        return self._follower.arrived

    @property
    def spared(self) -> int:
        return self._follower.spared

    @property
    def refused(self) -> int:
        return self._follower.refused

    @property
    def anyone_left(self) -> bool:
        return self._follower.anyone_left()

    def include(self, index: int, pids: Sequence[int]) -> None:
        self.included.append((index, list(pids)))

    def _admit(self, pid: int) -> None:
        self.admitted.append(pid)

    def _extend(self, images: Sequence[TracedImage]) -> None:
        self.extended += images
        self.attachment.images += images

    def close(self) -> None:
        self._stack.close()

    def look(self) -> None:
        """Several times, as if a second had passed before each."""
        for _ in range(3):
            self._follower._times._looked_at = 0.0
            self._follower.look()


def play(monkeypatch: pytest.MonkeyPatch, name: str, value: object) -> None:
    """Has the follower's modules use this in place of what they call by that name."""
    modules = [module for module in (follow, files, new_files, notes, on_disk, targets, waiting) if hasattr(module, name)]
    assert modules
    for module in modules:
        monkeypatch.setattr(module, name, value)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel()
    play(monkeypatch, "tls_candidates", lambda pid: made.maps.get(pid, []))
    play(monkeypatch, "process_of", lambda pid: Process(pid, 1, "nginx", 0))
    play(monkeypatch, "all_processes", lambda: [Process(pid, 1, "nginx", 0) for pid in made.maps])
    play(monkeypatch, "exists", lambda pid: pid in made.maps)
    play(monkeypatch, "recognised_file", lambda pid, file, _: TracedFile("libssl", pid, file, (pid,)))
    monkeypatch.setattr(own_links, "exists", lambda pid: pid in made.maps)
    monkeypatch.setattr(others, "mapped_files", lambda pid: made.maps.get(pid, []))
    monkeypatch.setattr(others, "process_of", lambda pid: Process(pid, 1, "other", 0) if pid in made.maps else None)
    monkeypatch.setattr(others, "_pids", lambda: list(made.maps))
    opened = iter(range(50, 5000))
    monkeypatch.setattr(
        new_files, "open_images", lambda files, *_: tuple(image_of(each.mapping, next(opened), each.pid) for each in files)
    )
    return made


@pytest.mark.parametrize("selection", [Selection(everything=True), Selection(pids=(OLD,))], ids=["all", "pid"])
def test_who_maps_a_traced_file_later_is_attached_where_each_has_links_of_its_own(kernel: Kernel, selection: Selection) -> None:
    first, twin = mapped_file(11), mapped_file(22)
    kernel.maps = {OLD: [first, twin], NEW: []}  # it has just been forked
    session = Session(kernel, [first, twin], selection, alone=True)
    session.look()
    assert session.included == []
    kernel.map(NEW, twin)
    session.look()
    assert session.included == [(1, [NEW])]
    assert NEW in session.attachment.targets
    assert any("was traced" in note and "ms after it had started" in note for note in session.attachment.notes)


def test_who_maps_a_traced_file_later_is_a_target_where_all_share_the_links(kernel: Kernel) -> None:
    file = mapped_file(11)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(everything=True))
    session.look()
    kernel.map(NEW, file)
    session.look()
    assert session.included == []
    assert sorted(session.attachment.targets) == [OLD, NEW]


def test_who_maps_a_traced_file_again_and_again_is_asked_once_whether_it_has_opted_out(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its environment may be of megabytes."""
    asked: list[int] = []
    monkeypatch.setattr(follow, "has_opted_out", lambda pid: not asked.append(pid))
    file = mapped_file(11)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(everything=True))
    for _ in range(1000):
        kernel.told.append(MappingNotice(NEW, 1, file.path, file.identity))
    session.look()
    assert asked == [NEW]
    assert session.refused == 1
    kernel.told.append(MappingNotice(NEW, 1, file.path, file.identity))
    session.look()
    assert session.refused == 1


@pytest.mark.parametrize(("method", "left"), [(Method.MULTI, False), (Method.PERF, True)])
def test_who_opts_out_while_it_has_links_loses_them_or_it_is_said_that_it_can_not(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, method: Method, left: bool
) -> None:
    off: set[int] = set()
    monkeypatch.setattr(follow, "has_opted_out", lambda pid: pid in off)
    monkeypatch.setattr(own_links, "unprobed", lambda _, pids: {pid: "No probe is set there." for pid in pids if pid in off})
    file = mapped_file(11)
    kernel.maps = {OLD: [file], NEW: []}
    session = Session(kernel, [file], Selection(pids=(OLD,)), alone=True, method=method)
    kernel.map(NEW, file)
    session.look()
    assert session.included == [(0, [NEW])]
    off.add(NEW)
    kernel.map(NEW, file)
    session.look()
    assert session.released == ([] if left else [NEW])
    assert ("No probe is set there." in session.attachment.notes) is not left
    assert any("until this run ends" in note for note in session.attachment.notes) is left


@pytest.mark.parametrize("ended", [False, True], ids=["there", "gone"])
def test_the_first_process_that_maps_a_traced_file_is_the_arrival(kernel: Kernel, ended: bool) -> None:
    file, other = mapped_file(11), mapped_file(22, "/usr/bin/true")
    kernel.maps = {OLD: []}
    session = Session(kernel, [file], Selection(pids=(OLD,)), waits=True)
    session.look()
    assert not session.arrived
    kernel.told = [MappingNotice(NEW, 1, other.path, other.identity)]
    session.look()
    assert not session.arrived
    kernel.map(NEW, file)
    if ended:
        del kernel.maps[NEW]
    session.look()
    assert session.arrived
    assert session.attachment.late == set()


@pytest.mark.parametrize(("selection", "left"), [(Selection(pids=(OLD,)), False), (Selection(container="web"), True)])
def test_who_is_waited_for_may_come_if_not_named_by_its_pid(kernel: Kernel, selection: Selection, left: bool) -> None:
    session = Session(kernel, [mapped_file(11)], selection, waits=True)
    session.look()
    assert session.anyone_left == left


def test_those_that_mapped_a_file_before_it_was_traced_are_counted(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that the kernel tells of only afterwards; and none that comes later."""
    file, new = mapped_file(11), mapped_file(22)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)), sites=None)
    monkeypatch.setattr(time, "monotonic_ns", lambda: 1000)
    kernel.map(NEW, new)
    kernel.map(300, new)
    session.look()
    assert session.attachment.late == {NEW, 300}
    kernel.told = [MappingNotice(301, 999, new.path, new.identity), MappingNotice(302, 1001, new.path, new.identity)]
    session.look()
    assert session.attachment.late == {NEW, 300, 301}


@pytest.mark.parametrize(("maps", "late"), [(True, True), (False, False)], ids=["running", "starting"])
def test_who_joins_late_is_a_loss_where_it_may_have_made_calls(kernel: Kernel, maps: bool, late: bool) -> None:
    """A process that is seen while it starts has the kernel's own notice on its way."""
    file = mapped_file(11)
    kernel.maps = {OLD: [file], NEW: [file] if maps else []}
    session = Session(kernel, [file], Selection(comms=("nginx",)))
    kernel.found_late = {NEW}
    session.look()
    kernel.map(NEW, file)
    session.look()
    assert session.attachment.late == ({NEW} if late else set())


@pytest.mark.parametrize(("there", "late"), [(22, {NEW}), (44, {NEW}), (None, {NEW})])
def test_what_a_process_mapped_that_is_gone_is_traced_for_the_next_one(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, there: int | None, late: set[int]
) -> None:
    """If that very file is still at its path."""
    file, new = mapped_file(11), mapped_file(22, "/opt/libssl.so.3")

    def opened(path: str, root: str, stack: ExitStack) -> ExpectedFile | None:
        descriptor = os.open(os.devnull, os.O_RDONLY)
        stack.callback(os.close, descriptor)
        return (
            ExpectedFile(descriptor, mapped_file(there, path), root, FileVersion((8, 1, there)))
            if there and root == "/of/100"
            else None
        )

    def planned(found: ExpectedFile, _: object) -> TracedImage:
        image = image_of(new, found.descriptor)
        return replace(image, plan=replace(image.plan, build_id="bb"))

    play(monkeypatch, "root_paths", lambda pids: [f"/of/{pid}" for pid in pids])
    play(monkeypatch, "open_expected", opened)
    play(monkeypatch, "image_of", planned)
    before = len(list(Path("/proc/self/fd").iterdir()))
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)))
    session.look()
    kernel.told = [MappingNotice(NEW, 1, new.path, new.identity)]
    session.look()
    assert session.attachment.late == late
    assert [image.pids for image in session.extended] == ([()] if there == 22 else [])
    session.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_files_of_who_is_gone_that_take_longer_than_a_look_wait_for_the_next(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That nobody has looked into them yet isn't a loss: none of them holds what is to be traced."""
    now = 100.0
    looked: list[str] = []

    def opened(path: str, root: str, _stack: ExitStack) -> ExpectedFile | None:
        file = mapped_file(int(path[-1]), path)
        return ExpectedFile(-1, file, root, FileVersion(file.identity)) if root == "/" else None

    def planned(found: ExpectedFile, _: object) -> None:
        nonlocal now
        now += 0.3
        looked.append(found.mapping.path)

    play(monkeypatch, "time", SimpleNamespace(monotonic=lambda: now, monotonic_ns=lambda: 0))
    play(monkeypatch, "root_paths", lambda _: [])
    play(monkeypatch, "open_expected", opened)
    play(monkeypatch, "image_of", planned)
    file = mapped_file(11)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)))
    session.look()
    kernel.told = [MappingNotice(NEW, 1, path, (8, 1, int(path[-1]))) for path in ("/lib/libssl.so.1", "/lib/libssl.so.2")]
    session._follower.look()
    assert looked == ["/lib/libssl.so.1"]
    session._follower.look()
    assert looked == ["/lib/libssl.so.1", "/lib/libssl.so.2"]
    session.look()
    assert len(looked) == 2
    assert session.attachment.late == set()


@pytest.mark.parametrize("selection", [Selection(everything=True), Selection(pids=(OLD,))], ids=["all", "pid"])
def test_what_was_mapped_while_the_probes_were_attached_is_found(kernel: Kernel, selection: Selection) -> None:
    file, early = mapped_file(11), mapped_file(33)
    kernel.maps = {OLD: [file, early]}  # which nobody tells of
    session = Session(kernel, [file], selection, sites=None)
    session.look()
    assert [image.pids for image in session.extended] == [(OLD,)]


def test_a_mapping_that_is_seen_before_it_is_told_of_is_said_by_its_time(kernel: Kernel) -> None:
    file = mapped_file(11)
    kernel.maps, kernel.deaf = {OLD: [file]}, 1
    kernel.map(OLD, mapped_file(33))
    session = Session(kernel, [file], Selection(pids=(OLD,)), sites=None)
    session.look()
    assert len(session.extended) == 1
    assert any("ms before it was traced" in note for note in session.attachment.notes)


def test_a_target_has_each_library_once(kernel: Kernel) -> None:
    """Also where the file is no longer there."""
    file = replace(mapped_file(11), deleted=True)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)))
    asked_for = library_of(session.attachment.images[0], deleted=True)
    session.attachment.targets[OLD] = Target(OLD, "nginx", (asked_for,))
    session.look()
    assert session.attachment.targets[OLD].libraries == (asked_for,)


@pytest.mark.parametrize("selection", [Selection(everything=True), Selection(pids=(OLD,))], ids=["all", "pid"])
def test_where_notices_were_lost_everyone_is_looked_at_again(kernel: Kernel, selection: Selection) -> None:
    file = mapped_file(11)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], selection, sites=None)
    session.look()
    kernel.maps[OLD].append(mapped_file(33))
    session.look()
    assert session.extended == []
    kernel.lost = 7
    session.look()
    assert [image.pids for image in session.extended] == [(OLD,)]
    told = any("7 notices of mapped files were lost" in note for note in session.attachment.notes)
    assert told == selection.everything  # of a process, those that were lost may all be others'


@pytest.mark.parametrize(("site", "byte", "extended"), [(4096, b"\xcc", 0), (4096, b"\x55", 1), (None, b"\xcc", 1)])
def test_a_copy_that_has_the_breakpoints_already_is_the_same_file(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, site: int | None, byte: bytes, extended: int
) -> None:
    """An image may have no operation of its own, as libcrypto where handshakes are measured; or no site at all."""
    file, twin = mapped_file(11), mapped_file(22)
    play(monkeypatch, "code_byte", lambda *_: byte[0])
    play(monkeypatch, "_byte_of", lambda *_: b"\x55")
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)), sites=site)
    session.look()
    kernel.map(NEW, twin)
    session.look()
    assert len(session.extended) == extended


def test_a_process_that_maps_new_files_without_an_end_traps_nobody(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whenever it is looked at it has mapped one more; others have their turn in between."""
    file, greedy, other = mapped_file(11), 200, 300
    inodes = iter(range(1000, 1000 + 10 * MOST_OF_PROCESS))
    kernel.maps = {OLD: [file], greedy: [], other: []}
    session = Session(kernel, [file], Selection(everything=True), sites=None)
    session.look()

    def candidates(pid: int) -> list[MappedFile]:
        if pid == greedy:
            kernel.maps[pid].append(mapped_file(next(inodes)))  # StopIteration where nothing ends it
        return kernel.maps[pid]

    # Else a slow machine tells another time at each look, and of so many sentences the last are only counted.
    monkeypatch.setattr(notes, "time", SimpleNamespace(monotonic_ns=lambda: 1_000_001))
    play(monkeypatch, "tls_candidates", candidates)
    kernel.told = [MappingNotice(greedy, 1, "/usr/lib/libssl.so.3", (8, 1, 999))]
    session.look()
    assert 0 < len(session.extended) <= 3 * follow._MOST_FILES
    kernel.map(other, mapped_file(22))
    session.look()
    assert (other,) in [image.pids for image in session.extended]
    for _ in range(MOST_OF_PROCESS):
        session.look()
    assert sum(image.pids == (greedy,) for image in session.extended) == MOST_OF_PROCESS
    said = capsys.readouterr().err
    assert "nginx (200) maps new files faster than they can be inspected: the rest are traced later." in said
    assert "nginx (200) has mapped so many new files that those it maps from now on aren't inspected." in said


def test_a_look_ends_in_time(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long each process takes."""
    file, now = mapped_file(11), 0.0
    kernel.maps = {OLD: [file], **{pid: [] for pid in range(200, 260)}}
    session = Session(kernel, [file], Selection(everything=True), sites=None)
    session.look()

    def candidates(pid: int) -> list[MappedFile]:
        nonlocal now
        now += 0.1
        looked.append(pid)
        return kernel.maps[pid]

    looked: list[int] = []
    play(monkeypatch, "tls_candidates", candidates)
    play(monkeypatch, "time", SimpleNamespace(monotonic=lambda: now, monotonic_ns=lambda: 0))
    kernel.told = [MappingNotice(pid, 1, "/usr/lib/libssl.so.3", (8, 1, pid)) for pid in range(200, 260)]
    session._follower.look()
    assert looked == [200, 201, 202]
    session._follower.look()
    assert looked[3:] == [203, 204, 205]


def test_a_damaged_file_does_not_hide_the_next_one(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both were mapped since the last look."""
    file, damaged, new = mapped_file(11), mapped_file(22, "/tmp/libssl.so.bad"), mapped_file(33)

    def recognised(pid: int, each: MappedFile, _: object) -> TracedFile:
        if each is damaged:
            raise SsllatencyError(f"{each.path} is damaged.")
        return TracedFile("libssl", pid, each, (pid,))

    play(monkeypatch, "recognised_file", recognised)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)), sites=None)
    session.look()
    for each in (damaged, new):
        kernel.map(OLD, each)
    session.look()
    assert [image.plan.path for image in session.extended] == [new.path]
    assert any("/tmp/libssl.so.bad is damaged" in note for note in session.attachment.notes)


def test_who_maps_the_companion_alone_is_no_target(kernel: Kernel) -> None:
    """The libcrypto that came along with the libssl that was asked for."""
    libssl, libcrypto = mapped_file(11), mapped_file(12)
    kernel.maps = {OLD: [libssl, libcrypto]}
    session = Session(kernel, [libssl, libcrypto], Selection(libraries=("/usr/lib/libssl.so.3",)))
    session.attachment.images[1] = replace(session.attachment.images[1], companion=True)
    session.look()
    kernel.map(NEW, libcrypto)
    session.look()
    assert sorted(session.attachment.targets) == [OLD]
    assert NEW not in session.admitted
    kernel.map(NEW, libssl)
    session.look()
    assert sorted(session.attachment.targets) == [OLD, NEW]
    assert NEW in session.admitted


@pytest.mark.parametrize(("named", "looked_at"), [(False, 1), (True, 0)])
def test_a_file_of_any_name_is_looked_at_once(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, named: bool, looked_at: int
) -> None:
    """And only where it shows TLS it is looked into."""
    file, plain = mapped_file(11), mapped_file(33, "/usr/lib/libssl.so.1.1" if named else "/usr/lib/_rust.abi3.so")
    asked: list[MappedFile] = []

    def holds(_pid: int, each: MappedFile, _holds: object) -> bool:
        asked.append(each)
        return False

    play(monkeypatch, "holds_tls", holds)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)), sites=None)
    session.look()
    for pid in (OLD, NEW):
        kernel.map(pid, plain)
        session.look()
    assert len(asked) == looked_at
    assert len(session.extended) == named


def test_one_file_that_was_asked_for_stays_the_only_one(kernel: Kernel) -> None:
    file = mapped_file(11)
    kernel.maps = {OLD: [file]}
    selection = replace(Selection(everything=True), libraries=("/usr/lib/libssl.so.3",))
    session = Session(kernel, [file], selection)
    kernel.map(NEW, mapped_file(22))
    session.look()
    assert session.extended == []


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(pids=(OLD,)), True),
        (Selection(pids=(OLD, NEW)), False),
        (Selection(pids=(OLD,), comms=("nginx",)), False),
        (Selection(comms=("nginx",)), False),
        (Selection(everything=True), False),
    ],
    ids=str,
)
def test_nobody_comes_later_only_where_all_are_named_and_can_have_no_children(
    monkeypatch: pytest.MonkeyPatch, selection: Selection, expected: bool
) -> None:
    play(monkeypatch, "members", lambda selection: dict.fromkeys(selection.pids or (OLD,), False))
    play(monkeypatch, "can_have_children", lambda pid: pid != OLD)
    assert follow.childless(selection) == expected


def test_a_child_has_what_its_parent_has_before_it_is_looked_at(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its maps may not even be read."""
    first, second = mapped_file(11), mapped_file(22)
    kernel.maps = {OLD: [first, second]}
    session = Session(kernel, [first, second], Selection(pids=(OLD,)), alone=True)
    session.look()
    assert kernel.tells_of_children
    monkeypatch.setattr(time, "monotonic_ns", lambda: 5_200_000)
    kernel.maps[NEW], kernel.started = [], {NEW: Arrival(OLD, 4_000_000)}
    session.look()
    assert session.included == [(0, [NEW]), (1, [NEW])]
    assert session.attachment.late == {NEW}
    assert session.attachment.notes == [
        "nginx (101) was traced 1.2 ms after it had started: its calls until then aren't counted."
    ]
    kernel.maps[NEW] = [first, second]
    session.look()
    assert len(session.included) == 2  # and nothing once more


def test_a_grandchild_is_attached_like_its_parent(kernel: Kernel) -> None:
    file = mapped_file(11)
    kernel.maps = {OLD: [file], NEW: [file], 102: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)), alone=True)
    kernel.started = {NEW: Arrival(OLD, 1), 102: Arrival(NEW, 2)}
    session.look()
    assert session.included == [(0, [NEW]), (0, [102])]


def test_a_child_that_had_ended_at_once_is_a_loss_where_it_may_have_made_calls(kernel: Kernel) -> None:
    file, parent = mapped_file(11), 102
    kernel.maps = {OLD: [file], parent: []}
    session = Session(kernel, [file], Selection(pids=(OLD,)), alone=True)
    kernel.started = {NEW: Arrival(OLD, 1), 301: Arrival(parent, 1)}
    session.look()
    assert session.attachment.late == {NEW}
    assert any("ms after it had started, when it had ended: its calls" in note for note in session.attachment.notes)


@pytest.mark.parametrize(
    ("mapped_ns", "looked_at_before", "late"),
    [(3000, False, False), (3000, True, False), (1000, False, True), (1000, True, True), (None, False, True)],
)
def test_a_child_that_maps_the_file_after_it_has_the_links_is_no_loss(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, mapped_ns: int | None, looked_at_before: bool, late: bool
) -> None:
    """As those of a server that executes a program for each connection. It must be shown."""
    file, parent = mapped_file(11), 102
    kernel.maps = {OLD: [file], parent: []}
    session = Session(kernel, [file], Selection(pids=(OLD, parent)), alone=True)
    session.look()
    monkeypatch.setattr(own_links.time, "monotonic_ns", lambda: 2000)
    kernel.maps[NEW], kernel.started = [], {NEW: Arrival(parent, 500)}
    session._follower._hear_of_children(cast("Any", kernel))
    assert session.included == [(0, [NEW])]
    if looked_at_before:
        session.look()
    kernel.maps[NEW] = [file]
    kernel.told = [] if mapped_ns is None else [MappingNotice(NEW, mapped_ns, file.path, file.identity)]
    session.look()
    assert session.included == [(0, [NEW])]
    assert session.attachment.late == ({NEW} if late else set())


def test_children_that_come_too_fast_are_found_later(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes a while; a part of each second is spent on them, and those that are left out count as late."""
    file, now_ns = mapped_file(11), 0
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)), alone=True)

    def include(index: int, pids: Sequence[int]) -> None:
        nonlocal now_ns
        now_ns += 2_000_000
        session.included.append((index, list(pids)))

    monkeypatch.setattr(session, "include", include)
    monkeypatch.setattr(own_links.time, "monotonic_ns", lambda: now_ns)
    children = range(1000, 2000)
    kernel.started = {pid: Arrival(OLD, 0) for pid in children}
    session._follower.look()
    assert len(session.included) == 125
    assert session.attachment.late == set(children)
    now_ns += 1_000_000_000
    kernel.started = {3000: Arrival(OLD, now_ns)}
    session._follower.look()
    assert session.included[-1] == (0, [3000])


def test_children_that_were_not_told_of_are_spoken_of(kernel: Kernel) -> None:
    kernel.maps = {OLD: [mapped_file(11)]}
    session = Session(kernel, kernel.maps[OLD], Selection(pids=(OLD,)), alone=True)
    kernel.counters.dropped = 3
    session.look()
    assert session.attachment.notes == ["3 notices of new processes were lost."]


@pytest.mark.parametrize("again", [False, True], ids=["gone", "PID used again"])
def test_nothing_stays_attached_to_a_process_that_has_ended(kernel: Kernel, again: bool) -> None:
    file = mapped_file(11)
    kernel.maps = {OLD: [file], NEW: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)), alone=True)
    kernel.started = {NEW: Arrival(OLD, 1)}
    session.look()
    assert session.released == []
    if again:
        kernel.started = {NEW: Arrival(OLD, 2)}
    else:
        del kernel.maps[NEW]
    session.look()
    assert session.released == [NEW]
    assert session.included == [(0, [NEW])] * (2 if again else 1)


@pytest.mark.parametrize("method", Method)
def test_it_is_told_of_children_only_where_they_have_links_of_their_own(kernel: Kernel, method: Method) -> None:
    """Perf events, which take the kernel long to end, aren't attached to children that may be gone at once."""
    file = mapped_file(11)
    kernel.maps = {OLD: [file]}
    Session(kernel, [file], Selection(pids=(OLD,)), method=method)
    assert not kernel.tells_of_children
    Session(kernel, [file], Selection(pids=(OLD,)), method=method, alone=True)
    assert kernel.tells_of_children == (method is not Method.PERF)


def test_a_child_that_the_kernel_refuses_is_a_loss_and_ends_nothing(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = mapped_file(11)
    kernel.maps = {OLD: [file], NEW: []}
    session = Session(kernel, [file], Selection(pids=(OLD,)), alone=True)

    def refuse(_index: int, _pids: object) -> None:
        raise AttachError("the kernel refused to probe it.")

    monkeypatch.setattr(session, "include", refuse)
    kernel.started = {NEW: Arrival(OLD, 1)}
    session.look()
    assert session.attachment.late == {NEW}
    assert "nginx (101) isn't traced: the kernel refused to probe it." in capsys.readouterr().err


PAY = re.compile(r"^(\d+) other process(?:es)? maps? the same files and pays? .*?\): (.*?)(?:; --links|\.$)")


def paying(session: Session) -> list[tuple[str, ...]]:
    """How many others pay, and who they are, of each note about them."""
    return [match.groups() for note in session.attachment.notes if (match := PAY.match(note))]


def test_it_is_said_once_who_else_pays_for_shared_links(kernel: Kernel, capsys: pytest.CaptureFixture[str]) -> None:
    file, unrelated = mapped_file(11), mapped_file(22, "/usr/lib/libz.so.1")
    kernel.maps, kernel.others = {OLD: [file], 300: [unrelated, file], 301: [unrelated]}, {300, 301}
    session = Session(kernel, [file], Selection(pids=(OLD,)))
    session.look()
    assert paying(session) == [("1", "other (PID 300)")]
    assert "--links process spares them" in capsys.readouterr().err
    kernel.others.add(302)
    kernel.map(302, file)
    session.look()
    assert len(paying(session)) == 1


@pytest.mark.parametrize("ended", [False, True], ids=["there", "gone"])
def test_who_comes_later_and_pays_is_named_even_if_it_has_ended(kernel: Kernel, ended: bool) -> None:
    file = mapped_file(11)
    kernel.maps, kernel.others = {OLD: [file]}, {300}
    session = Session(kernel, [file], Selection(pids=(OLD,)))
    session.look()
    assert paying(session) == []
    kernel.map(300, file)
    if ended:
        del kernel.maps[300]
    session.look()
    assert paying(session) == [("1", f"{'a process that has ended' if ended else 'other'} (PID 300)")]


def test_who_turns_out_to_be_a_target_does_not_pay_for_others(kernel: Kernel) -> None:
    """The kernel told of its file before it had taken the wanted name."""
    file = mapped_file(11)
    kernel.maps, kernel.others = {OLD: [file]}, {NEW}
    session = Session(kernel, [file], Selection(comms=("nginx",)))
    session.look()
    kernel.map(NEW, file)
    session._follower.look()
    kernel.others = set()
    session.look()
    assert paying(session) == []


@pytest.mark.parametrize(
    ("selection", "alone"), [(Selection(everything=True), False), (Selection(pids=(OLD,)), True)], ids=["all", "own links"]
)
def test_nobody_else_pays(kernel: Kernel, selection: Selection, alone: bool) -> None:
    file = mapped_file(11)
    kernel.maps, kernel.others = {OLD: [file], 300: [file]}, {300}
    session = Session(kernel, [file], selection, alone=alone)
    session.look()
    assert paying(session) == []


def test_of_a_library_those_pay_that_map_the_companion_alone(kernel: Kernel) -> None:
    libssl, libcrypto = mapped_file(11), mapped_file(12, "/usr/lib/libcrypto.so.3")
    kernel.maps = {OLD: [libssl, libcrypto], 300: [libcrypto], 301: [libssl, libcrypto]}
    session = Session(kernel, [libssl, libcrypto], Selection(libraries=("/usr/lib/libssl.so.3",)))
    session.attachment.images[1] = replace(session.attachment.images[1], companion=True)
    session.look()
    assert paying(session) == [("1", "other (PID 300)")]


CHANGED = "it has changed the code."


def changed_by(monkeypatch: pytest.MonkeyPatch, path: str, *pids: int) -> None:
    """These processes have changed the code of that file."""

    def unprobed(image: TracedImage, asked: Sequence[int]) -> dict[int, str]:
        return {pid: f"{pid} {CHANGED}" for pid in pids if pid in asked and image.plan.path == path}

    play(monkeypatch, "endangered", lambda image: CHANGED if image.plan.path == path else "")
    for module in (files, own_links):
        monkeypatch.setattr(module, "unprobed", unprobed)


@pytest.mark.parametrize("selection", [Selection(everything=True), Selection(pids=(OLD,))], ids=["all", "pid"])
def test_who_has_changed_a_file_that_comes_later_keeps_nobody_else_from_being_traced(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, selection: Selection
) -> None:
    """Be it a stranger or the first process that maps it. What is traced already goes on with shared links."""
    file, later = mapped_file(11), mapped_file(22, "/opt/libssl.so.3")
    changed_by(monkeypatch, later.path, 300, 400)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], selection, sites=None)
    session.look()
    assert not kernel.tells_of_children
    for pid in (300, NEW):
        kernel.map(pid, later)
    session.look()
    assert [(image.pids, image.own_links) for image in session.extended] == [((), True)]
    assert session.included == [(1, [NEW])]
    assert kernel.tells_of_children
    assert kernel.watched == {NEW}
    assert sorted(session.attachment.targets) == [OLD, NEW]
    assert f"300 {CHANGED}" in session.attachment.notes
    assert session.spared == 1
    assert any(note.startswith(f"{CHANGED} Probes are set in each traced process") for note in session.attachment.notes)
    kernel.map(NEW, file)
    kernel.started = {102: Arrival(NEW, 1), 103: Arrival(300, 1)}
    kernel.maps |= {102: [later], 103: [later]}
    session.look()
    assert session.included == [(1, [NEW]), (1, [102])]
    del kernel.maps[NEW]
    session.look()
    assert session.released == [NEW]


def test_a_process_that_maps_the_file_anew_has_it_unchanged(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has executed another program."""
    file = mapped_file(11)
    changed_by(monkeypatch, file.path, NEW)
    kernel.maps = {OLD: [file], NEW: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)), alone=True)
    session.look()
    assert session.included == []
    changed_by(monkeypatch, file.path)
    kernel.told = [MappingNotice(NEW, time.monotonic_ns(), file.path, file.identity)]
    session.look()
    assert session.included == [(0, [NEW])]


def test_where_links_are_shared_only_a_changed_file_is_left_out_and_said(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, changed, other = mapped_file(11), mapped_file(22, "/opt/libssl.so.3"), mapped_file(33, "/opt/libcrypto.so.3")
    changed_by(monkeypatch, changed.path, 300)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)), sites=None)
    session.attachment.may_link_each = False
    session.look()
    kernel.map(NEW, changed)
    kernel.map(NEW, other)
    session.look()
    assert [(image.plan.path, image.own_links) for image in session.extended] == [(other.path, False)]
    assert "/opt/libssl.so.3 isn't traced" in capsys.readouterr().err


def test_a_twin_of_a_file_with_links_of_each_process_has_them_too(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the kernel it may be the same file: a call would count by both."""
    file, changed = mapped_file(11), mapped_file(22, "/opt/libssl.so.3")
    changed_by(monkeypatch, changed.path, 300)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)), sites=None)
    session.look()
    kernel.map(NEW, changed)
    session.look()
    kernel.map(102, mapped_file(44, "/other/libssl.so.3"))
    session.look()
    assert [image.own_links for image in session.extended] == [True, True]


def test_what_a_process_mapped_that_is_gone_is_attached_to_without_harm(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, new = mapped_file(11), mapped_file(22, "/opt/libssl.so.3")

    def opened(path: str, root: str, _stack: ExitStack) -> ExpectedFile | None:
        return ExpectedFile(os.open(os.devnull, os.O_RDONLY), mapped_file(22, path), root, FileVersion(new.numbers))

    play(monkeypatch, "root_paths", lambda _: [])
    play(monkeypatch, "open_expected", opened)
    image = replace(image_of(new, 99), plan=replace(image_of(new, 99).plan, build_id="bb"))
    play(monkeypatch, "image_of", lambda *_: image)
    changed_by(monkeypatch, new.path, 300)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)))
    session.look()
    kernel.told = [MappingNotice(NEW, 1, new.path, new.identity)]
    session.look()
    assert [(image.pids, image.own_links) for image in session.extended] == [((), True)]
    kernel.map(102, new)
    session.look()
    assert session.included == [(1, [102])]


def test_who_may_not_be_counted_after_a_copy_is_said_where_each_has_links_of_its_own(
    kernel: Kernel, capsys: pytest.CaptureFixture[str]
) -> None:
    file = mapped_file(11)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)))
    session.look()
    assert capsys.readouterr().err == ""
    session.perhaps_copied = [0]
    session.look()
    assert "forked by those that run the original may not be counted" in capsys.readouterr().err
    session.close()


def test_a_file_that_its_overlay_has_copied_is_traced_once_more(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who maps it then runs the copy, and so does the next one."""
    file = mapped_file(11)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)))
    session.look()
    monkeypatch.setattr(files.os, "dup", lambda _: os.open(os.devnull, os.O_RDONLY))
    session.copied = [0]
    session.look()
    assert [(image.plan, image.pids) for image in session.extended] == [(session.attachment.images[0].plan, ())]
    assert session.extended[0].file != session.attachment.images[0].file
    assert "an overlay has copied it" in capsys.readouterr().err
    assert session._follower._seen.traced == {file.identity: 1}
    session.close()
