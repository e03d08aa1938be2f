# SPDX-License-Identifier: Apache-2.0
"""The folder of recordings: whole files of its owner's alone, the oldest removed, nothing else touched."""

from __future__ import annotations

import os
import re
from datetime import datetime
from pathlib import Path

import pytest

from ssllatency.errors import SsllatencyError
from ssllatency.output import folder as output_folder
from ssllatency.output.folder import Folder, recordings_near

OLD = [f"ssllatency-2020010{number}T000000Z.jsonl" for number in range(1, 6)]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_each_has_a_name_by_its_time(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "new"), 5, 1 << 20)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    paths = [folder.keep(text) for text in ("first", "second", "third")]
    assert [path.read_text() for path in paths] == ["first", "second", "third"]
    assert all(re.fullmatch(r"ssllatency-\d{8}T\d{6}Z(-\d)?\.jsonl", path.name) for path in paths)
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in paths)
    assert names(tmp_path / "new") == sorted(path.name for path in paths)


def test_the_oldest_make_room_and_nothing_else_goes(tmp_path: Path) -> None:
    others = ["ssllatency-20200101T000000Z.jsonl.bak", "notes.txt", "ssllatency-2020.jsonl"]
    for name in (*OLD, *others):
        (tmp_path / name).write_text("old")
    (tmp_path / "ssllatency-20190101T000000Z.jsonl").symlink_to("notes.txt")
    (tmp_path / "ssllatency-20180101T000000Z.jsonl").mkdir()
    newest = Folder(str(tmp_path), 3, 1 << 20).keep("new")
    left = {*others, "ssllatency-20190101T000000Z.jsonl", "ssllatency-20180101T000000Z.jsonl", *OLD[3:], newest.name}
    assert set(names(tmp_path)) == left


def test_they_are_bounded_in_bytes_but_for_the_newest(tmp_path: Path) -> None:
    for name in OLD:
        (tmp_path / name).write_text("x" * 100)
    folder = Folder(str(tmp_path), 100, 350)
    newest = folder.keep("y" * 100)
    assert names(tmp_path) == [*OLD[3:], newest.name]
    large = folder.keep("z" * 1000)
    assert names(tmp_path) == [large.name]


def test_where_all_names_of_a_second_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_folder, "_MOST_OF_A_SECOND", 0)
    with pytest.raises(SsllatencyError, match="has 0 of that second already"):
        Folder(str(tmp_path), 5, 1 << 20).keep("one more")
    assert names(tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_of_others_stay(tmp_path: Path) -> None:
    for name in OLD:
        (tmp_path / name).write_text("theirs")
        os.chown(tmp_path / name, 65534, 65534)
    Folder(str(tmp_path), 1, 1 << 20).keep("ours")
    assert set(OLD) < set(names(tmp_path))


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("file", "no/such/folder"):
        with pytest.raises(SsllatencyError, match="can't be written"):
            Folder(str(tmp_path / name), 5, 1 << 20)
    folder = Folder(str(tmp_path / "gone"), 5, 1 << 20)
    (tmp_path / "gone").rmdir()
    with pytest.raises(SsllatencyError, match="can't be written"):
        folder.keep("text")


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (None, [4]),
        ("2020-01-03T00:00:00Z", [2, 1]),
        ("2020-01-03T12:00:00Z", [3, 2]),
        ("2019-01-01T00:00:00Z", [0]),
        ("2021-01-01T00:00:00Z", [4]),
    ],
)
def test_the_recording_of_a_time_is_the_next_or_the_one_before(tmp_path: Path, time: str | None, expected: list[int]) -> None:
    for name in (*OLD, "notes.txt"):
        (tmp_path / name).write_text("")
    found = recordings_near(str(tmp_path), at(time) if time else None)
    assert found == [str(tmp_path / OLD[number]) for number in expected]


def test_a_folder_without_recordings_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(SsllatencyError, match="has no file that is named as `ssllatency watch` names recordings"):
        recordings_near(str(tmp_path), None)
