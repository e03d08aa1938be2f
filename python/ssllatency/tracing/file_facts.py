# SPDX-License-Identifier: Apache-2.0
"""Contents of the files that processes map, remembered from one run to the next by what a file is: device, inode, size and the
times of its last changes (that of its inode can't be set back)."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Protocol

from ssllatency.elf.quick_look import look as quick_look
from ssllatency.elf.room import most_copied
from ssllatency.elf.source import ElfError
from ssllatency.errors import SsllatencyError, phrase
from ssllatency.facts import NOTHING, FileFacts
from ssllatency.fields import Field, FieldError
from ssllatency.host import kernel
from ssllatency.probes.cache import store
from ssllatency.probes.cache.kept import Cache, File
from ssllatency.probes.cache.parts import FACTS
from ssllatency.probes.contents import read_facts
from ssllatency.probes.settings import PlanSettings
from ssllatency.probes.signs import QUICK
from ssllatency.stacks.file_names import has_library_name, stack_called
from ssllatency.stacks.registry import LIBRARIES
from ssllatency.tracing.allowance import SharedAllowance, host, owner
from ssllatency.tracing.planning.findings import Findings, file_of

_MOST = 6000  # files remembered; most of them hold nothing, which takes some 60 bytes
# In so much time: bytes of files that are read, and files that show a sign and turn out to hold nothing.
_MOST_BYTES, _MOST_IN_VAIN, _PERIOD_S = 8 << 30, 256, 3600.0
_USED_UP = (
    "Too many or too large files are mapped to inspect them all at once: some of the rest may hold TLS. A run tries them again"
    " in the next hour."
)


class NotInspectedError(SsllatencyError):
    """A file isn't looked into; `for_now`: it may be later."""

    def __init__(self, sentence: str, *, for_now: bool) -> None:
        super().__init__(sentence)
        self.for_now = for_now


class Look(Protocol):
    """Looks into the file at `path`, which people are shown as `label`; `root` as for KnownFiles.describe."""

    def __call__(self, path: str, label: str, root: str = "/") -> FileFacts: ...


class KnownFiles:
    """Describes files, those that it knows without opening the ELF parser, and of the others, by `look`, those that show a sign
    of TLS. `save()` keeps what was learned. `unlooked` are sentences about files that weren't looked into."""

    def __init__(self, look: Look | None = None) -> None:
        self._look = look or look_inside
        self._facts = _kept()
        self._used: dict[str, FileFacts] = {}
        self._learned = False
        self._bytes = SharedAllowance(_MOST_BYTES, _PERIOD_S, host())
        self._in_vain = SharedAllowance(_MOST_IN_VAIN, _PERIOD_S, host())
        self.unlooked: dict[str, None] = {}

    def describe(self, fd: int, path: str, root: str = "/") -> FileFacts:
        """The contents of the file; SsllatencyError where it is a damaged library or can't be read. `root`: where its process's
        root lies, in which its debug file may be."""
        try:
            return self._described(fd, path, root)
        except NotInspectedError as obstacle:
            self.unlooked[str(obstacle)] = None
            return NOTHING

    def _described(self, fd: int, path: str, root: str) -> FileFacts:
        status = os.fstat(fd)
        key = f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}"
        facts = self._facts.get(key) or self._used.get(key)
        if facts is None:
            facts = self._looked_at(fd, path, root, status.st_size)
            self._learned |= not facts.by_debug_file
        if not facts.by_debug_file:
            self._used[key] = facts
            if len(self._used) > _MOST:
                del self._used[next(iter(self._used))]
        return facts

    def holds_traced(self, fd: int, path: str, root: str = "/") -> bool:
        """Whether the file may be traced; what is called a TLS library is for its plan to say, which says what is wrong with
        it. Arguments and errors as for describe(), and NotInspectedError where it isn't looked into."""
        return has_library_name(path) or bool(self._described(fd, path, root).libraries)

    def _looked_at(self, fd: int, path: str, root: str, size: int) -> FileFacts:
        user = owner(fd)
        if not has_library_name(path):
            if size > most_copied():
                sentence = f"{path} is larger than {most_copied() >> 20} MiB, so it wasn't inspected for TLS."
                raise NotInspectedError(sentence, for_now=False)
            if not self._bytes.has_room(user) or not self._in_vain.has_room(user):
                raise NotInspectedError(_USED_UP, for_now=True)
            is_shown, read_bytes = quick_look(fd, QUICK)
            self._bytes.use(user, read_bytes)
            if not is_shown:
                return NOTHING
        facts = self._look(f"/proc/self/fd/{fd}", path, root)
        if facts == NOTHING:
            self._in_vain.use(user, 1)
        return facts

    def save(self) -> None:
        """Keeps them for the next run, those of this one above all."""
        if not (self._learned and (name := _name())):
            return
        kept = list({**self._facts, **self._used}.items())[-_MOST:]
        entry = {key: asdict(facts) if facts != NOTHING else None for key, facts in kept}
        store.store(store.default_directory(), name, entry)
        self._learned = False


def look_inside(path: str, label: str, root: str = "/", machine: str | None = None) -> FileFacts:
    """The contents of the file at `path`, which people are shown as `label`; `root` as for KnownFiles.describe.

    Nothing is in code of another processor than `machine`, this one if it isn't said, "" for any: an emulator maps it, and the
    kernel runs none of it.
    """
    settings = PlanSettings(machine=kernel.machine() if machine is None else machine)
    findings = Findings(Cache(keeps=False), settings)
    try:
        return facts_of(findings, file_of(path, label, root))
    finally:
        findings.close()


def facts_of(findings: Findings, file: File) -> FileFacts:
    """The contents of a file; one that can't be read is an obstacle where it is a traced library by its name."""
    try:
        return findings.ask(file, FACTS)
    except ElfError as error:
        title = stack_called(file.label)
        if not title:
            return NOTHING
        return FileFacts(obstacle=phrase(error).replace(file.label, "its libssl"), name=title)


def why_not_traced(path: str) -> str:
    """The sentence about a file on disk in which nothing is found that is traced."""
    facts = look_inside(path, os.path.abspath(path), machine="")  # noqa: PTH100 - no symbolic link is resolved
    if facts.obstacle:
        return f"{path} can't be traced: {facts.obstacle}."
    if facts.others:
        return f"The TLS of {path} is {facts.others[0][0]}, which isn't traced."
    if facts.libraries:
        return f"{path} isn't traced: no process maps it now, or none of its functions can be probed."
    return f"{path} holds no function that ssllatency knows ({', '.join(LIBRARIES)})."


def _name() -> str:
    """The name of the entry in the cache, for which this program's own code is read."""
    return store.entry_name("what is in files")


def _kept() -> dict[str, FileFacts]:
    folder = store.default_directory()
    return _read(store.load(folder, name)) if store.is_there(folder) and (name := _name()) else {}


def _read(entry: object) -> dict[str, FileFacts]:
    """The facts of an entry; nothing where any of it is odd."""
    try:
        return {key: NOTHING if facts.value is None else read_facts(facts) for key, facts in Field(entry).members()}
    except FieldError:
        return {}
