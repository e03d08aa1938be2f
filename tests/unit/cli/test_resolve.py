# SPDX-License-Identifier: Apache-2.0
"""From found files to planned ones: what a process unloads in between is left out, and told in a sentence."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ssllatency.elf.source import ElfError
from ssllatency.errors import SsllatencyError
from ssllatency.probes.plan import ImagePlan
from ssllatency.targets import TracedFile, mapped_files
from ssllatency.tracing import resolve

Found = Callable[[str], tuple[TracedFile, Callable[[], None]]]


class Source:
    """Plans every file alike, but for those called "damaged"."""

    def plan(self, path: str, label: str, _root: str) -> ImagePlan:
        assert Path(path).read_bytes()
        if "damaged" in label:
            raise ElfError(f"{label} is damaged.")
        return ImagePlan(label, "", "", "libssl", (), ())


SOURCE: Any = Source()


@pytest.fixture
def found(tmp_path: Path) -> Iterator[Found]:
    """found(name): a file that this process maps as code, and what unloads it."""
    with ExitStack() as stack:

        def make(name: str) -> tuple[TracedFile, Callable[[], None]]:
            path = tmp_path / name
            path.write_bytes(b"x" * mmap.PAGESIZE)
            fd = os.open(path, os.O_RDONLY)
            mapping = mmap.mmap(fd, mmap.PAGESIZE, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
            os.close(fd)
            stack.callback(mapping.close)
            (mapped,) = [file for file in mapped_files(os.getpid()) if file.path == str(path)]
            return TracedFile("libssl", os.getpid(), mapped, (os.getpid(),)), mapping.close

        yield make


def test_a_file_that_is_unloaded_before_it_is_opened_is_left_out(found: Found) -> None:
    (kept, _), (gone, unload), (damaged, _) = (found(name) for name in ("kept.so", "gone.so", "damaged.so"))
    unload()
    told: list[str] = []
    with ExitStack() as stack:
        opened = resolve._opened([gone, kept, damaged], SOURCE, stack, lambda error: told.append(str(error)))
        assert [(file, image.plan.path) for file, image in opened] == [(kept, kept.path)]
    assert told == [
        f"No process maps {gone.path} any more: it was unloaded, or its processes have ended, meanwhile.",
        f"{damaged.path} is damaged.",
    ]


def test_where_nothing_else_was_asked_for_it_is_an_error(found: Found) -> None:
    gone, unload = found("gone.so")
    unload()
    with ExitStack() as stack, pytest.raises(SsllatencyError, match="any more: it was unloaded"):
        resolve.open_images([gone], SOURCE, stack)
