# SPDX-License-Identifier: Apache-2.0
"""--html of `report` and `diff`: a page in a file, and nothing on standard output."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.measured.recordings import recording_of

from ssllatency.cli.command_line import run
from ssllatency.reports.documents.recording import to_lines
from ssllatency.reports.html import page as html_page

PROGRAM = Path(__file__).parents[3] / "tools/ssllatency"
Printed = pytest.CaptureFixture[str]


def _kept(file: Path, seed: int, key_ns: int = 700_000) -> str:
    file.write_text("".join(to_lines(recording_of(seed, key_ns=key_ns), by_process=True)), encoding="utf-8")
    return str(file)


def test_report_is_written_and_overwritten(tmp_path: Path, capsys: Printed) -> None:
    kept, page = _kept(tmp_path / "kept.jsonl", 1), tmp_path / "page.html"
    for _ in range(2):
        assert run(["report", kept, "--html", str(page)]) == 0
        printed = capsys.readouterr()
        assert (printed.out, printed.err) == ("", f"ssllatency: {page} holds the page.\n")
    assert "TLS latency of web1" in page.read_text(encoding="utf-8")


def test_diff_has_both_and_still_judges(tmp_path: Path, capsys: Printed) -> None:
    before, after = _kept(tmp_path / "before.jsonl", 1), _kept(tmp_path / "after.jsonl", 2, 4_500_000)
    page = tmp_path / "page.html"
    assert run(["diff", before, after, "--html", str(page), "--fail-over", "10%"]) == 3
    assert capsys.readouterr().out == ""
    text = page.read_text(encoding="utf-8")
    assert "TLS latency of web1: before and after" in text
    assert "slower. The largest contribution: private key" in text


@pytest.mark.parametrize("where", ["here", "MATPLOTLIBRC", "MPLCONFIGDIR", "home"])
@pytest.mark.slow
def test_no_configuration_of_matplotlib_is_read(tmp_path: Path, where: str) -> None:
    """With usetex it runs latex, found on PATH, for every text; that is how another user's folder would run programs."""
    kept, trap, page = _kept(tmp_path / "kept.jsonl", 1), tmp_path / "trap", tmp_path / "page.html"
    folder = trap / ".config/matplotlib" if where == "home" else trap
    folder.mkdir(parents=True)
    (folder / "matplotlibrc").write_text("text.usetex: True\nfont.size: 3\nsavefig.facecolor: red\n")
    for program in ("latex", "dvipng", "kpsewhich"):
        (trap / program).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (trap / program).chmod(0o755)
    variables = {"here": {}, "home": {"HOME": str(trap)}}.get(where, {where: str(trap)})
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("MATPLOTLIB", "MPL", "XDG"))}
    environment |= {"PATH": f"{trap}:{environment['PATH']}", **variables}
    folder_of_run = trap if where == "here" else tmp_path
    for reading in ("report", kept, "--html", str(page)), ("report", kept, "--html", "page.html"):
        done = subprocess.run(
            [PROGRAM, *reading], cwd=folder_of_run, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()
    assert page.read_text() == (folder_of_run / "page.html").read_text()
    assert run(["report", kept, "--html", str(tmp_path / "plain.html")]) == 0
    assert page.read_text() == (tmp_path / "plain.html").read_text()


def test_json_and_a_page_are_two_things(tmp_path: Path, capsys: Printed) -> None:
    assert run(["report", _kept(tmp_path / "kept.jsonl", 1), "--json", "--html", str(tmp_path / "page.html")]) == 2
    assert "not allowed with argument" in capsys.readouterr().err


def test_unwritable_is_a_sentence(tmp_path: Path, capsys: Printed) -> None:
    missing = tmp_path / "missing" / "page.html"
    assert run(["report", _kept(tmp_path / "kept.jsonl", 1), "--html", str(missing)]) == 1
    assert capsys.readouterr().err == f"ssllatency: {missing} can't be written: No such file or directory.\n"


def test_no_plotting_library_is_a_sentence(tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(html_page, "import_module", absent)
    page = tmp_path / "page.html"
    assert run(["report", _kept(tmp_path / "kept.jsonl", 1), "--html", str(page)]) == 1
    assert "aren't installed" in capsys.readouterr().err
    assert not page.exists()
