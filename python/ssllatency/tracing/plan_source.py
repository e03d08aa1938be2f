# SPDX-License-Identifier: Apache-2.0
"""Plans of files as a command's options ask for them, each made once, or taken from the cache."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from ssllatency.code.machine import Emulation
from ssllatency.elf.source import ElfError
from ssllatency.engines.base import TracedImage
from ssllatency.engines.bpf import kernel
from ssllatency.errors import SsllatencyError
from ssllatency.openssl.names.names import Names
from ssllatency.probes.cache.handshakes import HANDSHAKE_PLANS, HandshakeSettings
from ssllatency.probes.cache.kept import Cache, Kind, Run, Subject, Work
from ssllatency.probes.cache.names import NAMES, names_in
from ssllatency.probes.cache.plans import PLANS, PlanSettings
from ssllatency.probes.handshake.plan import HandshakePlan
from ssllatency.probes.plan import ImagePlan
from ssllatency.targets import Hazards, debug_roots, exists, root_of
from ssllatency.tracing.planning import Answer, run_all_apart, run_apart

NO_HAZARDS = Hazards()
_Key = tuple[object, ...]


@dataclass(frozen=True)
class File:
    """A file to be planned: where it can be opened, what people are shown, and where the target's root lies, in which debug
    files are looked for after the host's if the file is part of it."""

    path: str
    label: str
    root: str = "/"

    @cached_property
    def subject(self) -> Subject:
        """The same, with the roots in which debug files are looked for."""
        return Subject(self.path, self.label, debug_roots(self.path, self.label, self.root))


@dataclass(frozen=True)
class _Asked:
    """What is asked of a file."""

    kind: Kind[Any]
    settings: tuple[object, ...]
    make: Callable[[Any], Any]
    file: File

    @property
    def key(self) -> _Key:
        """What an answer is remembered by: the file as it is now."""
        status = os.stat(self.file.path)  # noqa: PTH116 - a path under /proc is not to be resolved
        identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, self.file.label, self.file.root)
        return (self.kind.name, *identity)


class PlanSource:
    """Plans files as the command's options say, through the cache unless they say otherwise."""

    def __init__(self, arguments: argparse.Namespace, hazards: Hazards = NO_HAZARDS) -> None:
        version = kernel.release()
        self.danger = kernel.return_probes_kill(version, seccomp=hazards.seccomp, shadow_stack=hazards.shadow_stack)
        self._cache = Cache(keeps=not arguments.no_cache)
        # The kernel can't be asked what it emulates. Since Linux 6.16 (canonical nops) and 6.18 (5-byte nops).
        nops, nop5 = version >= (6, 16, 0), version >= (6, 18, 0)
        emulation = Emulation(multibyte_nops=nops, optimised_nop5=nop5, calls=not hazards.shadow_stack)
        self._plans = PlanSettings(not arguments.no_return_probes and not self.danger, emulation)
        self._handshake_plans = HandshakeSettings(emulation)
        self._answers: dict[_Key, Any] = {}
        self._failures: dict[_Key, SsllatencyError] = {}  # why there is no answer

    def plan(self, path: str, label: str, root: str = "/") -> ImagePlan:
        """The plan of the file at `path`; `label` and `root` as File has them. ElfError where it can't be read."""
        plan: ImagePlan = self._answer(self._plan_of(File(path, label, root)))
        return replace(plan, path=label)

    def handshake_plan(self, path: str, label: str, root: str = "/") -> HandshakePlan:
        """The handshake plan of the file at `path`; arguments as those of plan()."""
        plan: HandshakePlan = self._answer(self._handshake_plan_of(File(path, label, root)))
        return replace(plan, path=label)

    def handshake_plan_of(self, image: TracedImage) -> HandshakePlan:
        """The handshake plan of a file that processes map."""
        return self.handshake_plan(image.file, image.plan.path, _root_of(image))

    def names_of(self, image: TracedImage) -> Names:
        """What the codes mean that a file uses which processes map; nothing where that can't be told. It is asked for a report,
        when a signal may have ended the run."""
        asked = _Asked(NAMES, (), names_in, File(image.file, image.plan.path, _root_of(image)))
        try:
            names: Names = self._answer(asked, partial(run_apart, heeding=False))
        except ElfError:
            return Names()
        return names

    def make_ahead(
        self,
        files: Iterable[File],
        *,
        handshakes: bool = False,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        """Plans the files, and with `handshakes` has their handshake plans, too, before they are asked for.

        Where one isn't kept, they are made side by side, and `meanwhile` is run by this process. One that can't be made is told
        of when it is asked for.
        """
        by_size = sorted(files, key=_size, reverse=True)  # what takes longest comes first
        wanted = [self._handshake_plan_of(file) for file in by_size if handshakes]
        wanted += [self._plan_of(file) for file in by_size]
        for asked in wanted:
            self._recall(asked)
        missing = [asked for asked in wanted if not self._is_answered(asked)]
        if len(wanted) > 1 and missing:
            works = [Work(asked.kind, asked.file.subject, asked.make) for asked in missing]
            for asked, work, answer in zip(missing, works, run_all_apart(works, meanwhile), strict=True):
                self._remember(asked, work, answer)

    def _plan_of(self, file: File) -> _Asked:
        return _Asked(PLANS, self._plans.key, self._plans.make, file)

    def _handshake_plan_of(self, file: File) -> _Asked:
        return _Asked(HANDSHAKE_PLANS, self._handshake_plans.key, self._handshake_plans.make, file)

    def _is_answered(self, asked: _Asked) -> bool:
        """Whether it is known already: an answer, or that there is none."""
        return asked.key in self._answers or asked.key in self._failures

    def _recall(self, asked: _Asked) -> None:
        """Has the answer that an entry of the cache gives, if there is one."""
        if not self._is_answered(asked):
            kept = self._cache.kept(asked.kind, asked.file.subject, asked.settings)
            if kept is not None:
                self._answers[asked.key] = kept

    def _remember(self, asked: _Asked, work: Work[Any], answer: Answer) -> None:
        """Has what another process has worked out, or why it couldn't, for when it is asked for."""
        if isinstance(answer, SsllatencyError):
            self._failures[asked.key] = answer
            return
        try:
            self._answers[asked.key] = self._cache.taken(work, asked.settings, answer)
        except SsllatencyError as error:
            self._failures[asked.key] = error

    def _answer(self, asked: _Asked, run: Run | None = None) -> Any:
        key = asked.key
        if key in self._failures:
            raise self._failures[key]
        if key not in self._answers:
            answer = self._cache.found(asked.kind, asked.file.subject, asked.settings, asked.make, run or run_apart)
            self._answers[key] = answer[0]
        return self._answers[key]


def _size(file: File) -> int:
    return os.stat(file.path).st_size  # noqa: PTH116


def _root_of(image: TracedImage) -> str:
    """The root of a process that maps the file and is still there, or of one that will map it, else the host's."""
    return next((root_of(pid) for pid in image.pids if exists(pid)), image.root or "/")
