# SPDX-License-Identifier: Apache-2.0
"""docs/architecture.md and its picture name the rooms and files that there are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
PACKAGE = TOP / "python" / "ssllatency"
PAGE = (TOP / "docs" / "architecture.md").read_text()
ROOMS = {folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").exists()}


def cells(heading: str) -> list[list[str]]:
    """The rows of the table that begins with this heading."""
    table = PAGE[PAGE.index(heading) :].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_every_room_has_its_row_and_its_box() -> None:
    assert {row[0].strip("`") for row in cells("| room | what enters")} == ROOMS
    boxes = set(re.findall(r"<b>(\w+)</b>", (TOP / "docs" / "architecture.dot").read_text()))
    drawn = (TOP / "docs" / "architecture.svg").read_text()
    assert boxes == ROOMS
    assert all(f">{room}<" in drawn for room in ROOMS)


def test_every_inner_room_is_named() -> None:
    for room, inner in cells("| room | its rooms"):
        folders = {folder.parent.name for folder in (PACKAGE / room.strip("`")).glob("*/__init__.py")}
        assert folders <= set(re.findall(r"`(\w+)`", inner)), room
    with_inner = {path.relative_to(PACKAGE).parts[0] for path in PACKAGE.glob("*/*/__init__.py")}
    assert with_inner == {room.strip("`") for room, _ in cells("| room | its rooms")}


def test_every_path_exists() -> None:
    paths = re.findall(r"`([\w./]+(?:\.(?:py|h|c|md|toml)|/))`", PAGE)
    assert len(paths) > 40
    known = (TOP, PACKAGE, PACKAGE / "code")
    assert [path for path in paths if not any((folder / path).exists() for folder in known)] == []


def crowded(folders: Iterable[Path]) -> dict[str, int]:
    """The folders that show more than fifteen files, beside their __init__.py, and how many they show."""
    files = {folder: [file.name for file in folder.iterdir() if file.is_file()] for folder in folders}
    shown = {folder: len([name for name in names if name != "__init__.py"]) for folder, names in files.items()}
    return {str(folder.relative_to(TOP)): number for folder, number in shown.items() if number > 15}


def test_no_room_shows_more_than_fifteen_files() -> None:
    assert crowded([PACKAGE, *(path.parent for path in PACKAGE.rglob("__init__.py"))]) == {}


def test_no_folder_of_tests_shows_more_than_fifteen_files() -> None:
    folders = [folder for folder in (TOP / "tests").rglob("*") if folder.is_dir() and folder.name != "__pycache__"]
    assert len(folders) > 20
    assert crowded([TOP / "tests", *folders]) == {}
