# SPDX-License-Identifier: Apache-2.0
"""Plans of files as a command's options ask for them, each made once, or taken from the cache."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ssllatency.cli.side_by_side import side_by_side
from ssllatency.elf.names import Names, names
from ssllatency.engines import kernel
from ssllatency.engines.base import TracedImage
from ssllatency.probes.cache import cached_plan
from ssllatency.probes.machine import Emulation
from ssllatency.probes.names import cached_names
from ssllatency.probes.plan import ImagePlan
from ssllatency.targets import Hazards, exists, has_library_name, root_of

if TYPE_CHECKING:
    from ssllatency.elf.image import Image
    from ssllatency.probes.handshake_plan import HandshakePlan

NO_HAZARDS = Hazards()
Open = Callable[[], "Image"]
T = TypeVar("T")


@dataclass(frozen=True)
class File:
    """A file to be planned: where it can be opened, what people are shown, and where the target's root lies, in which debug
    files are looked for before the host's."""

    path: str
    label: str
    root: str = "/"

    @property
    def debug_roots(self) -> tuple[str, ...]:
        """Where debug files are looked for."""
        return (self.root, "/") if self.root != "/" else ("/",)

    def open(self) -> Image:
        """The file opened; the ELF parser is brought in only here."""
        from ssllatency.elf.image import Image

        return Image.open(self.path, label=self.label, debug_roots=self.debug_roots)


class _NotKept(Exception):
    """There is no entry for it in the cache."""


def _not_kept() -> Image:
    raise _NotKept


class PlanSource:
    """Plans files as the command's options say, through the cache unless they say otherwise."""

    def __init__(self, arguments: argparse.Namespace, found: Hazards = NO_HAZARDS) -> None:
        version = kernel.release()
        self.danger = kernel.return_probes_kill(version, seccomp=found.seccomp, shadow_stack=found.shadow_stack)
        self._return_probes, self._cached = not arguments.no_return_probes and not self.danger, not arguments.no_cache
        # The kernel can't be asked what it emulates. Since Linux 6.16 (canonical nops) and 6.18 (5-byte nops).
        nops, nop5 = version >= (6, 16, 0), version >= (6, 18, 0)
        self._emulation = Emulation(multibyte_nops=nops, optimised_nop5=nop5, calls=not found.shadow_stack)
        self._made: dict[tuple[object, ...], Any] = {}

    def plan(self, path: str, label: str, root: str = "/") -> ImagePlan:
        """The plan of the file at `path`; `label` and `root` as File has them."""
        file = File(path, label, root)
        return self._once(self._planned, file, file.open)

    def handshake_plan(self, path: str, label: str, root: str = "/") -> HandshakePlan:
        """The handshake plan of the file at `path`; arguments as those of plan()."""
        file = File(path, label, root)
        return self._once(self._handshake_planned, file, file.open)

    def handshake_plan_of(self, image: TracedImage) -> HandshakePlan:
        """The handshake plan of a file that processes map."""
        return self.handshake_plan(image.file, image.plan.path, _root_of(image))

    def names_of(self, image: TracedImage) -> Names:
        """What the codes mean that a file uses which processes map."""
        file = File(image.file, image.plan.path, _root_of(image))
        return cached_names(file.path, file.open, debug_roots=file.debug_roots)[0] if self._cached else names(file.open())

    def make_ahead(
        self,
        files: Iterable[File],
        *,
        handshakes: bool = False,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        """Sees to it that the plans of the files are in the cache, and with `handshakes` the libraries' handshake plans too.

        Where one isn't, all are made side by side, and `meanwhile` is run by this process.
        """
        if not self._cached:
            return
        by_size = sorted(files, key=_size, reverse=True)  # what takes longest comes first
        libraries = [file for file in by_size if has_library_name(file.label)] if handshakes else []
        wanted = [(self._handshake_planned, file) for file in libraries] + [(self._planned, file) for file in by_size]
        kept = all(self._is_kept(make, file) for make, file in reversed(wanted))  # the smallest tells soonest
        if len(wanted) > 1 and not kept:
            plans = [partial(self._once, make, file, file.open) for make, file in wanted]
            side_by_side(plans, meanwhile)

    def _is_kept(self, make: Callable[[File, Open], object], file: File) -> bool:
        try:
            self._once(make, file, _not_kept)
        except _NotKept:
            return False
        return True

    def _once(self, make: Callable[[File, Open], T], file: File, open_image: Open) -> T:
        status = os.stat(file.path)  # noqa: PTH116 - a path under /proc is not to be resolved
        found = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, file.label, file.root)
        key = (make.__name__, *found)
        if key not in self._made:
            self._made[key] = make(file, open_image)
        made: T = self._made[key]
        return made

    def _planned(self, file: File, open_image: Open) -> ImagePlan:
        if not self._cached:
            from ssllatency.probes.planner import plan_image

            return plan_image(open_image(), return_probes=self._return_probes, emulation=self._emulation)
        options: dict[str, Any] = {"return_probes": self._return_probes, "emulation": self._emulation}
        return cached_plan(file.path, open_image, label=file.label, debug_roots=file.debug_roots, **options)[0]

    def _handshake_planned(self, file: File, open_image: Open) -> HandshakePlan:
        if not self._cached:
            from ssllatency.probes.phases import plan_handshake

            return plan_handshake(open_image(), emulation=self._emulation)
        from ssllatency.probes.handshake_cache import cached_handshake_plan

        options: dict[str, Any] = {"label": file.label, "debug_roots": file.debug_roots, "emulation": self._emulation}
        return cached_handshake_plan(file.path, open_image, **options)[0]


def _size(file: File) -> int:
    return os.stat(file.path).st_size  # noqa: PTH116


def _root_of(image: TracedImage) -> str:
    """The root of a process that maps the file and is still there, else the host's."""
    return next((root_of(pid) for pid in image.pids if exists(pid)), "/")
