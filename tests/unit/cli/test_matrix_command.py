# SPDX-License-Identifier: Apache-2.0
"""`ssllatency load --matrix` as far as it goes without tracing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.matrices import matrix, plan

from ssllatency.cli.command_line import run
from ssllatency.cli.live import matrix_words
from ssllatency.load.matrix.duration import TimeEstimate, known_s
from ssllatency.load.matrix.plan import Factor, order
from ssllatency.load.matrix.table import COLUMNS, MatrixRows

FILE = """
seconds = 10
connections = 1000
repeats = 2
[servers.web]
[factors]
tool = ["s_time", "h2load"]
key = ["RSA-2048", "Ed25519"]
[[exclude]]
tool = "h2load"
key = "Ed25519"
"""
TWO = 'key = ["RSA-2048", "Ed25519"]'


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "matrix.toml"
    path.write_text(FILE)
    return str(path)


def test_misuse(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words, told in (
        (["--matrix", file], "Name the file for the runs' figures: -o FILE"),
        (["--matrix", file, "-o", "x", "wrk"], "leave tool, targets, --program, --json and --functions out"),
        (["--matrix", file, "-o", "x", "-p", "1"], "leave tool, targets"),
        (["--dry-run"], "--matrix FILE for -o and --dry-run"),
        (["-o", "x", "wrk", "https://127.0.0.1/"], "--matrix FILE for -o"),
    ):
        assert run(["load", *words]) == 2
        error = capsys.readouterr().err
        assert told.lower() in error.lower()
        assert error.count("\n") == 1


def test_files_that_are_no_matrix(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["load", "--matrix", str(tmp_path / "none"), "--dry-run"]) == 1
    assert "none can't be read" in capsys.readouterr().err
    Path(file).write_text(FILE.replace("key =", "keys =", 1))
    assert run(["load", "--matrix", file, "--dry-run"]) == 1
    assert capsys.readouterr().err == f"ssllatency: {file}: factors.keys isn't known: did you mean key?\n"
    Path(file).write_text(f'{FILE}\n[[exclude]]\nserver = "web"')
    assert run(["load", "--matrix", file, "--dry-run"]) == 1
    assert "leaves no cell: excluded by the file" in capsys.readouterr().err


def test_a_dry_run(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["load", "--matrix", file, "--dry-run", "-o", str(tmp_path / "none.csv")]) == 0
    found = capsys.readouterr().out
    assert found.startswith("CELL  tool    key\n1     s_time  RSA-2048\n2     s_time  Ed25519\n3     h2load  RSA-2048\n\n")
    assert "version TLSv1.3" in found
    assert "Left out, 1 cell: excluded by the file.\n" in found
    ending = (
        "3 cells, 1 warm-up and 2 repeats: 9 runs to make, about 1 min 04 s and 3 runs of h2load with 1000 connections each.\n"
    )
    assert found.endswith(ending)
    assert not (tmp_path / "none.csv").exists()


def test_what_is_known_of_the_time() -> None:
    one = matrix(TWO)
    runs = order(plan(TWO).cells, one)
    seconds, others = known_s(one, runs)
    assert len(runs) < seconds < 2 * len(runs)
    assert others == 0
    assert TimeEstimate(one, runs).whole_s == pytest.approx(seconds)
    both = 'tool = ["s_time", "h2load"]'
    times = TimeEstimate(matrix(both), order(plan(both).cells, matrix(both)))
    assert times.whole_s is None  # h2load hasn't run yet


def rows(number: int, factors: str = TWO) -> list[dict[str, str]]:
    cells = plan(factors).cells
    return [
        {**dict.fromkeys(COLUMNS, ""), **cell.levels, "repeat": str(repeat), "connections": "5", "handshakes": "5",
         "connections_per_s": "200" if cell[Factor.KEY] == "RSA-2048" else "800", "calls_mean_us": "1000"}
        for repeat in range(number) for cell in cells
    ]  # fmt: skip


def test_the_table_of_effects() -> None:
    found = [" ".join(line.split()) for line in matrix_words.effects(rows(2), plan(TWO).cells).splitlines()]
    assert "FACTOR LEVEL CONNECTIONS/S IN CALLS" in found
    assert "mean of all 400.0/s 1.00 ms" in found
    assert "key RSA-2048 -50.0 % (-50.0 to -50.0) +0.0 % (+0.0 to +0.0)" in found
    assert "Ed25519 +100.0 % (+100.0 to +100.0) +0.0 % (+0.0 to +0.0)" in found
    assert matrix_words.effects([], plan(TWO).cells) == ""


def test_there_are_no_effects_of_a_round_that_is_not_complete() -> None:
    """Three of four cells can be told apart, but are half a round."""
    four = f'{TWO}\nresumption = ["new", "reuse"]'
    cells, three = plan(four).cells, rows(1, four)[:3]
    assert matrix_words.effects(three, cells) == ""
    assert matrix_words.effects(rows(1, four), cells) == matrix_words.effects([*rows(1, four), *rows(2, four)[4:7]], cells)
    assert matrix_words.effects(three, cells[:3])  # the fourth has failed


def test_what_is_said_in_the_beginning_and_the_end() -> None:
    whole, cells = matrix(TWO), plan(TWO)
    kept = MatrixRows(tuple(rows(1)), torn=True)
    said = matrix_words.beginning(whole, cells, kept, order(cells.cells, whole, kept.done))
    assert said[0].startswith("The last row had been cut off")
    assert said[1].startswith("2 cells, 2 runs there already: ")
    said = matrix_words.ending(rows(1), cells, whole, {("x",): "no"}, "out.csv")
    assert said == [
        "2 runs of 10 in out.csv.",
        "1 cell failed; the next time it is tried again.",
        "The same command goes on where this one ended.",
    ]
    unequal = [{**one, "handshakes": "6"} for one in rows(5)]
    assert matrix_words.ending(unequal, cells, whole, {}, "out.csv")[1].startswith("In 10 runs the server counted another")
