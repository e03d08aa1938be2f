# SPDX-License-Identifier: Apache-2.0
"""What is found out about a file, from its entry on disk or anew: so that attaching again takes milliseconds.

An entry is found by what it depends on: the contents of the file, this program's own code and the settings; and it is checked
against the separate debug file that it was made with. Nothing here brings in the ELF parser or the decoder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ssllatency.probes import store
from ssllatency.probes.checks import DamagedValues

if TYPE_CHECKING:
    from ssllatency.elf.image import Image

_Found = TypeVar("_Found")


@dataclass(frozen=True)
class Kind(Generic[_Found]):
    """A kind of findings. `to_values` makes plain JSON values of them; `from_values` checks these in full, with the size of the
    file, and raises DamagedValues. `complete`: whether a debug file that comes later could add nothing."""

    name: str
    to_values: Callable[[_Found], dict[str, Any]]
    from_values: Callable[[object, int], _Found]
    complete: Callable[[_Found], bool]


@dataclass(frozen=True)
class Cache:
    """Where entries are kept, `store.default_directory()` if it isn't said, and the roots that images are opened with."""

    debug_roots: Sequence[str] = ("/",)
    directory: Path | None = None

    def found(
        self,
        kind: Kind[_Found],
        path: str | Path,
        settings: Sequence[object],
        open_image: Callable[[], Image],
        make: Callable[[Image], _Found],
    ) -> tuple[_Found, bool]:
        """What there is to be found in the file `path` under these settings, and whether it came from an entry.

        Where it must be made anew, `open_image` opens the same file for it.
        """
        directory = self.directory or store.default_directory()
        content = store.digest(path)
        name = store.entry_name(content, kind.name, *settings)
        kept = self._load(kind, directory, name, path) if name else None
        if kept is not None:
            return kept, True
        image = open_image()
        made = make(image)
        if name and image.build_id and store.digest(path) == content:
            debug = store.identity(image.debug_file)
            store.store(directory, name, {"build_id": image.build_id, "debug": debug, kind.name: kind.to_values(made)})
        return made, False

    def _load(self, kind: Kind[_Found], directory: Path, name: str, path: str | Path) -> _Found | None:
        entry = store.load(directory, name)
        if not isinstance(entry, dict) or set(entry) != {"build_id", "debug", kind.name}:
            return None
        try:
            found = kind.from_values(entry[kind.name], os.stat(path).st_size)  # noqa: PTH116
        except (OSError, ValueError, RecursionError, DamagedValues):
            return None
        complete = kind.complete(found)
        return found if self._still_true(entry["build_id"], entry["debug"], complete=complete) else None

    def _still_true(self, build_id: object, debug: object, *, complete: bool) -> bool:
        """Whether the debug file of the entry is unchanged or, where there was none, none has come that might name more."""
        if not isinstance(build_id, str) or not build_id:
            return False
        if debug is not None:
            return store.same_debug_file(debug, self.debug_roots)
        return complete or not store.debug_file_has_come(build_id, self.debug_roots)
