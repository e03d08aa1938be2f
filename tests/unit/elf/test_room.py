# SPDX-License-Identifier: Apache-2.0
"""What a file may take follows the limits of our own control groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ssllatency.elf import room, source
from ssllatency.elf.room import memory_limit, most_copied, most_parsed
from ssllatency.elf.source import ElfError, ElfSource

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    for asked in (most_copied, most_parsed):
        asked.cache_clear()
    yield
    for asked in (most_copied, most_parsed):
        asked.cache_clear()


def limit(tmp_path: Path, lines: str) -> int | None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(lines)
    return memory_limit(tmp_path / "proc", tmp_path / "cgroups")


def test_the_least_limit_on_the_way_up_counts(tmp_path: Path) -> None:
    for folder, text in (("a/b", "max\n"), ("a", "1048576\n"), ("", "9999999\n")):
        (tmp_path / "cgroups" / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "cgroups" / folder / "memory.max").write_text(text)
    assert limit(tmp_path, "0::/a/b\n") == MIB


def test_version_1_has_it_in_a_hierarchy_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "cgroups/memory/a"
    folder.mkdir(parents=True)
    (folder / "memory.limit_in_bytes").write_text("2097152\n")
    assert limit(tmp_path, "3:cpu,cpuacct:/a\n2:memory:/a\n") == 2 * MIB


@pytest.mark.parametrize("lines", ["", "0::/nowhere\n", "what\n"])
def test_there_may_be_none(tmp_path: Path, lines: str) -> None:
    assert limit(tmp_path, lines) is None
    assert memory_limit(tmp_path / "nothing", tmp_path) is None


def test_files_get_a_part_of_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(room, "memory_limit", lambda: 1 << 30)
    assert most_copied() == most_parsed() == 128 * MIB
    with (tmp_path / "large").open("wb") as file:
        file.truncate(128 * MIB + 1)
    with pytest.raises(ElfError, match=r"lib is larger than 128 MiB, more than is read of a file that may be traced\."):
        ElfSource.copied(tmp_path / "large", "lib")
    assert source.most_copied is most_copied


def test_without_a_limit_it_is_a_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "memory_limit", lambda: None)
    assert most_copied() == most_parsed() == 1 << 30
