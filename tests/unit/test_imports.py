# SPDX-License-Identifier: Apache-2.0
"""What files import of this checkout is there: in every Python file, also in those that no test runs and mypy doesn't read, as
the programs without a suffix, the benchmarks, the examples, and what runs in guests alone."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
PLACES = {"ssllatency": TOP / "python", "tests": TOP, "install": TOP, "bench": TOP}
FOLDERS = ("python", "tests", "bench", "tools", "install", "examples", "bpf")


def is_python(file: Path) -> bool:
    if file.suffix or not file.is_file():
        return file.suffix == ".py"
    with file.open("rb") as opened:
        return b"python" in opened.readline()


def source_of(module: str) -> Path | None:
    """The file of a module, its folder where it is a package without one; None where there is neither."""
    path = PLACES[module.split(".")[0]].joinpath(*module.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py", path)
    return next((candidate for candidate in candidates if candidate.exists()), None)


@cache
def names_of(source: Path) -> set[str]:
    """What a module defines or imports."""
    if source.is_dir():
        return set()
    symbols = symtable.symtable(source.read_text(), str(source), "exec").get_symbols()
    return {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()}


def imports(tree: ast.AST) -> Iterator[tuple[str, list[str]]]:
    """The modules of this checkout that are imported, each with the names that are taken of it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names if alias.name.split(".")[0] in PLACES)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in PLACES and not node.level:
            yield node.module, [alias.name for alias in node.names]


def missing(tree: ast.AST) -> list[str]:
    """The modules and names that are imported and aren't there."""
    absent = []
    for module, names in imports(tree):
        source = source_of(module)
        if source is None:
            absent.append(module)
            continue
        absent += [f"{module}.{name}" for name in names if name not in names_of(source) and not source_of(f"{module}.{name}")]
    return absent


def test_all_that_is_imported_is_there() -> None:
    files = [file for folder in FOLDERS for file in (TOP / folder).rglob("*") if is_python(file)]
    assert {TOP / "tools/demo", TOP / "tests/kernels/guest/ssllatency"} <= set(files)
    assert {str(file): absent for file in files if (absent := missing(ast.parse(file.read_text())))} == {}


def test_what_is_missing_is_named() -> None:
    source = "import tests.nowhere\nfrom ssllatency.errors import Nothing\nfrom ssllatency import absent, elf\n"
    assert missing(ast.parse(source)) == ["tests.nowhere", "ssllatency.errors.Nothing", "ssllatency.absent"]
