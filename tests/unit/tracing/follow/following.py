# SPDX-License-Identifier: Apache-2.0
"""A follower whose session and whose kernel are played."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from ssllatency.engines.base import TracedImage
from ssllatency.engines.bpf.kernel import Method
from ssllatency.engines.follow.following import Arrival
from ssllatency.engines.follow.mappings import MappingNotice
from ssllatency.model.snapshot import Target
from ssllatency.probes.plan import FilePlan
from ssllatency.targets import MappedFile, Selection
from ssllatency.tracing import follow
from ssllatency.tracing.follow import Follower
from ssllatency.tracing.late import files, new_files, notes, on_disk, targets, waiting
from ssllatency.tracing.resolve import Resolved

OLD, NEW = 100, 101  # processes


def mapped_file(inode: int, path: str = "/usr/lib/libssl.so.3") -> MappedFile:
    return MappedFile(path, (8, 1), inode, "1000-2000", False)


def image_of(file: MappedFile, descriptor: int, *pids: int) -> TracedImage:
    plan = FilePlan(file.path, "aa", "OpenSSL 3.0", "libssl", (), ())
    return TracedImage(plan, f"/proc/self/fd/{descriptor}", pids)


@dataclass
class Kernel:
    """What the kernel would tell of processes and their mappings."""

    maps: dict[int, list[MappedFile]] = field(default_factory=dict)
    told: list[MappingNotice] = field(default_factory=list)
    deaf: int = 0  # so often nothing is told yet
    lost: int = 0
    sees_mappings: bool = True
    found_late: set[int] = field(default_factory=set)  # whom the next look adds to the set
    started: dict[int, Arrival] = field(default_factory=dict)  # children that it tells of, where it was asked to
    tells_of_children: bool = False
    watched: set[int] = field(default_factory=set)  # whose children it tells of where everyone is traced
    others: set[int] = field(default_factory=set)  # who isn't in the set
    by_others: list[MappingNotice] = field(default_factory=list)
    counters: Any = field(default_factory=lambda: SimpleNamespace(joined=0, dropped=0))

    def tell_of_children(self) -> None:
        self.tells_of_children = True

    def watch(self, pid: int) -> None:
        self.watched.add(pid)

    def joined(self) -> dict[int, Arrival]:
        started, self.started = self.started, {}
        return started

    def mapped(self) -> list[MappingNotice]:
        self.deaf -= 1
        if self.deaf >= 0:
            return []
        told, self.told = self.told, []
        self.by_others = [mapping for mapping in told if mapping.pid in self.others]
        return [mapping for mapping in told if mapping.pid not in self.others]

    def has_been(self, pid: int) -> bool:
        return pid not in self.others

    def alive(self) -> list[int]:
        return [pid for pid in self.maps if pid not in self.others]

    def refill(self, has_begun: Callable[[int], bool]) -> set[int]:
        found, self.found_late = self.found_late, set()
        return {pid for pid in found if has_begun(pid)}

    def cgroup_is_new(self) -> bool:
        return False

    def map(self, pid: int, file: MappedFile) -> None:
        """A process maps a file, and the kernel tells of it."""
        self.maps.setdefault(pid, []).append(file)
        self.told.append(MappingNotice(pid, 1, file.path, file.identity))


class Session:
    """The session of these images, and a Follower of it that may look as often as it likes."""

    def __init__(
        self,
        kernel: Kernel,
        files: Sequence[MappedFile],
        selection: Selection,
        *,
        alone: bool = False,
        waits: bool = False,
        sites: int | None = 4096,
        method: Method = Method.MULTI,
        source: Any = None,
    ) -> None:
        images = [image_of(file, number, OLD) for number, file in enumerate(files)]
        self.included: list[tuple[int, list[int]]] = []
        self.released: list[int] = []
        self.extended: list[TracedImage] = []
        self.admitted: list[int] = []
        self.overwritten: list[TracedImage] = []
        self.copied: list[int] = []
        self.perhaps_copied: list[int] = []
        self.attachment: Any = SimpleNamespace(
            targets={OLD: Target(OLD, "nginx", ())},
            following=kernel,
            unfollowed="",
            notes=[],
            late=set(),
            images=images,
            each_process=alone,
            method=method,
            processes=SimpleNamespace(meter=None, release=self.released.extend, note_mapping=lambda *_: None),
            site_in=lambda _: sites,
            admit=self._admit,
            leave_overwritten=lambda: self.overwritten.copy(),
            leave_copied=lambda: [self.copied.pop()] if self.copied else [],
            perhaps_copied=lambda: [self.perhaps_copied.pop()] if self.perhaps_copied else [],
            may_link_each=True,
            has_own_links=lambda number: alone or images[number].own_links,
        )
        everyone = selection.everything or bool(selection.libraries)
        resolved = Resolved(tuple(images), (), everyone, (), source, tuple(files), selection, waits=waits)
        self._stack = ExitStack()
        self._follower = Follower(self, resolved, self._stack, self._extend)

    @property
    def arrived(self) -> bool:
        return self._follower.arrived

    @property
    def spared(self) -> int:
        return self._follower.spared

    @property
    def refused(self) -> int:
        return self._follower.refused

    @property
    def anyone_left(self) -> bool:
        return self._follower.anyone_left()

    def include(self, index: int, pids: Sequence[int]) -> None:
        self.included.append((index, list(pids)))

    def _admit(self, pid: int) -> None:
        self.admitted.append(pid)

    def _extend(self, images: Sequence[TracedImage]) -> None:
        self.extended += images
        self.attachment.images += images

    def close(self) -> None:
        self._stack.close()

    def look(self) -> None:
        """Several times, as if a second had passed before each."""
        for _ in range(3):
            self._follower._times._looked_at = 0.0
            self._follower.look()


def play(monkeypatch: pytest.MonkeyPatch, name: str, value: object) -> None:
    """Has the follower's modules use this in place of what they call by that name."""
    modules = [module for module in (follow, files, new_files, notes, on_disk, targets, waiting) if hasattr(module, name)]
    assert modules
    for module in modules:
        monkeypatch.setattr(module, name, value)
