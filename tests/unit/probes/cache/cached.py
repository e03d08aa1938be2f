# SPDX-License-Identifier: Apache-2.0
"""What is found out about a file through the cache, as the commands ask for it: by a process of its own where it isn't kept."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ssllatency.probes.cache.kept import Cache, File, FileWork
from ssllatency.probes.cache.parts import HANDSHAKE, NAMES, PLAN, FilePart
from ssllatency.probes.plan import FilePlan, HandshakeSites
from ssllatency.probes.settings import PlanSettings
from ssllatency.stacks.names import Names
from ssllatency.tracing.planning import reading
from ssllatency.tracing.planning.findings import Findings, Start
from ssllatency.tracing.planning.fork_server import Child
from ssllatency.tracing.planning.reading import ReadingProcess

T = TypeVar("T")


@dataclass(frozen=True)
class Asker:
    """Asks about files, each time through the cache in `directory`. The answers say as well whether they were kept."""

    directory: Path
    roots: tuple[str, ...] = ("/",)
    start: Start = reading.start

    def plan(self, path: Path, **settings: Any) -> tuple[FilePlan, bool]:
        """The plan; `settings` as PlanSettings has them."""
        return self.ask(PLAN, path, **settings)

    def handshake_sites(self, path: Path, **settings: Any) -> tuple[HandshakeSites, bool]:
        """The sites of handshakes."""
        return self.ask(HANDSHAKE, path, **settings)

    def names(self, path: Path) -> tuple[Names, bool]:
        """The names."""
        return self.ask(NAMES, path)

    def ask(self, part: FilePart[T], path: Path, **settings: Any) -> tuple[T, bool]:
        """Any part."""
        read: list[str] = []

        def start(work: FileWork, *, interruptible: bool = True) -> ReadingProcess:
            read.append(work.subject.path)
            return self.start(work, interruptible=interruptible)

        findings = Findings(Cache(self.directory), PlanSettings(**settings), start=start)
        return findings.ask(File(str(path), str(path), self.roots), part), not read


def said(work: FileWork, *lines: object) -> ReadingProcess:
    """What a process says that is asked to do the work, whatever it is made to say."""
    receiving, sending = os.pipe()
    pid = os.fork()
    if pid == 0:
        with os.fdopen(sending, "w") as pipe:
            pipe.write("".join(json.dumps(line) + "\n" for line in lines))
        os._exit(0)
    os.close(sending)
    return ReadingProcess(work, Child(pid, lambda: os.waitpid(pid, 0)[1]), receiving)


def line_of(work: FileWork, part: FilePart[Any], alter: Callable[[Any], object] = lambda _: None) -> dict[str, object]:
    """The part as a process says it, altered."""
    values = part.to_values(work.make(part))
    alter(values)
    return {"part": part.name, "values": values}


def code_that_asks(part: str, path: Path, directory: Path) -> str:
    """Python that takes what is kept, `found`. `part` is called as in ssllatency.probes.cache.parts."""
    return (
        f"from ssllatency.probes.cache.parts import {part}\n"
        "from ssllatency.probes.settings import PlanSettings\n"
        "from ssllatency.probes.cache.kept import Cache, File\n"
        f"subject = File({str(path)!r}, {str(path)!r})\n"
        f"found = Cache(Path({str(directory)!r})).entry(subject, PlanSettings()).part({part})\n"
    )
