# SPDX-License-Identifier: Apache-2.0
"""Plans of files, and what else is in them, as a command's options ask for them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ssllatency.code.machine import Emulation
from ssllatency.elf.source import ElfError
from ssllatency.engines.base import TracedImage
from ssllatency.facts import FileFacts
from ssllatency.host import kernel
from ssllatency.probes.cache.kept import Cache, File
from ssllatency.probes.cache.parts import CALLS, HANDSHAKE, NAMES, PLAN, FilePart
from ssllatency.probes.plan import FilePlan
from ssllatency.probes.settings import PlanSettings
from ssllatency.targets import Hazards, root_of_any
from ssllatency.tracing.file_facts import facts_of
from ssllatency.tracing.planning.findings import Findings, file_of

if TYPE_CHECKING:
    from ssllatency.stacks.names import Names

__all__ = ["File", "PlanSource", "file_of", "is_traced"]

NO_HAZARDS = Hazards()


class PlanSource:
    """Plans files as the command's options say, through the cache unless they say otherwise.

    `ahead` are the parts that will be asked for of each file, `later` those that only a report needs. Plans have the sites of
    handshakes where these are among the former, and may lack what handshakes aren't followed by where CALLS is. `waits`: what
    is found out is kept once gather() or close() is called, as nobody is to wait for that before probes are set.
    """

    def __init__(
        self,
        arguments: argparse.Namespace,
        hazards: Hazards = NO_HAZARDS,
        *,
        ahead: Sequence[FilePart[Any]] = (),
        later: Sequence[FilePart[Any]] = (),
        waits: bool = False,
    ) -> None:
        version = kernel.release()
        self.danger = kernel.return_probes_kill(version, seccomp=hazards.seccomp, shadow_stack=hazards.shadow_stack)
        # The kernel can't be asked what it emulates. Since Linux 6.16 (canonical nops) and 6.18 (5-byte nops).
        nops, nop5 = version >= (6, 16, 0), version >= (6, 18, 0)
        emulation = Emulation(multibyte_nops=nops, optimised_nop5=nop5, calls=not hazards.shadow_stack)
        settings = PlanSettings(
            return_probes=not arguments.no_return_probes and not self.danger,
            emulation=emulation,
            machine=kernel.machine(),
        )
        self._splits_handshakes = HANDSHAKE in ahead
        self._calls = CALLS if CALLS in ahead else PLAN
        self._findings = Findings(Cache(keeps=not arguments.no_cache), settings, ahead, later, waits=waits)

    def gather(self) -> None:
        """Takes what processes that read files have found out since they were last asked."""
        self._findings.gather()

    def hear(self) -> None:
        """Takes what processes that read files have found out, in the midst of other work: those go on no longer that tell by
        now what nobody waits for, and would take processors from those that do what is waited for."""
        self._findings.hear()

    def close(self) -> None:
        """Ends the processes that still read files."""
        self._findings.close()

    def plan(self, path: str, label: str, root: str = "/") -> FilePlan:
        """The plan of the file at `path`; `label` and `root` as for file_of(). ElfError where it can't be read."""
        file = file_of(path, label, root)
        key = file.key
        plan = self._findings.ask(file, self._calls)
        if not self._splits_handshakes:
            return replace(plan, path=label)
        sites = self._findings.ask(file, HANDSHAKE)
        if sites.within_data or not plan.operations:  # reads and writes may tell of handshakes as well, or anything else
            plan = self._findings.ask(file, PLAN)
        if file.key != key:
            raise ElfError(f"{label} was left out: it was written to while it was read.")
        return replace(plan, path=label, handshake=sites)

    def names_of(self, image: TracedImage) -> Names:
        """The names of the codes that a mapped file uses; nothing where that can't be told. It is asked for a report,
        when a signal may have ended the run."""
        try:
            return self._findings.ask(file_of(image.file, image.plan.path, _root_of(image)), NAMES, interruptible=False)
        except ElfError:
            from ssllatency.stacks.names import Names

            return Names()

    def facts(self, path: str, label: str, root: str = "/") -> FileFacts:
        """The contents of the file at `path`; arguments as those of plan()."""
        return facts_of(self._findings, file_of(path, label, root))

    def make_ahead(self, files: Iterable[File], *, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Has what the command will ask for of these files before it does; where any of it isn't kept, `meanwhile` is run by
        this process. What can't be made is told of when it is asked for."""
        self._findings.make_ahead(files, meanwhile)


def is_traced(plan: FilePlan) -> bool:
    """Whether anything of the file is traced: nothing is of another processor's, which an emulator has mapped."""
    return bool(plan.operations) and plan.machine == kernel.machine()


def _root_of(image: TracedImage) -> str:
    """The root of a process that maps the file and is still there, or of one that will map it, else the host's."""
    return root_of_any(image.pids) or image.root or "/"
