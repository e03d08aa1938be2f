# SPDX-License-Identifier: Apache-2.0
"""Findings about a file, kept in one entry on disk, so that attaching a second time takes milliseconds.

An entry is found by what it depends on: the contents of the file, this program's own code and the settings; and it is checked
against the separate debug file that it was made with. It has those parts that were asked for so far. Nothing here brings in the
ELF parser or the decoder.

What isn't kept is worked out from a private copy of the file, and the copy's digest names the entry. So writing to the file
meanwhile can't store the plan of one content under the name of another. Parsing and decoding need nothing but that copy, so
they may be left to a process that can do nothing else; what it says is checked as an entry is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ssllatency.data_class import dataclass
from ssllatency.elf.source import ElfSource
from ssllatency.fields import FieldError
from ssllatency.probes.cache import store
from ssllatency.probes.cache.folder import PLANS_SUFFIX, has_plans
from ssllatency.probes.cache.parts import FilePart
from ssllatency.probes.settings import PlanSettings

if TYPE_CHECKING:
    from ssllatency.elf.image import Image

T = TypeVar("T")


@dataclass(frozen=True)
class File:
    """A file to find out about: where it can be opened, what people are shown, and the roots in which its debug file is looked
    for."""

    path: str
    label: str
    debug_roots: tuple[str, ...] = ("/",)

    @property
    def size(self) -> int:
        """Its bytes."""
        return os.stat(self.path).st_size  # noqa: PTH116

    @property
    def key(self) -> tuple[object, ...]:
        """The key by which findings about it are remembered: the file as it is now."""
        status = os.stat(self.path)  # noqa: PTH116 - a path under /proc is not to be resolved
        times = status.st_mtime_ns, status.st_ctime_ns  # the second can't be set back by whoever writes to it
        return status.st_dev, status.st_ino, status.st_size, *times, self.label, self.debug_roots


@dataclass(frozen=True)
class Content:
    """The contents read from a file: what tells it from other contents, its bytes, and how many of these aren't in holes."""

    digest: str = ""
    size: int = 0
    stored: int = 0


@dataclass(frozen=True)
class Origin:
    """The origin of the findings about a file: `debug` is the path of its separate debug file, "" without one."""

    build_id: str = ""
    debug: str = ""


class FileWork:
    """The work on a file: take a copy, open what else it takes, then work out the parts, in this order."""

    def __init__(self, subject: File, parts: Sequence[FilePart[Any]], settings: PlanSettings) -> None:
        self.subject, self.parts, self.settings = subject, tuple(parts), settings
        self._source: ElfSource | None = None
        self._image: Image | None = None

    def copy(self) -> Content:
        """Takes a private copy of the file; ElfError where that can't be."""
        self._source = source = ElfSource.copied(self.subject.path, self.subject.label)
        return Content(source.digest, source.size, source.stored)

    def open(self) -> Origin:
        """Opens the copy as an ELF image, and its debug file. ElfError where it is none."""
        from ssllatency.elf.image import Image

        assert self._source is not None
        self._image = Image(self.subject.path, self._source, self.subject.debug_roots)
        return Origin(self._image.build_id, self._image.debug_file)

    def make(self, part: FilePart[T]) -> T:
        """Make the findings. Touches no file. ElfError where the image is cut short."""
        assert self._image is not None
        return part.make(self._image, self.settings)


@dataclass(frozen=True)
class Entry:
    """The entry about a file of so many bytes that is called `label`. `outdated`: a debug file has come that there
    wasn't."""

    label: str
    parts: Mapping[str, object]
    file_size: int
    outdated: bool

    def part(self, part: FilePart[T]) -> T | None:
        """The finding of that part, None where it doesn't have that part, or the part is no longer true."""
        key = part.key(self.label)
        if key not in self.parts:
            return None
        try:
            kept = part.read(self.parts[key], self.file_size)
        except FieldError:
            return None
        return kept if not self.outdated or part.complete(kept) else None


NO_ENTRY = Entry("", {}, 0, outdated=False)


@dataclass(frozen=True)
class Cache:
    """A folder of entries, `store.default_directory()` unless another is given. `keeps`: whether there are any at all."""

    directory: Path | None = None
    keeps: bool = True

    def entry(self, subject: File, settings: PlanSettings) -> Entry:
        """The entry about the file, NO_ENTRY where there is none that was made with the debug file that there is now."""
        if not self.keeps or not has_plans(self._directory):
            return NO_ENTRY
        name = _name(store.digest(subject.path), settings)
        parts, build_id, debug = _taken_apart(store.load(self._directory, name) if name else None)
        if not build_id or (debug is not None and not store.same_debug_file(debug, subject.debug_roots)):
            return NO_ENTRY
        outdated = debug is None and store.debug_file_has_come(build_id, subject.debug_roots)
        try:
            return Entry(subject.label, parts, os.stat(subject.path).st_size, outdated)  # noqa: PTH116
        except OSError:
            return NO_ENTRY

    def keep(self, settings: PlanSettings, content: Content, origin: Origin, parts: Mapping[str, object]) -> None:
        """Adds parts, as values, to what is kept about the file that was copied. Parts that were made of the same file and
        another debug file go."""
        name = _name(content.digest, settings) if self.keeps and origin.build_id else ""
        if name:
            debug = store.identity(origin.debug)
            others, *others_origin = _taken_apart(store.load(self._directory, name))
            if others_origin == [origin.build_id, debug]:
                parts = {**others, **parts}
            store.store(self._directory, name, {"build_id": origin.build_id, "debug": debug, "parts": parts})

    @property
    def _directory(self) -> Path:
        return self.directory or store.default_directory()


def _name(digest: str, settings: PlanSettings) -> str:
    return store.entry_name(digest, settings, suffix=PLANS_SUFFIX)


def _taken_apart(entry: object) -> tuple[Mapping[str, object], str, object]:
    """Parts, build-id and identity of the debug file of an entry, whose content nobody has checked; "" for no build-id."""
    if not isinstance(entry, dict) or set(entry) != {"build_id", "debug", "parts"}:
        return {}, "", None
    build_id, parts = entry["build_id"], entry["parts"]
    if not isinstance(build_id, str) or not isinstance(parts, dict):
        return {}, "", None
    return parts, build_id, entry["debug"]
