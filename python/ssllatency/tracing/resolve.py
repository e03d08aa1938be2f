# SPDX-License-Identifier: Apache-2.0
"""From the target options to planned files: the first half of the road, for the commands that need it."""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ssllatency.data_class import dataclass
from ssllatency.engines.attach.sites import MOST_LIBRARIES
from ssllatency.engines.base import Linking, TracedImage
from ssllatency.errors import Absent, SsllatencyError
from ssllatency.facts import NOTHING, FileFacts
from ssllatency.model.cost import Moment
from ssllatency.model.snapshot import Snapshot, Target, TracedLibrary
from ssllatency.probes.cache.parts import CALLS, FACTS, HANDSHAKE, NAMES, PLAN, FilePart
from ssllatency.probes.join import complete
from ssllatency.probes.plan import FilePlan
from ssllatency.stacks.file_names import has_library_name
from ssllatency.stacks.registry import LIBRARIES
from ssllatency.stopping import end_if_asked
from ssllatency.targets import (
    ExpectedFile,
    Hazards,
    Identity,
    MappedFile,
    Problem,
    Process,
    ProcessMaps,
    Selection,
    TracedFile,
    all_processes,
    descriptor_of,
    exists,
    file_identity,
    hazards,
    listing,
    most_important,
    name_processes,
    none_found,
    opened,
    possible_hazards,
    read_processes,
    select,
    tls_files,
    tls_stacks,
    with_folder,
)
from ssllatency.targets.sockets.kernel_tls import kernel_tls
from ssllatency.tracing.expected import add_expected, find_expected
from ssllatency.tracing.file_facts import KnownFiles, why_not_traced
from ssllatency.tracing.plan_source import PlanSource, file_of, is_traced
from ssllatency.tracing.planning import fork_server
from ssllatency.units import counted, ranges

if TYPE_CHECKING:
    from ssllatency.engines.follow.following import Following

NO_SELECTION = Selection()
_MOST_NAMED = 20
_MOST_AHEAD = 32  # files planned side by side
_WAIT_FOR_PROCESSES = "Add --wait if it starts later."
_WAIT_FOR_TLS = "Add --wait if it starts a process for each connection, or loads a TLS library later."


@dataclass(frozen=True)
class Resolved:
    """Planned files with the processes that map them: `files`, as one of these maps or will map each, and `images` in the same
    order.

    `selection` is what was asked for, the cgroup by its folder. `warnings` are sentences about what couldn't be looked at;
    `notes` say what of these processes isn't traced, or isn't what is on disk. `following` was loaded while files were planned.
    `known_files` is what is known of the content of files. `waits`: nobody maps any of the files yet, and that is no error.
    `before`: what the processes had done when they were found. `spared`: by number of an image, the processes that map it and
    must not get its probes. `linking`: how the probes of the others are linked, once that is decided.
    """

    images: tuple[TracedImage, ...]
    targets: tuple[Target, ...]
    everyone: bool
    warnings: tuple[str, ...]
    source: PlanSource
    files: tuple[MappedFile, ...] = ()
    selection: Selection = NO_SELECTION
    notes: tuple[str, ...] = ()
    following: Following | None = None
    known_files: KnownFiles = field(default_factory=KnownFiles)
    waits: bool = False
    before: Moment | None = None
    spared: Mapping[int, frozenset[int]] = field(default_factory=dict)
    linking: Linking | None = None

    def gather(self) -> None:
        """Takes, and keeps for later runs, what processes that read files have found out by now."""
        self.source.gather()
        self.known_files.save()

    def noted(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with these notes."""
        return replace(snapshot, notes=(*snapshot.notes, *self.notes))


def resolve(
    selection: Selection,
    arguments: argparse.Namespace,
    stack: ExitStack,
    *,
    handshakes: bool = False,
    functions: bool = True,
    load_early: Callable[[Resolved, ExitStack], Following | None] = lambda _resolved, _stack: None,
) -> Resolved:
    """Finds the processes and their TLS files, and plans each file. The files stay open as long as `stack`.

    `handshakes`: their plans have the sites of handshakes as well. `functions`: and of all functions, else perhaps of those
    alone that handshakes are followed by. `load_early` may load what will follow later processes,
    and what else is loaded whatever their files are, which it isn't told yet.

    SsllatencyError where nothing can be traced. Where many processes are searched, one that can't be looked at is a warning.
    KeyboardInterrupt where a signal asks for the end.
    """
    from ssllatency.engines.cost.around import look  # not before something is traced

    wait = getattr(arguments, "wait", None)  # None: a command that doesn't wait
    problems = _Problems(fatal=bool(selection.pids))
    selection, processes = _select(selection, problems, wait)
    name_processes(named=bool(selection.pids))
    everyone = selection.everything or bool(selection.libraries)
    before = None if everyone else look([process.pid for process in processes])
    source = _source(selection, arguments, everyone, handshakes=handshakes, functions=functions)
    stack.callback(source.close)
    if source.danger:
        problems.warnings.append(f"Return probes are left out: {source.danger}, and a target is, or may be, of that kind.")

    known_files = KnownFiles(source.facts)
    stack.callback(known_files.save)  # no sooner, as nobody is to wait for that before probes are set
    search = _Search(selection, processes, known_files, problems, wait)
    nothing_yet = Resolved((), (), everyone, (), source, selection=selection)
    ahead = _Ahead(source, partial(load_early, nothing_yet, stack))
    if not fork_server.is_running():  # else nothing is to keep it from reading files as soon as it is known which
        ahead.load()
    with ExitStack() as passing:
        found, left = search.files(source, ahead, passing)
        ahead.load()  # if that had to wait for files to be read, and none had to be
        files, images = search.planned(found, source, stack)
    targets = _targets(files, images, {process.pid: process.comm for process in processes})
    notes = (*_left_out(left), *_replaced(targets), *search.untraced(), *filter(None, (kernel_tls(),)))
    warnings = (*problems.warnings, *known_files.unlooked)  # complete now that the notes are written
    return replace(
        nothing_yet,
        images=images,
        targets=targets,
        warnings=warnings,
        files=tuple(files),
        notes=notes,
        following=ahead.following,
        known_files=known_files,
        waits=bool(wait) and not any(image.pids for image in images),
        before=before,
    )


class _Search:
    """The search for the TLS files of the selected processes, whose maps are read once; each file is opened and planned once.
    `wait` as for resolve(): with it there may be none."""

    def __init__(
        self,
        selection: Selection,
        processes: Sequence[Process],
        known_files: KnownFiles,
        problems: _Problems,
        wait: bool | None,
    ) -> None:
        self._selection, self._processes, self._known_files = selection, processes, known_files
        self._problems, self._wait = problems, wait
        self._named = [file_identity(library) for library in selection.libraries]
        self._maps: list[ProcessMaps] = []
        self._facts: dict[Identity, FileFacts] = {}
        self._plans: dict[Identity, FilePlan] = {}

    def files(self, source: PlanSource, ahead: _Ahead, stack: ExitStack) -> tuple[list[TracedFile], list[TracedFile]]:
        """The files to trace, planned and most of them open as long as `stack`, and those for which there is no room."""
        self._maps = read_processes(_until_the_end(self._processes), lambda _, error: self._problems(error), named=self._named)
        tell = self._problems.warnings.append
        holding = tls_files(self._maps, self._may_hold, stack, named=self._named, problem=self._problems, tell=tell)
        files = []
        for first in range(0, len(holding), _MOST_AHEAD):
            some = holding[first : first + _MOST_AHEAD]
            ahead.plan(file for file in some if file.descriptor is not None)
            files += [file for held in some if (file := self._plan(held, source))]
        if not files and not self._wait and not self._selection.libraries:
            raise SsllatencyError(self._none_found())
        if self._selection.libraries:
            files = _of_named(files, self._selection.libraries, self._named, self._problems, wait=bool(self._wait))
        return most_important(files, MOST_LIBRARIES, self._named)

    def planned(
        self, found: Sequence[TracedFile], source: PlanSource, stack: ExitStack
    ) -> tuple[list[MappedFile], tuple[TracedImage, ...]]:
        """Those of the files that are still there, with `wait` those that are expected as well, and beside them their plans."""
        files, images = _planned(found, source, stack, self._problems, self._plans)
        fork_server.end()
        if self._wait:
            expected = find_expected(self._selection, self._processes, stack)
            files, images = _with_expected(files, images, expected, source)
        return files, _marked(files, images, self._named) if self._named else images

    def untraced(self, *, beside_openssl: bool = True) -> tuple[str, ...]:
        """Sentences about the TLS of these processes that isn't traced; none where libraries were asked for."""
        if self._selection.libraries:
            return ()
        there = [each for each in self._maps if exists(each.process.pid)]
        stacks = tls_stacks(there, self._known_files.describe, self._facts)
        return tuple(listing.untraced(stacks, beside_openssl=beside_openssl))

    def _may_hold(self, fd: int, mapping: MappedFile, root: str) -> bool:
        """Whether the file may hold TLS that is traced: one that is called a TLS library, for its plan says what is wrong with
        it, and others by what is in them."""
        end_if_asked()
        if has_library_name(mapping.path):
            return True
        self._facts[mapping.identity] = NOTHING  # if it can't be read
        self._facts[mapping.identity] = facts = self._known_files.describe(fd, mapping.path, root)
        return bool(facts.libraries)

    def _plan(self, file: TracedFile, source: PlanSource) -> TracedFile | None:
        """The file as what its plan says that it is, None where nothing of it is traced; by the way, what else is in it."""
        try:
            with opened(file) as fd:
                root = file.root
                if not self._selection.libraries:
                    self._describe(fd, file.mapping, root)
                plan = source.plan(f"/proc/self/fd/{fd}", file.path, root)
        except SsllatencyError as error:
            if file.is_there:
                self._problems(error)
            return None
        if not is_traced(plan):
            return None
        if file.descriptor is not None:  # else it is planned once more when it is opened for good
            self._plans[file.mapping.identity] = plan
        return replace(file, kind=plan.kind)

    def _describe(self, fd: int, mapping: MappedFile, root: str) -> None:
        if mapping.identity not in self._facts:
            self._facts[mapping.identity] = NOTHING  # if it can't be read, which is told of its plan
            with suppress(SsllatencyError):
                self._facts[mapping.identity] = self._known_files.describe(fd, mapping.path, root)

    def _none_found(self) -> str:
        """The TLS that was found and isn't traced: where there is some, that is the reason, and no library is waited for."""
        advice = "" if self._wait is None or self._selection.everything else f" {_WAIT_FOR_TLS}"
        return " ".join(self.untraced(beside_openssl=False)) or f"{none_found(self._processes)}{advice}"


def _until_the_end(processes: Iterable[Process]) -> Iterator[Process]:
    """The processes. KeyboardInterrupt once a signal asks for the end: there may be thousands."""
    for process in processes:
        end_if_asked()
        yield process


def _with_expected(
    files: list[MappedFile], images: tuple[TracedImage, ...], expected: Sequence[ExpectedFile], source: PlanSource
) -> tuple[list[MappedFile], tuple[TracedImage, ...]]:
    """The planned files, and after them the expected ones that nobody maps yet."""
    planned = add_expected(list(zip(files, images, strict=True)), expected, source)
    return [file for file, _ in planned], tuple(image for _, image in planned)


def _source(
    selection: Selection, arguments: argparse.Namespace, everyone: bool, *, handshakes: bool, functions: bool
) -> PlanSource:
    """Plans as the options say, with all that will be asked about a file found out at once."""
    ahead: list[FilePart[Any]] = [] if selection.libraries else [FACTS]  # for what is said of TLS that isn't traced
    ahead += [PLAN if functions else CALLS, *([HANDSHAKE] if handshakes else [])]
    return PlanSource(arguments, _dangers(everyone), ahead=ahead, later=[NAMES] if handshakes else [], waits=True)


class _Problems:
    """Takes errors of what can't be looked at: `fatal` where each of the processes was asked for, else they are warnings."""

    def __init__(self, *, fatal: bool) -> None:
        self._fatal = fatal
        self.warnings: list[str] = []

    def __call__(self, error: SsllatencyError) -> None:
        if self._fatal:
            raise error
        self.warnings.append(str(error))


class _Ahead:
    """Has files planned by other processes, if they aren't yet, and loads meanwhile in this one what will follow later
    processes, which is `following` then."""

    def __init__(self, source: PlanSource, load: Callable[[], Following | None]) -> None:
        self._source, self._load = source, load
        self._is_loaded = False
        self.following: Following | None = None

    def load(self) -> None:
        """Loads what can be, once."""
        if not self._is_loaded:
            self._is_loaded = True
            self.following = self._load()

    def plan(self, files: Iterable[TracedFile]) -> None:
        """Plans files that are open."""
        named = [file_of(f"/proc/self/fd/{file.descriptor}", file.path, file.root) for file in files]
        self._source.make_ahead(named, meanwhile=self.load)


def _of_named(
    files: Sequence[TracedFile], libraries: Sequence[str], named: Sequence[Identity], problems: _Problems, *, wait: bool
) -> list[TracedFile]:
    """The files that were named, with their companions. Why others of them aren't traced is a warning, and an error where none
    is, unless with `wait`."""
    files = _with_companions(files, named)
    refused = _refused(libraries, named, files)
    if files:
        problems.warnings += refused
    elif not wait:
        raise SsllatencyError(" ".join(refused))
    return files


def _planned(
    files: Sequence[TracedFile], source: PlanSource, stack: ExitStack, problem: Problem, plans: Mapping[Identity, FilePlan]
) -> tuple[list[MappedFile], tuple[TracedImage, ...]]:
    """Those of the files that are still there, and beside them their plans."""
    kept = _opened([file for file in files if file.is_there], source, stack, problem, plans)
    if files and not kept:
        raise SsllatencyError("The processes ended, or unloaded their TLS libraries, before they could be traced: try again.")
    return [file.mapping for file, _ in kept], _completed([image for _, image in kept])


def _select(selection: Selection, problem: Problem, wait: bool | None) -> tuple[Selection, list[Process]]:
    """The selection, the cgroup by its folder, and whom it selects now: with `wait` possibly nobody."""
    try:
        selection = with_folder(selection, nobody=bool(wait))
        return selection, select(selection, problem=problem, nobody=bool(wait))
    except Absent as error:
        if wait is None:
            raise
        raise SsllatencyError(f"{error} {_WAIT_FOR_PROCESSES}") from None


def _with_companions(files: Sequence[TracedFile], named: Collection[Identity]) -> list[TracedFile]:
    """The files that were named, and with each libssl the libcrypto that it calls, and the engines that this calls: of the same
    processes. Of several libcryptos it is that with the libssl's own suffix."""
    chosen = [file for file in files if file.mapping.identity in named]
    wanted = {file.mapping.identity for file in chosen}
    called = {name for name, library in LIBRARIES.items() if library.called}
    suffixed = {name for name, library in LIBRARIES.items() if library.same_suffix}
    for libssl in (file for file in chosen if file.kind in called):
        beside = [file for file in files if file.kind in LIBRARIES.keys() - called and set(file.pids) & set(libssl.pids)]
        libcryptos = [file for file in beside if file.kind in suffixed]
        same = [file for file in libcryptos if _suffix(file) == _suffix(libssl)]
        wanted |= {file.mapping.identity for file in beside if file not in libcryptos or file in (same or libcryptos)}
    return [file for file in files if file.mapping.identity in wanted]


def _refused(libraries: Sequence[str], named: Sequence[Identity], files: Iterable[TracedFile]) -> list[str]:
    """A sentence for each of the named files that isn't traced."""
    traced = {file.mapping.identity for file in files}
    return [why_not_traced(library) for library, identity in zip(libraries, named, strict=True) if identity not in traced]


def _suffix(file: TracedFile) -> str:
    return file.path.rpartition("/")[2].partition(".so")[2]


def _marked(files: Sequence[MappedFile], images: Iterable[TracedImage], named: Collection[Identity]) -> tuple[TracedImage, ...]:
    """The images of these files, those that weren't named as what they are."""
    pairs = zip(files, images, strict=True)
    return tuple(replace(image, companion=file.identity not in named) for file, image in pairs)


def _dangers(everyone: bool) -> Hazards:
    """Return what a process could bring on which the probes are set, which those that share the files may be, and later ones.

    Shadow stacks are off unless a process's environment asks for them, so they are expected only where some process has one.
    """
    possible = possible_hazards()
    if everyone or not possible.shadow_stack:
        return possible
    return replace(possible, shadow_stack=hazards(process.pid for process in all_processes()).shadow_stack)


def open_images(
    planned: Sequence[tuple[TracedFile, FilePlan]], source: PlanSource, stack: ExitStack, beside: Sequence[TracedImage] = ()
) -> tuple[TracedImage, ...]:
    """The images of files that are open, as late ones are, with their plans, which are of `source`; each gets a
    second descriptor, which is open as long as `stack`. `beside` are images that the same processes map as well.
    SsllatencyError where no process maps one any more that is there."""
    return _completed([_image(file, plan, _kept_open(file, stack), source) for file, plan in planned], beside)


def _opened(
    files: Iterable[TracedFile], source: PlanSource, stack: ExitStack, problem: Problem, plans: Mapping[Identity, FilePlan]
) -> list[tuple[TracedFile, TracedImage]]:
    """The files that can be opened, planned unless their `plans` are known, and open as long as `stack`. `problem` takes the
    SsllatencyError of one that can't any more: all that mapped it have ended or unloaded it since it was found, or it has been
    written to."""
    kept = []
    for file in files:
        try:
            path = _kept_open(file, stack)
            plan = plans.get(file.mapping.identity) or source.plan(path, file.path, file.root)
        except SsllatencyError as error:
            problem(error)
            continue
        kept.append((file, _image(file, plan, path, source)))
    return kept


def _image(file: TracedFile, plan: FilePlan, path: str, source: PlanSource) -> TracedImage:
    return TracedImage(plan, path, file.pids, read_names=source.names_of)


def _kept_open(file: TracedFile, stack: ExitStack) -> str:
    """The path of a descriptor of the file that is open as long as `stack`, a second one where the file is open (a late file
    is only until it is planned). SsllatencyError where no process maps it any more that is there."""
    descriptor = descriptor_of(file)
    stack.callback(os.close, descriptor)
    return f"/proc/self/fd/{descriptor}"


def _completed(images: Sequence[TracedImage], beside: Sequence[TracedImage] = ()) -> tuple[TracedImage, ...]:
    """The images with what their plans lack and the others of their processes, those of `beside` as well, have."""
    plans = complete([(image.plan, image.pids) for image in (*images, *beside)])
    return tuple(replace(image, plan=plan) for image, plan in zip(images, plans, strict=False))


def library_of(image: TracedImage, *, deleted: bool = False) -> TracedLibrary:
    """The image as reports name it."""
    return TracedLibrary(image.plan.path, image.plan.build_id, image.plan.version, deleted=deleted)


def _targets(files: list[MappedFile], images: tuple[TracedImage, ...], comms: dict[int, str]) -> tuple[Target, ...]:
    libraries: dict[int, list[TracedLibrary]] = defaultdict(list)
    for file, image in zip(files, images, strict=True):
        for pid in image.pids:
            libraries[pid].append(library_of(image, deleted=file.deleted))
    return tuple(Target(pid, comms.get(pid, ""), tuple(libraries[pid])) for pid in sorted(libraries))


def _left_out(files: Sequence[TracedFile]) -> list[str]:
    """A sentence about the files for which there is no room."""
    if not files:
        return []
    shown = [f"{file.path} ({counted(len(file.pids), 'process')}, first PID {file.pids[0]})" for file in files[:_MOST_NAMED]]
    shown += [f"{len(files) - _MOST_NAMED} more"] if len(files) > _MOST_NAMED else []
    return [f"There is room for {MOST_LIBRARIES} files; these with TLS weren't traced: {', '.join(shown)}."]


def _replaced(targets: Iterable[Target]) -> list[str]:
    """A sentence for each file that is no longer on disk as it is mapped."""
    users: dict[TracedLibrary, list[int]] = defaultdict(list)
    for target in targets:
        for library in target.libraries:
            if library.deleted:
                users[library].append(target.pid)
    return [
        f"{library.path} has been replaced or deleted since PID {ranges(pids)} mapped it; the old file, with build-id"
        f" {library.build_id or 'unknown'}, is what was traced."
        for library, pids in users.items()
    ]
