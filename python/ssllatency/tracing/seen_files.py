# SPDX-License-Identifier: Apache-2.0
"""A run's knowledge of the files that processes map: which are traced, and which need no second look.

A traced file is open for as long as the run, so that its identity stays its own. Of any other only its version is remembered:
its number may go to another file, which may hold TLS, and so may it itself once it is written to. What the kernel tells of a
mapping is a hint. A look at the process is spared where the file itself, asked through the mapping, is one that is known; where
the process is gone, and nobody else can have the file's numbers, by the generation of the inode.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from ssllatency.engines.follow.mappings import MappingNotice
from ssllatency.targets import FileVersion, Identity, MappedFile, Numbers, mapped_version, status_told
from ssllatency.tracing.allowance import SharedAllowance, host

# Files looked into that are remembered, and as many are in a day; and files found to hold no TLS.
_MOST_EXAMINED, _MOST_DISMISSED, _DAY_S = 16384, 65536, 86400.0


K = TypeVar("K")
V = TypeVar("V")


class _Latest(dict[K, V]):
    """At most so many values: those that were added first are forgotten."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        if len(self) > self._most:
            del self[next(iter(self))]


class SeenFiles:
    """`traced`: the numbers of the traced files by their identity. `hints`: the same by what maps and notices have of them.
    `shared`: the traced files to which all processes share the links, where any do. `room`: how many more may be looked into.

    Of those that are only remembered the oldest are forgotten: they are looked into again where they are mapped again."""

    def __init__(self, files: Sequence[MappedFile]) -> None:
        self.traced: dict[Identity, int] = {}
        self.hints: dict[Numbers, int] = {}
        self.shared: set[Identity] = set()
        self._names: set[str] = set()
        self._shared: set[tuple[int, int]] = set()  # devices whose files have others of their own
        self.room = SharedAllowance(_MOST_EXAMINED, _DAY_S, host())
        self._examined = _Latest[FileVersion, None](_MOST_EXAMINED)
        self._dismissed = _Latest[FileVersion, None](_MOST_DISMISSED)
        self._versions: dict[Identity, FileVersion] = {}
        self._settled = _Latest[Numbers, int](
            _MOST_DISMISSED
        )  # by the numbers of a file that isn't traced, the generation of its inode
        self._confirmed: set[tuple[Numbers, int]] = set()  # such numbers and generations, in this look
        for number, file in enumerate(files):
            self.trace(file.identity, file.numbers, file.path, number)

    def begin_look(self) -> None:
        """Has the versions of files asked for anew: within one look each is asked for once."""
        self._versions.clear()
        self._confirmed.clear()

    def trace(self, identity: Identity, numbers: Numbers, path: str, number: int, *, shared: bool = True) -> None:
        """Takes it that a file is traced as the image of that number, and open until the run ends."""
        self.traced[identity] = number
        self.shared |= {identity} if shared else set()
        self.hints[numbers] = number
        self._names.add(_name(path))
        self._note_device(identity, numbers)

    def renumber(self, number: int, new: int) -> None:
        """Takes it that the file is traced as another image from now on."""
        self.traced |= {identity: new for identity, known in self.traced.items() if known == number}
        self.hints |= {numbers: new for numbers, known in self.hints.items() if known == number}

    def number_of(self, file: MappedFile) -> int | None:
        """The number of the image as which the file is traced."""
        return self.traced.get(file.identity)

    def is_examined(self, pid: int, file: MappedFile) -> bool:
        """Whether the file, as `pid` maps it now, is traced or was looked into."""
        return file.identity in self.traced or self._version(pid, file) in self._examined

    def examine(self, pid: int, files: Iterable[MappedFile]) -> None:
        """Takes it that these were looked into."""
        for file in files:
            self._examined[self._version(pid, file)] = None

    def unexamine(self, pid: int, files: Iterable[MappedFile]) -> None:
        """Takes that back."""
        for file in files:
            self._examined.pop(self._version(pid, file), None)

    def has_examined(self, version: FileVersion) -> bool:
        """Whether a file that nobody maps by now was looked into."""
        return version in self._examined or version in self._dismissed

    def examine_version(self, version: FileVersion) -> None:
        """Takes it that it was."""
        self._examined[version] = None

    def is_dismissed(self, pid: int, file: MappedFile) -> bool:
        """Whether the file was found to hold no TLS."""
        return self._version(pid, file) in self._dismissed

    def dismiss(self, pid: int, file: MappedFile) -> None:
        """Takes it that the file holds no TLS."""
        self._dismissed[self._version(pid, file)] = None

    def _version(self, pid: int, file: MappedFile) -> FileVersion:
        version = self._versions.get(file.identity)
        if version is None:
            version = self._versions[file.identity] = mapped_version(pid, file)
        return version

    def is_known(self, pid: int, file: MappedFile) -> bool:
        """Whether no look at a process that maps the file would find anything to do about it."""
        return self.is_examined(pid, file) or self._version(pid, file) in self._dismissed

    # Hints.

    def settle(self, identity: Identity, numbers: Numbers, generation: int) -> None:
        """Takes it that there is nothing to do about a file that was mapped with this generation of its inode."""
        self._note_device(identity, numbers)
        if generation:
            self._settled[numbers] = generation

    def is_settled(self, mapping: MappingNotice) -> bool:
        """Whether it is known that there is nothing to do about what was mapped, whoever has mapped it."""
        numbers, key = mapping.numbers, (mapping.numbers, mapping.generation)
        if key in self._confirmed:
            return True
        status = status_told(mapping.pid, mapping.address_range)
        if status is None:
            return self._settled.get(numbers) == mapping.generation != 0 and numbers[:2] not in self._shared
        names = {status.identity, numbers} if numbers[0] or status.identity[:2] == numbers[:2] else {status.identity}
        known = any(self.has_examined(FileVersion(name, *status[1:])) for name in names) and self.traced.keys().isdisjoint(
            names
        )
        if known and numbers[0]:
            self._confirmed.add(key)
        return known

    def may_be_traced(self, mapping: MappingNotice) -> bool:
        """Whether what was mapped is, by what is told of it, one of the traced files."""
        return mapping.numbers in self.hints or _name(mapping.path) in self._names

    def certain(self, mapping: MappingNotice) -> int | None:
        """The number of the traced file that was mapped, where no other can have its numbers."""
        return None if mapping.numbers[:2] in self._shared else self.hints.get(mapping.numbers)

    def number_told(self, mapping: MappingNotice, files: Sequence[MappedFile]) -> int | None:
        """The number of the traced file that a process mapped which maps these files now; if it is gone, by the file's name."""
        number, file = self.certain(mapping), self.among(mapping, files)
        if number is not None:
            return number
        if file:
            return self.number_of(file)
        return self.hints.get(mapping.numbers) if _name(mapping.path) in self._names else None

    def among(self, mapping: MappingNotice, files: Sequence[MappedFile]) -> MappedFile | None:
        """Return which of the files, which the process maps by now, was mapped: by its numbers, else by its name, a traced one
        first. A file of an overlay has other numbers in maps than in some kernels' notices."""
        by_numbers = [file for file in files if file.numbers == mapping.numbers]
        same = by_numbers or [file for file in files if _name(file.path) == _name(mapping.path)]
        return min(same, key=lambda file: file.identity not in self.traced, default=None)

    def _note_device(self, identity: Identity, numbers: Numbers) -> None:
        if identity[:2] != numbers[:2]:
            self._shared.add(numbers[:2])


def _name(path: str) -> str:
    return path.rpartition("/")[2]
