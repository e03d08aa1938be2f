# SPDX-License-Identifier: Apache-2.0
"""Findings about a file, from its entry on disk or worked out again, so that attaching a second time takes milliseconds.

An entry is found by what it depends on: the contents of the file, this program's own code and the settings; and it is checked
against the separate debug file that it was made with. Nothing here brings in the ELF parser or the decoder.

What isn't cached is worked out from a private copy of the file, and the copy's digest names the entry. So writing to the file
meanwhile can't store the plan of one content under the name of another. Parsing and decoding need nothing but that copy, so
`run` may leave them to a process that can do nothing else; its answer is checked as an entry is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ssllatency.elf.source import ElfError, Source
from ssllatency.probes.cache import store
from ssllatency.probes.checks import DamagedValues

if TYPE_CHECKING:
    from ssllatency.elf.image import Image

_Found = TypeVar("_Found")
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Kind(Generic[_Found]):
    """A kind of findings. `to_values` makes plain JSON values of them; `from_values` checks these in full, with the size of the
    file, and raises DamagedValues. `complete`: whether a debug file that comes later could add nothing."""

    name: str
    to_values: Callable[[_Found], dict[str, Any]]
    from_values: Callable[[object, int], _Found]
    complete: Callable[[_Found], bool]


@dataclass(frozen=True)
class Subject:
    """A file: where it can be opened, what people are shown, and the roots in which its debug file is looked for."""

    path: str
    label: str
    debug_roots: tuple[str, ...] = ("/",)


class Work(Generic[_Found]):
    """What is to be found out about a file: take a copy, open what else it takes, then work it out, in this order."""

    def __init__(self, kind: Kind[_Found], subject: Subject, make: Callable[[Image], _Found]) -> None:
        self.kind, self.subject, self._make = kind, subject, make
        self.size, self.stored, self.digest = 0, 0, ""
        self._source: Source | None = None
        self._image: Image | None = None

    def copy(self) -> None:
        """Takes a private copy of the file; ElfError where that can't be."""
        self._source = Source.copied(self.subject.path, self.subject.label)
        self.size, self.stored, self.digest = self._source.size, self._source.stored, self._source.digest

    def open(self) -> None:
        """Opens the copy as an ELF image, and its debug file. ElfError where it is none."""
        from ssllatency.elf.image import Image

        assert self._source is not None
        self._image = Image(self.subject.path, self._source, self.subject.debug_roots)
        self._debug_file = self._image.debug_file

    def values(self) -> dict[str, Any]:
        """What is found out, as plain JSON values. Touches no file. ElfError where the image is cut short."""
        assert self._image is not None
        values = self.kind.to_values(self._make(self._image))
        return {"build_id": self._image.build_id, "debug": self._debug_file, "found": values}

    def forget(self) -> None:
        """Frees the copy."""
        self._source = self._image = None

    def checked(self, values: object) -> tuple[_Found, str, str]:
        """What the values say, the build-id and the path of the debug file. DamagedValues where they aren't such."""
        if not isinstance(values, Mapping) or set(values) != {"build_id", "debug", "found"}:
            raise DamagedValues(self.kind.name)
        build_id, debug = values["build_id"], values["debug"]
        if not isinstance(build_id, str) or not isinstance(debug, str) or "\0" in debug:
            raise DamagedValues(self.kind.name)
        return self.kind.from_values(values["found"], self.size), build_id, debug


Run = Callable[[Work[Any]], Values]


@dataclass(frozen=True)
class Cache:
    """Where entries are kept, `store.default_directory()` if it isn't said. `keeps`: whether there are any at all."""

    directory: Path | None = None
    keeps: bool = True

    def found(
        self, kind: Kind[_Found], subject: Subject, settings: Sequence[object], make: Callable[[Image], _Found], run: Run
    ) -> tuple[_Found, bool]:
        """What there is to be found in the file under these settings, and whether it came from an entry. ElfError where it
        can't be."""
        kept = self.kept(kind, subject, settings)
        if kept is not None:
            return kept, True
        work = Work(kind, subject, make)
        return self.taken(work, settings, run(work)), False

    def kept(self, kind: Kind[_Found], subject: Subject, settings: Sequence[object]) -> _Found | None:
        """What an entry says, None where there is none that is still true."""
        name = store.entry_name(store.digest(subject.path), kind.name, *settings) if self.keeps else ""
        entry = store.load(self._directory, name) if name else None
        if not isinstance(entry, dict) or set(entry) != {"build_id", "debug", kind.name}:
            return None
        try:
            found = kind.from_values(entry[kind.name], os.stat(subject.path).st_size)  # noqa: PTH116
        except (OSError, ValueError, RecursionError, DamagedValues):
            return None
        complete = kind.complete(found)
        return found if _still_true(entry["build_id"], entry["debug"], subject.debug_roots, complete=complete) else None

    def taken(self, work: Work[_Found], settings: Sequence[object], values: object) -> _Found:
        """What was worked out, checked, and kept for the next time. ElfError where it isn't what it should be."""
        try:
            found, build_id, debug = work.checked(values)
        except (ValueError, RecursionError, DamagedValues):
            raise ElfError(f"{work.subject.label} could not be read: what came of it made no sense.") from None
        name = store.entry_name(work.digest, work.kind.name, *settings) if self.keeps and build_id else ""
        if name:
            entry = {"build_id": build_id, "debug": store.identity(debug), work.kind.name: work.kind.to_values(found)}
            store.store(self._directory, name, entry)
        return found

    @property
    def _directory(self) -> Path:
        return self.directory or store.default_directory()


def _still_true(build_id: object, debug: object, debug_roots: Sequence[str], *, complete: bool) -> bool:
    """Whether the debug file of the entry is unchanged or, where there was none, none has come that might name more."""
    if not isinstance(build_id, str) or not build_id:
        return False
    if debug is not None:
        return store.same_debug_file(debug, debug_roots)
    return complete or not store.debug_file_has_come(build_id, debug_roots)
