# SPDX-License-Identifier: Apache-2.0
"""docs/internals/architecture.md and its picture name the rooms and files that there are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
PACKAGE = TOP / "python" / "ssllatency"
PAGE = (TOP / "docs" / "internals" / "architecture.md").read_text()
ROOMS = {folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").exists()}


def cells(heading: str) -> list[list[str]]:
    """The rows of the table that begins with this heading."""
    table = PAGE[PAGE.index(heading) :].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_every_room_has_its_row_and_its_box() -> None:
    assert {row[0].strip("`") for row in cells("| room | what enters")} == ROOMS
    boxes = set(re.findall(r"<b>(\w+)</b>", (TOP / "docs" / "internals" / "architecture.dot").read_text()))
    drawn = (TOP / "docs" / "internals" / "architecture.svg").read_text()
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


# What takes a text apart. Where a layout needs it, a fact is missing in the rows that it lays out.
TAKING_APART = {
    *("split", "rsplit", "splitlines", "partition", "rpartition", "strip", "lstrip", "rstrip", "removeprefix", "removesuffix"),
    *("find", "rfind", "index", "rindex", "startswith", "endswith", "match", "fullmatch", "search", "findall", "finditer"),
}
# The layouts' own work on characters: how numbers and names are set, a plotting library's SVG, and the end of a line.
ON_CHARACTERS = {"html/words.py", "html/plots/svg.py"}
ENDS_OF_LINES = {("text/page.py", "rstrip")}


def taken_apart(source: str) -> set[str]:
    """The methods that take text apart which this source calls."""
    calls = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return {function.attr for function in calls if isinstance(function, ast.Attribute)} & TAKING_APART


def test_layouts_take_no_text_apart() -> None:
    reports = PACKAGE / "reports"
    files = [file for room in ("text", "html") for file in (reports / room).rglob("*.py")]
    assert len(files) > 25
    places = {(file.relative_to(reports).as_posix(), method) for file in files for method in taken_apart(file.read_text())}
    assert {place for place in places if place[0] not in ON_CHARACTERS} == ENDS_OF_LINES
    assert taken_apart("words = why(cause).removeprefix(ending)") == {"removeprefix"}


def test_no_room_shows_more_than_fifteen_files() -> None:
    assert crowded([PACKAGE, *(path.parent for path in PACKAGE.rglob("__init__.py"))]) == {}


def test_no_folder_of_tests_shows_more_than_fifteen_files() -> None:
    folders = [folder for folder in (TOP / "tests").rglob("*") if folder.is_dir() and folder.name != "__pycache__"]
    assert len(folders) > 20
    assert crowded([TOP / "tests", *folders]) == {}
