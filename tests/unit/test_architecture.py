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


# Two words of a sentence, as in "isn't traced".
PROSE = re.compile(r"[a-z'] [a-z]")
# Sentences of other programs and libraries, which say in no other way what was the matter; and an error's own, set otherwise.
OF_OTHERS = {
    ("cli/command_line.py", "-p/--pid: expected one argument"),  # argparse
    ("cli/command_line.py", r"invalid choice: '([^']*)' \(choose from (.*)\)"),
    ("cli/command_line.py", r"unrecognized arguments: (-\S+)"),
    ("engines/bpftrace/process.py", r"bpftrace v(\d+)\.(\d+)"),
    ("cli/options.py", "expert options"),  # argparse's groups have no other name than their title
    ("cli/command_line.py", "start new thread"),  # Python, where it may start none
    ("targets/childless.py", "Max processes "),  # /proc/PID/limits
    ("load/tools/ab.py", "Complete requests"),
    ("load/tools/ab.py", "This is ApacheBench"),
    ("load/tools/h2load.py", "starting benchmark"),
    ("load/tools/wrk.py", "Thread calibration"),
}
SET_OTHERWISE = {
    ("errors.py", "rstrip"),  # without its full stop
    ("tracing/file_facts.py", "replace"),  # what it is about, without the path
    ("errors.py", "split"),  # on one line
    ("export/serve/web_config.py", "split"),
    ("elf/headers.py", "in"),  # pyelftools' own
    ("cli/command_line.py", "in"),  # Python's own
}
TOLD_BY = (ast.In, ast.NotIn, ast.Eq, ast.NotEq)


def told_by_sentences(source: str) -> tuple[set[str], set[str]]:
    """The sentences by which this source tells cases apart, and how it takes the text of errors apart."""
    tree = ast.parse(source)
    caught = {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)} | {"error", "reason"}

    def says(node: ast.AST) -> bool:
        """Whether it is the text of an error."""
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("str", "phrase")):
            return False
        return any(isinstance(argument, ast.Name) and argument.id in caught for argument in node.args)

    named = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def prose(nodes: Iterable[ast.AST]) -> set[str]:
        """The sentences in these, also where a constant of the module has them."""
        parts = [part for node in nodes for part in ast.walk(node)]
        meant = [named.get(part.id, part) if isinstance(part, ast.Name) else part for part in parts]
        texts = (each.value for each in meant if isinstance(each, ast.Constant))
        return {text for text in texts if isinstance(text, str) and PROSE.search(text)}

    sentences, errors = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TAKING_APART | {"replace"}:
            sentences |= prose(node.args[: 1 if node.func.attr == "replace" else None])
            errors |= {node.func.attr} if says(node.func.value) else set()
        elif isinstance(node, ast.Compare) and any(isinstance(way, TOLD_BY) for way in node.ops):
            sides = [node.left, *node.comparators]
            sentences |= prose(side for side in sides if isinstance(side, ast.Constant | ast.Name))
            errors |= {"in"} if any(map(says, sides)) else set()
    return sentences, errors


def test_no_room_tells_cases_apart_by_sentences() -> None:
    told, errors = set(), set()
    for file in PACKAGE.rglob("*.py"):
        name, found = file.relative_to(PACKAGE).as_posix(), told_by_sentences(file.read_text())
        told |= {(name, sentence) for sentence in found[0]}
        errors |= {(name, way) for way in found[1]}
    assert told == OF_OTHERS
    assert errors == SET_OTHERWISE
    assert told_by_sentences("if why.endswith(\"isn't traced\") or why == 'not in it': pass")[0] == {
        "isn't traced",
        "not in it",
    }
    assert told_by_sentences("WHY = 'not in it'\nif why.startswith(WHY): pass")[0] == {"not in it"}
    assert told_by_sentences("str(error).partition(':')")[1] == {"partition"}


# A docstring says what its subject does, or is, with an imperative or a noun phrase: not "What it does", "Where it is". It is
# read by itself, as a tooltip or by help(): not "The same for all", whose first half is another's. Those of predicates may
# begin with "Whether".
RELATIVE_CLAUSES = ("What ", "Where ", "When ", "Why ", "How ", "As ", "That ", "Who ", "Whose ", "Whom ", "Which ")
OF_ANOTHER = ("The same", "Same ", "Ditto")


def relative_clauses(source: str) -> list[str]:
    """The first lines of docstrings that are relative clauses, or continue another docstring."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    said = [ast.get_docstring(node) or "" for node in ast.walk(ast.parse(source)) if isinstance(node, documented)]
    return [text.splitlines()[0] for text in said if text.startswith(RELATIVE_CLAUSES + OF_ANOTHER)]


def test_docstrings_begin_with_an_imperative_or_a_noun_phrase() -> None:
    found = {file.relative_to(PACKAGE).as_posix(): relative_clauses(file.read_text()) for file in PACKAGE.rglob("*.py")}
    assert {name: lines for name, lines in found.items() if lines} == {}
    assert relative_clauses('def f():\n    """What it does."""') == ["What it does."]
    assert relative_clauses('class Side:\n    """Whose it is."""') == ["Whose it is."]
    assert relative_clauses('def g():\n    """The same for all."""') == ["The same for all."]


def test_no_room_shows_more_than_fifteen_files() -> None:
    assert crowded([PACKAGE, *(path.parent for path in PACKAGE.rglob("__init__.py"))]) == {}


def test_no_folder_of_tests_shows_more_than_fifteen_files() -> None:
    folders = [folder for folder in (TOP / "tests").rglob("*") if folder.is_dir() and folder.name != "__pycache__"]
    assert len(folders) > 20
    assert crowded([TOP / "tests", *folders]) == {}


# What one class keeps of a run: beyond so many attributes its lifecycle is split, and what is only passed through isn't kept.
MOST_ATTRIBUTES = 15


def attributes(source: str) -> dict[str, int]:
    """By class, how many attributes its methods set."""
    kept: dict[str, int] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
            stored = (part for method in methods for part in ast.walk(method) if isinstance(part, ast.Attribute))
            names = {part.attr for part in stored if isinstance(part.ctx, ast.Store) and ast.unparse(part.value) == "self"}
            kept[node.name] = max(len(names), kept.get(node.name, 0))
    return kept


def test_no_class_keeps_more_than_fifteen_attributes() -> None:
    kept = [attributes(file.read_text()) for file in PACKAGE.rglob("*.py")]
    large = {name: count for classes in kept for name, count in classes.items() if count > MOST_ATTRIBUTES}
    assert large == {}
    assert attributes("class A:\n    def f(self):\n        self.a, self.b = self.c, 1") == {"A": 2}


# One word for one thing.
# Records of the kernel side bear its names, as do the types that are made of them.
GENERATED = "abi.py"


def classes(source: str) -> set[str]:
    """The classes that other modules may use."""
    return {node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")}


def test_no_class_name_stands_for_two_things() -> None:
    homes: dict[str, list[str]] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        for name in classes(file.read_text()) if file.name != GENERATED else ():
            homes.setdefault(name, []).append(file.relative_to(PACKAGE).as_posix())
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}
    assert classes("class A:\n    class B: pass\nclass _C: pass") == {"A"}
