# SPDX-License-Identifier: Apache-2.0
"""The runner of tests/fuzz: what it counts, and that it fails where an invariant is broken, or an input takes too long."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fuzz import running
from tests.fuzz.running import Bounds, Prepared, Turn, take_turns, totals
from tests.fuzz.targets import Check

SEEDS = (b"a seed", b"another")
BOUNDS = Bounds(seconds=60, runs=50, seed=7)


def refuse(data: bytes) -> None:
    assert data in SEEDS, "an invariant"


def hang(data: bytes) -> None:
    while data not in SEEDS:
        pass


def swell(data: bytes) -> None:
    if data not in SEEDS:
        bytearray(2 << 30)


def run(folder: Path, checks: dict[str, Check], turns: int = 1) -> tuple[bool, list[tuple[str, int, bool]]]:
    """Whether all invariants held, and of each turn its target, how many inputs it tried, and whether its own held."""
    targets = [Prepared(name, check, SEEDS, 64, folder / "corpus" / name) for name, check in checks.items()]
    left = dict.fromkeys(checks, turns)
    told: list[tuple[str, int, bool]] = []

    def begin(target: Prepared) -> Turn | None:
        left[target.name] -= 1
        return Turn(target, BOUNDS, folder, led=False) if left[target.name] >= 0 else None

    held = take_turns(targets, begin, 2, lambda turn, good: told.append((turn.target.name, turn.tried, good)))
    return held, sorted(told)


def test_what_is_tried_is_counted(tmp_path: Path) -> None:
    held, told = run(tmp_path, {"one": len, "two": len}, turns=2)
    assert held
    assert told == [("one", 50, True)] * 2 + [("two", 50, True)] * 2
    assert totals(tmp_path) == {"one": 100, "two": 100}


def test_a_broken_invariant_is_told_and_its_input_kept(tmp_path: Path) -> None:
    held, told = run(tmp_path, {"broken": refuse, "good": len}, turns=2)
    assert not held
    assert [name for name, _, good in told if not good] == ["broken"], "one that has found something isn't tried again"
    assert [name for name, _, good in told if good] == ["good", "good"]
    (crash,) = (tmp_path / "crashes").iterdir()
    assert crash.name.startswith("broken-")
    assert crash.read_bytes() not in SEEDS
    assert "AssertionError: an invariant" in (tmp_path / "logs/broken.log").read_text()


def test_an_input_that_takes_too_much_memory_breaks_one(tmp_path: Path) -> None:
    assert run(tmp_path, {"large": swell})[0] is False
    assert "MemoryError" in (tmp_path / "logs/large.log").read_text()


def test_an_input_that_takes_too_long_breaks_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "LONGEST_S", 0.05)
    held, told = run(tmp_path, {"slow": hang})
    assert not held
    assert told == [("slow", told[0][1], False)]
    assert "TookTooLong" in (tmp_path / "logs/slow.log").read_text()
    assert list((tmp_path / "crashes").iterdir())


def test_a_turn_is_the_same_again(tmp_path: Path) -> None:
    found = []
    for again in ("first", "second"):
        run(tmp_path / again, {"broken": refuse})
        found.append([each.name for each in (tmp_path / again / "crashes").iterdir()])
    assert found[0] == found[1]
