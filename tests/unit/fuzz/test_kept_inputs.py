# SPDX-License-Identifier: Apache-2.0
"""The inputs that are kept for fuzzing: every one holds, and they are few and small; how they are chosen and written."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests import programs
from tests.fuzz.keeping import keep, kept
from tests.fuzz.keeping.coverage import Coverage, chosen
from tests.fuzz.targets import ROOM_OF, TARGETS, Target
from tests.parameters import slow_except

MOST_BYTES = 1_000_000


@pytest.mark.parametrize("target", slow_except(TARGETS, *(target for target in TARGETS if target != "unnamed")))
def test_invariants_hold_of_what_is_kept(target: str, tmp_path: Path) -> None:
    inputs = kept.read(kept.file_of(ROOM_OF[target], target))
    assert inputs, "make fuzz, then make fuzz-keep"
    programs.needed(*TARGETS[target].programs)
    check, _ = TARGETS[target].make(tmp_path)
    for data in inputs:
        assert len(data) <= TARGETS[target].most_bytes
        check(data)


def test_what_is_kept_is_small_and_belongs_to_a_target() -> None:
    files = [path for path in kept.FOLDER.rglob("*") if path.is_file()]
    assert {(path.parent.name, path.stem) for path in files} <= {(ROOM_OF[name], name) for name in TARGETS}
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    assert all(text.isascii() for text in (path.read_text() for path in files))


@pytest.mark.parametrize(
    "data", [b"", b"text\n\x00\x1b", "\u202e".encode(), b"\xff\xfe", bytes(9000), random.Random(1).randbytes(99)]
)
def test_an_input_is_read_as_it_was(data: bytes, tmp_path: Path) -> None:
    file = kept.file_of("texts", "one", tmp_path)
    assert kept.write(file, [data, b"another"]) == 2
    assert kept.read(file) == [data, b"another"]
    assert len(file.read_text().splitlines()) == 2


def test_no_more_than_there_is_room_for(tmp_path: Path) -> None:
    large = random.Random(1).randbytes(kept.MOST_BYTES // 2)
    file = kept.file_of("binaries", "one", tmp_path)
    assert kept.write(file, [large, large[::-1], b"small"]) == 2
    assert kept.read(file) == [large, b"small"]
    assert kept.write(file, []) == 0
    assert kept.read(file) == []


def first_is(data: bytes) -> str:
    if data.startswith(b"a"):
        return "a"
    if data.startswith(b"b"):
        if data.endswith(b"z"):
            return "b and z"
        return "b"
    return "other"


def test_coverage_is_which_lines_follow_which() -> None:
    coverage = Coverage(__file__)
    steps = {data: coverage.of(first_is, data) for data in (b"a", b"ac", b"b", b"c")}
    assert steps[b"a"] == steps[b"ac"]
    assert len({frozenset(each) for each in steps.values()}) == 3
    assert not Coverage("/elsewhere").of(first_is, b"a")


def test_the_fewest_inputs_are_chosen() -> None:
    one, two, three = ((0, 0, line) for line in (1, 2, 3))
    stay, new = chosen(
        [one], [frozenset([one]), frozenset([one, two])], [frozenset([two]), frozenset([three]), frozenset([two, three])]
    )
    assert (stay, new) == ([1], [1])
    assert chosen([], [], [frozenset([one]), frozenset([one, two, three]), frozenset([three])]) == ([], [1])


def test_what_is_learned_is_kept_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(keep.TARGETS, "one", Target(lambda _: (first_is, [b"c"]), 1))
    monkeypatch.setitem(keep.ROOM_OF, "one", "texts")
    monkeypatch.setattr(keep, "_PACKAGE", __file__)
    learned, corpus = tmp_path / "learned", tmp_path / "corpus"
    learned.mkdir()
    for number, data in enumerate((b"abc", b"a", b"c", b"d", b"b", b"bz")):
        (learned / str(number)).write_bytes(data)
    assert keep.keep("one", learned, corpus) == (0, 3, 0)
    assert kept.read(kept.file_of("texts", "one", corpus)) == [b"b", b"a", b"bz"]
    assert keep.keep("one", learned, corpus) == (3, 3, 0)
    assert keep.keep("one", tmp_path / "none", corpus) == (3, 3, 0)
