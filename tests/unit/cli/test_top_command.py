# SPDX-License-Identifier: Apache-2.0
"""`ssllatency top` without a kernel: what is bad input, or can't be shown, gets one sentence before anything is attached."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest
from tests.waiting import wait_for

from ssllatency.cli.command_line import build_parser, run
from ssllatency.cli.live import top
from ssllatency.model.handshakes import Label
from ssllatency.output.page import output_page
from ssllatency.output.screen.child import ChildCommand
from ssllatency.tracing import live


@pytest.fixture(autouse=True)
def never_attached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails a test that gets as far as attaching."""

    def prepare(*_: object) -> str:
        raise AssertionError("this should have been refused before")

    monkeypatch.setattr(live, "prepare", prepare)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--view", "cipher", "--once"], "--view is one of service, process, function; --by adds labels."),
        (["--view", "bogus", "--by", "cipher", "--once"], "--view is one of service, process, cipher, function;"),
        (["--sort", "own", "--view", "function", "--once"], "--sort is one of name, rate, failed, retries, p50,"),
        (["--plain", "--once"], "not allowed with argument"),
        ([], "add --plain to print lines, or --once for scripts."),
    ],
)
def test_what_cannot_be_shown_is_refused(capsys: pytest.CaptureFixture[str], options: list[str], words: str) -> None:
    assert run(["top", "-p", "1", *options]) == 2
    assert words in capsys.readouterr().err


def parsed(*options: str) -> argparse.Namespace:
    return build_parser("top").parse_args(["top", "--all", *options])


def test_labels_are_added_to_those_that_rows_need() -> None:
    assert top._labels(parsed("--by", "version,process")) == (Label.PROCESS, Label.RESUMED, Label.VERSION)


@pytest.mark.parametrize(
    ("options", "functions"),
    [((), False), (("--view", "process"), False), (("--view", "function"), True), (("--functions",), True)],
)
def test_reads_and_writes_get_probes_only_where_functions_are_asked_for(options: tuple[str, ...], functions: bool) -> None:
    arguments = parsed(*options)
    arguments.by = top._labels(arguments)
    assert top._wants_functions(arguments, top._choice(arguments)) is functions


def test_a_dumb_terminal_falls_back_to_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "dumb")
    assert top._falls_back()
    assert "as with --plain" in capsys.readouterr().err
    monkeypatch.setenv("TERM", "xterm")
    assert not top._falls_back()


@pytest.mark.parametrize(
    ("variables", "colour"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False), ({"TERM": ""}, False)],
)
def test_reports_have_colours_on_a_terminal_that_wants_them(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], colour: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in {"TERM": "xterm", "COLUMNS": "90", **variables}.items():
        monkeypatch.setenv(name, value)
    assert not output_page().colour  # no terminal
    assert output_page().most is None
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    page = output_page()
    assert (page.colour, page.width, page.most) == (colour, 90, 90)
    monkeypatch.setenv("COLUMNS", "40")
    assert output_page().most == 80
    monkeypatch.setenv("COLUMNS", "200")
    assert (output_page().width, output_page().most) == (100, 200)


def test_a_recording_has_a_name_of_its_own_or_the_one_given() -> None:
    assert top._file_name("x.jsonl") == "x.jsonl"
    assert re.fullmatch(r"ssllatency-\d{8}-\d{6}\.jsonl", top._file_name(""))


def test_a_command_beside_the_screen_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this checkout, not of the folder that it is run in; its lines come, and it ends."""
    (tmp_path / "ssllatency.py").write_text("raise SystemExit('a module of this folder')\n")
    monkeypatch.chdir(tmp_path)
    child = ChildCommand(["--version"])
    lines: list[str] = []
    wait_for(lambda: child.over and lines.extend(child.taken()) is None and lines)
    child.end()
    assert lines[0].startswith("ssllatency ")
    assert child.count == 1
