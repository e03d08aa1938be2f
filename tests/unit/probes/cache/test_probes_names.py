# SPDX-License-Identifier: Apache-2.0
"""The cache of names: what it returns is what the file says, and nothing odd makes it fail."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests import programs
from tests.fixtures import build
from tests.unit.probes.cache.cached import Asker, code_that_asks
from tests.unit.probes.cache.fresh import printed

from ssllatency.elf.image import Image
from ssllatency.probes.cache.names import from_values, to_values
from ssllatency.stacks.names import Names
from ssllatency.stacks.openssl.names.library import names

KNOWN = Names(
    reasons={(20, 193): "no shared cipher"},
    alerts={40: "handshake failure"},
    major=1,
    curves={23: 415},
    objects={415: "prime256v1"},
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    programs.needed(*build.TOOLS)
    return build.library(tmp_path_factory.mktemp("names"), "libnames.so", ["names.c"])


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir(mode=0o700)
    return tmp_path / "home" / "cache"


def ask(library: Path, directory: Path, *roots: str) -> tuple[Names, bool]:
    return Asker(directory, roots or ("/",)).names(library)


def only_entry(directory: Path) -> Path:
    (entry,) = directory.iterdir()
    return entry


def test_second_time_comes_from_the_cache(library: Path, directory: Path) -> None:
    fresh, kept = ask(library, directory)
    assert not kept
    assert fresh == names(Image.open(library))
    assert ask(library, directory) == (fresh, True)


def test_loading_brings_neither_parser_nor_decoder(library: Path, directory: Path) -> None:
    ask(library, directory)
    code = code_that_asks("NAMES", library, directory)
    assert printed(code + "print(found.reasons[20, 193])") == ["no", "shared", "cipher"]


def test_other_contents_are_other_names(library: Path, directory: Path, tmp_path: Path) -> None:
    ask(library, directory)
    other = tmp_path / "other.so"
    other.write_bytes(library.read_bytes() + b"\0")
    assert not ask(other, directory)[1]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"names": {}}', b'{"build_id": 1, "debug": null, "parts": {}}', b"x" * (2 << 20)],
    ids=["empty", "cut", "list", "parts", "kinds", "large"],
)
def test_damaged_entry_is_made_again_and_replaced(library: Path, directory: Path, content: bytes) -> None:
    fresh, _ = ask(library, directory)
    only_entry(directory).write_bytes(content)
    assert ask(library, directory) == (fresh, False)
    assert ask(library, directory) == (fresh, True)


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        ("major", 2),
        ("major", True),
        ("major", [3]),
        ("alerts", {}),
        ("alerts", [[40]]),
        ("alerts", [["40", "handshake failure"]]),
        ("alerts", [[-1, "below"]]),
        ("alerts", [[1 << 32, "above"]]),
        ("alerts", [[True, "true"]]),
        ("alerts", [[40, "\x1b[31m"]]),
        ("alerts", [[40, "x" * 300]]),
        ("alerts", [[40, None]]),
        ("reasons", [[193, "no shared cipher"]]),
        ("curves", [[23, "secp256r1"]]),
        ("objects", [[415, 23]]),
        ("objects", None),
    ],
)
def test_values_that_are_no_names_are_read_anew(library: Path, directory: Path, table: str, rows: object) -> None:
    fresh, _ = ask(library, directory)
    entry = only_entry(directory)
    values = json.loads(entry.read_text())
    values["parts"]["names"][table] = rows
    entry.write_text(json.dumps(values))
    assert ask(library, directory) == (fresh, False)


def test_values_and_back() -> None:
    assert from_values(json.loads(json.dumps(to_values(KNOWN)))) == KNOWN


def test_debug_file_that_comes_or_changes_is_looked_at(library: Path, directory: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    build_id = Image.open(library).build_id
    debug = root / "usr/lib/debug/.build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    again = [ask(library, directory, str(root))[1] for _ in range(2)]
    debug.parent.mkdir(parents=True)
    build.run("objcopy", "--only-keep-debug", library, debug)
    again += [ask(library, directory, str(root))[1] for _ in range(2)]
    os.utime(debug, (1, 1))
    again += [ask(library, directory, str(root))[1] for _ in range(2)]
    assert again == [False, True] * 3


def test_folder_that_others_may_write_to_is_not_used(library: Path, directory: Path) -> None:
    ask(library, directory)
    directory.chmod(0o777)
    assert not ask(library, directory)[1]


def test_without_build_id_nothing_is_kept(directory: Path, tmp_path: Path) -> None:
    plain = build.library(tmp_path, "plain.so", ["names.c"], "-Wl,--build-id=none")
    assert not ask(plain, directory)[1]
    assert not ask(plain, directory)[1]
