# SPDX-License-Identifier: Apache-2.0
"""The interface to a set of programs and maps, before and after loading, whichever library compiles and loads it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Protocol


class Closable(Protocol):
    """A link."""

    def close(self) -> None:
        """Detaches."""


class LoadedMap(Protocol):
    """A map by its descriptor. Keys and values are ctypes structures or bytes of the map's own sizes."""

    def update(self, key: ctypes._CData, value: ctypes._CData) -> None:
        """Inserts or replaces; OSError where the kernel refuses."""

    def push(self, value: ctypes._CData) -> None:
        """Puts a value on a stack; OSError where the kernel refuses."""

    def delete(self, key: bytes) -> bool:
        """Whether the key was there."""

    def lookup(self, key: bytes) -> bytes | None:
        """The value of a key; None where it isn't there."""

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """All pairs of a hash map."""

    def views(self) -> Iterator[tuple[bytes, memoryview]]:
        """All pairs of a hash map, each value only valid until the next pair is asked for."""


class Loadable(Protocol):
    """Programs and maps. `sessions`: whether the programs can be attached as uprobe sessions."""

    sessions: bool

    def program_names(self) -> Sequence[str]:
        """All programs."""

    def choose_program(self, name: str, *, load: bool, attach_type: int = 0, group: str = "") -> None:
        """Before loading: whether the program is loaded, and for which BPF_TRACE_* attachment. Those of a `group` may be loaded
        when the descriptor of one of them is asked for."""

    def resize_map(self, name: str, entries: int) -> None:
        """Before loading: the number of entries the map is made for."""

    def reuse_map(self, name: str, descriptor: int) -> None:
        """Before loading: has the one with this descriptor stand for the map of that name."""

    def section(self, name: str, kind: type[ctypes.Structure]) -> ctypes.Structure:
        """Before loading: the initial value of a data section."""

    def load(self) -> None:
        """Makes the maps and loads the programs; SsllatencyError where the kernel refuses."""

    def live_section(self, name: str, kind: type[ctypes.Structure]) -> ctypes.Structure:
        """After loading: the memory of a section or mmapable array, as the programs use it."""

    def map(self, name: str, key_size: int, value_size: int) -> LoadedMap:
        """After loading: a map by its name; sizes in bytes."""

    def has_map(self, name: str) -> bool:
        """Whether there is a map of that name."""

    def map_fd(self, name: str) -> int:
        """After loading: the map's descriptor."""

    def program_fd(self, name: str) -> int:
        """After loading: the program's descriptor. SsllatencyError where it is of a group that the kernel refuses."""

    @property
    def late_programs(self) -> Sequence[str]:
        """After loading: those of groups that have been loaded since."""

    def close(self) -> None:
        """Frees programs and maps; may be called twice."""
