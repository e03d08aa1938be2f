# SPDX-License-Identifier: Apache-2.0
"""From the target options to planned files: the first half of the road, for the commands that need it."""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ssllatency.cli.file_facts import KnownFiles
from ssllatency.elf.names import Names, names
from ssllatency.engines import kernel
from ssllatency.engines.base import TracedImage
from ssllatency.errors import SsllatencyError
from ssllatency.model.snapshot import Library, Snapshot, Target
from ssllatency.probes.cache import cached_plan
from ssllatency.probes.handshake_cache import cached_handshake_plan
from ssllatency.probes.handshake_plan import HandshakePlan
from ssllatency.probes.join import complete
from ssllatency.probes.machine import Emulation
from ssllatency.probes.names import cached_names
from ssllatency.probes.plan import ImagePlan
from ssllatency.reports.units import ranges
from ssllatency.targets import (
    Hazards,
    NoTlsFile,
    Process,
    Selection,
    TracedFile,
    all_processes,
    cgroup_folder,
    exists,
    file_identity,
    hazards,
    listing,
    open_mapped,
    possible_hazards,
    root_of,
    select,
    survey,
    tls_files,
)

if TYPE_CHECKING:
    from ssllatency.elf.image import Image

NO_HAZARDS, NO_SELECTION = Hazards(), Selection()


@dataclass(frozen=True)
class Resolved:
    """Planned files with the processes that map them: `files` and `images` in the same order.

    `selection` is what was asked for, the cgroup by its folder. `warnings` are sentences about what couldn't be looked at;
    `notes` say what of these processes isn't traced, or isn't what is on disk.
    """

    images: tuple[TracedImage, ...]
    targets: tuple[Target, ...]
    everyone: bool
    warnings: tuple[str, ...]
    source: PlanSource
    files: tuple[TracedFile, ...] = ()
    selection: Selection = NO_SELECTION
    notes: tuple[str, ...] = ()

    def noted(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with these notes."""
        return replace(snapshot, notes=(*snapshot.notes, *self.notes))


class PlanSource:
    """Plans files as the command's options say, through the cache unless they say otherwise."""

    def __init__(self, arguments: argparse.Namespace, found: Hazards = NO_HAZARDS) -> None:
        version = kernel.release()
        self.danger = kernel.return_probes_kill(version, seccomp=found.seccomp, shadow_stack=found.shadow_stack)
        self._return_probes, self._cached = not arguments.no_return_probes and not self.danger, not arguments.no_cache
        # The kernel can't be asked what it emulates. Since Linux 6.16 (canonical nops) and 6.18 (5-byte nops).
        nops, nop5 = version >= (6, 16, 0), version >= (6, 18, 0)
        self._emulation = Emulation(multibyte_nops=nops, optimised_nop5=nop5, calls=not found.shadow_stack)
        self._plans: dict[tuple[object, ...], ImagePlan] = {}

    def plan(self, path: str, label: str, root: str = "/") -> ImagePlan:
        """The plan of the file at `path`; `root` is where the target's debug files are looked for before the host's."""
        status = os.stat(path)  # noqa: PTH116 - a path under /proc is not to be resolved
        key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, label, root)
        if key not in self._plans:
            self._plans[key] = self._planned(path, label, root)
        return self._plans[key]

    def _planned(self, path: str, label: str, root: str) -> ImagePlan:
        roots, open_image = _roots(root), _opener(path, label, root)
        if not self._cached:
            from ssllatency.probes.planner import plan_image

            return plan_image(open_image(), return_probes=self._return_probes, emulation=self._emulation)
        options = {"return_probes": self._return_probes, "emulation": self._emulation}
        return cached_plan(path, open_image, label=label, debug_roots=roots, **options)[0]  # type: ignore[arg-type]

    def handshake_plan(self, path: str, label: str, root: str = "/") -> HandshakePlan:
        """The handshake plan of the file at `path`; arguments as those of plan()."""
        roots, open_image = _roots(root), _opener(path, label, root)
        if not self._cached:
            from ssllatency.probes.phases import plan_handshake

            return plan_handshake(open_image(), emulation=self._emulation)
        return cached_handshake_plan(path, open_image, label=label, debug_roots=roots, emulation=self._emulation)[0]

    def handshake_plan_of(self, image: TracedImage) -> HandshakePlan:
        """The handshake plan of a file that processes map."""
        return self.handshake_plan(image.file, image.plan.path, _root_of(image))

    def names_of(self, image: TracedImage) -> Names:
        """What the codes mean that a file uses which processes map."""
        root = _root_of(image)
        open_image = _opener(image.file, image.plan.path, root)
        return cached_names(image.file, open_image, debug_roots=_roots(root))[0] if self._cached else names(open_image())


def _roots(root: str) -> tuple[str, ...]:
    """Where debug files are looked for: in the target's root, then in the host's."""
    return (root, "/") if root != "/" else ("/",)


def _opener(path: str, label: str, root: str) -> Callable[[], Image]:
    """What opens the file at `path`; the ELF parser is brought in only where it does."""

    def open_image() -> Image:
        from ssllatency.elf.image import Image

        return Image.open(path, label=label, debug_roots=_roots(root))

    return open_image


def _root_of(image: TracedImage) -> str:
    """The root of a process that maps the file and is still there, else the host's."""
    return next((root_of(pid) for pid in image.pids if exists(pid)), "/")


def resolve(selection: Selection, arguments: argparse.Namespace, stack: ExitStack) -> Resolved:
    """Finds the processes and their TLS files, and plans each file. The files stay open as long as `stack`.

    SsllatencyError where nothing can be traced. Where many processes are searched, one that can't be looked at is a warning.
    """
    warnings: list[str] = []

    def problem(error: SsllatencyError) -> None:
        if selection.pids:
            raise error
        warnings.append(str(error))

    if selection.cgroup is not None:
        selection = replace(selection, cgroup=str(cgroup_folder(selection.cgroup)))
    wait = getattr(arguments, "wait", False)
    processes = select(selection, problem=problem, nobody=wait)
    everyone = selection.everything or selection.library is not None
    source = PlanSource(arguments, _dangers(everyone))
    if source.danger:
        warnings.append(f"Return probes are left out: {source.danger}, and a target is, or may be, of that kind.")
    named = [file_identity(selection.library)] if selection.library else []
    recognise = Recogniser(source)
    try:
        files = tls_files(processes, recognise, named=named, problem=problem)
    except NoTlsFile as error:
        if not wait:
            raise SsllatencyError(" ".join(untraced_notes(processes, beside_openssl=False)) or str(error)) from None
        files = []
    if selection.library:
        files = [file for file in files if file.mapping.identity in named]
    images = open_images(files, source, stack)
    comms = {process.pid: process.comm for process in processes}
    targets = _targets(files, images, comms)
    notes = () if selection.library else untraced_notes(processes, beside_openssl=True)
    notes = (*_replaced(targets), *notes)
    return Resolved(images, targets, everyone, tuple(warnings), source, tuple(files), selection, notes)


def untraced_notes(processes: Iterable[Process], *, beside_openssl: bool) -> tuple[str, ...]:
    """Sentences about the TLS of these processes that isn't traced."""
    known = KnownFiles()
    found = survey(processes, known.describe)
    known.save()
    return tuple(listing.untraced(found, beside_openssl=beside_openssl))


def _dangers(everyone: bool) -> Hazards:
    """What a process could bring on which the probes are set, which those that share the files may be, and later ones.

    Shadow stacks are off unless a process's environment asks for them, so they are expected only where some process has one.
    """
    possible = possible_hazards()
    if everyone or not possible.shadow_stack:
        return possible
    return replace(possible, shadow_stack=hazards(process.pid for process in all_processes()).shadow_stack)


class Recogniser:
    """Says what a file is by planning it: the plan is in the cache when the file is planned for good."""

    def __init__(self, source: PlanSource) -> None:
        self._source = source

    def __call__(self, fd: int, path: str, root: str) -> str:
        plan = self._source.plan(f"/proc/self/fd/{fd}", path, root)
        return plan.kind if plan.operations else ""


def open_images(
    files: Sequence[TracedFile], source: PlanSource, stack: ExitStack, known: Sequence[TracedImage] = ()
) -> tuple[TracedImage, ...]:
    """The files planned, and kept open as long as `stack`. `known` are images that the same processes map beside them."""
    opened = []
    for file in files:
        fd = open_mapped(file.pid, file.mapping)
        stack.callback(os.close, fd)
        opened.append((source.plan(f"/proc/self/fd/{fd}", file.path, root_of(file.pid)), f"/proc/self/fd/{fd}", file.pids))
    plans = complete([(plan, pids) for plan, _, pids in opened] + [(image.plan, image.pids) for image in known])
    return tuple(TracedImage(plan, path, pids) for plan, (_, path, pids) in zip(plans, opened, strict=False))


def library_of(image: TracedImage, *, deleted: bool = False) -> Library:
    """The image as reports name it."""
    return Library(image.plan.path, image.plan.build_id, image.plan.version, deleted=deleted)


def _targets(files: list[TracedFile], images: tuple[TracedImage, ...], comms: dict[int, str]) -> tuple[Target, ...]:
    libraries: dict[int, list[Library]] = defaultdict(list)
    for file, image in zip(files, images, strict=True):
        for pid in image.pids:
            libraries[pid].append(library_of(image, deleted=file.mapping.deleted))
    return tuple(Target(pid, comms.get(pid, ""), tuple(libraries[pid])) for pid in sorted(libraries))


def _replaced(targets: Iterable[Target]) -> list[str]:
    """A sentence for each file that is no longer on disk as it is mapped."""
    users: dict[Library, list[int]] = defaultdict(list)
    for target in targets:
        for library in target.libraries:
            if library.deleted:
                users[library].append(target.pid)
    return [
        f"{library.path} has been replaced or deleted since PID {ranges(pids)} mapped it; the old file, with build-id"
        f" {library.build_id or 'unknown'}, is what was traced."
        for library, pids in users.items()
    ]
