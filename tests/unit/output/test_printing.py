# SPDX-License-Identifier: Apache-2.0
"""Nothing that a foreign recording says controls the terminal."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.measured.recordings import recording_of

from ssllatency.cli.command_line import run
from ssllatency.model.recording import Recording
from ssllatency.model.snapshot import Missing, Target, TracedLibrary
from ssllatency.output.printing import harmless
from ssllatency.output.stream import Output
from ssllatency.reports.documents.recording import to_lines

ODD = "\x1b]0;title\x07\x1b[2J\x9b31m\x7f\u202eodd"
PACKAGE = Path(__file__).parents[3] / "python/ssllatency"
Printed = pytest.CaptureFixture[str]


def foreign(folder: Path, seed: int) -> str:
    """A recording whose every name and note was written to do harm."""
    runs = []
    for one in recording_of(seed, host=f"web{seed}{ODD}").runs:
        intervals = tuple(
            replace(
                each,
                kernel=ODD,
                engine=ODD,
                targets=(Target(1, ODD, (TracedLibrary(f"/{ODD}", "ab", ODD),)),),
                missing=(Missing(ODD, ODD, ODD),),
                notes=(ODD,),
                series=tuple(replace(series, function=f"{series.function}{ODD}") for series in each.series),
            )
            for each in one.intervals
        )
        runs.append(replace(one, intervals=intervals, notes=(ODD,), version=ODD, command=ODD))
    file = folder / f"foreign{seed}.jsonl"
    file.write_text("".join(to_lines(Recording(tuple(runs)), by_process=True)))
    return str(file)


@pytest.mark.parametrize(
    "subcommand", ["report", "report --by-process", "report --intervals", "diff", "merge", "report --json"]
)
def test_a_foreign_recording_does_not_control_the_terminal(tmp_path: Path, capsys: Printed, subcommand: str) -> None:
    first, second = foreign(tmp_path, 1), foreign(tmp_path, 2)
    files = {"merge": [first, second, "-o", str(tmp_path / "merged")], "diff": [first, second]}.get(subcommand, [first])
    assert run([*subcommand.split(), *files]) == 0
    printed = capsys.readouterr()
    for text in (printed.out, printed.err):
        assert all(one.isprintable() or one == "\n" for one in text)
    assert "odd" in printed.out + printed.err
    if "--json" in subcommand:
        assert json.loads(printed.out)["notes"][-1] == ODD


def test_lines_as_they_happen_do_not_either(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    with file.open("wb") as opened:
        output = Output(opened.fileno(), lambda: False)
        assert output.write([f"name {ODD}\n", f'{{"name": {json.dumps(ODD)}}}\n']) == 2
    first, second = file.read_text().splitlines()
    assert first.isprintable()
    assert json.loads(second) == {"name": ODD}


def test_layout_and_letters_stay() -> None:
    assert harmless("a\tb\n\u2588 \u00b5s") == "a\tb\n\u2588 \u00b5s"


def test_a_stream_of_lines_stays_but_for_what_controls_the_terminal() -> None:
    assert harmless("one\ntwo \u00b5s\n") == "one\ntwo \u00b5s\n"
    assert harmless("one\ntwo\r\n\x1b[m\x0e three\n", kept="\x0e") == "one\ntwo\\u000d\n\\u001b[m\x0e three\n"


def test_nothing_else_writes_to_the_terminal() -> None:
    writing = [
        file.name
        for file in sorted(PACKAGE.glob("**/*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "sys.stdout.write", "sys.stderr.write")
    ]
    assert set(writing) == {"printing.py"}
