# SPDX-License-Identifier: Apache-2.0
"""`ssllatency report` of handshakes: what it prints where, on a page that is the terminal's."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.measured.handshakes import Shake, handshakes_of, times_of
from tests.unit.reports.report_samples import busy

from ssllatency.cli.command_line import run
from ssllatency.model.cost import TracingCost
from ssllatency.model.handshakes import Part
from ssllatency.model.histogram import LinearHistogram
from ssllatency.model.snapshot import Losses, Missing, Outcome, Series, Snapshot
from ssllatency.output.page import output_page
from ssllatency.reports.documents.document import to_json
from ssllatency.reports.text.page import Page

TOP = Path(__file__).resolve().parents[3]


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    made = handshakes_of([Shake({Part.PRIVATE_KEY: 700_000, Part.REST: 300_000})])
    snapshot = Snapshot("web1", "6.1", "libbpf", "2030-01-31T12:00:00Z", 1.0, (), (), handshakes=made)
    file = tmp_path / "kept.json"
    file.write_text(to_json(snapshot), encoding="utf-8")
    return file


def printed(kept: Path, encoding: str) -> bytes:
    command = [sys.executable, "-m", "ssllatency", "report", str(kept)]
    environment = os.environ | {"PYTHONPATH": "python", "PYTHONIOENCODING": encoding}
    return subprocess.run(command, cwd=TOP, env=environment, capture_output=True, check=True).stdout


def test_bars_are_of_what_the_output_can_show(kept: Path) -> None:
    assert b"|KKKK" in printed(kept, "ascii")
    assert "|\u2588\u2588" in printed(kept, "utf-8").decode("utf-8")
    assert printed(kept, "latin-1").isascii()


def test_functions_follow_where_they_were_measured_too(kept: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["report", str(kept)]) == 0
    alone = capsys.readouterr().out
    assert "1 handshake in 1.00 s" in alone
    assert "No TLS call" not in alone
    times = times_of([5000])
    linear = LinearHistogram.from_values(0, 1000, 200, [5000])
    series = Series("SSL_read", Outcome.SUCCESS, 17, times.total_ns, times.min_ns, times.max_ns, times.exponential, linear)
    made = handshakes_of([Shake({Part.REST: 5})])
    both = tmp_path / "both.json"
    both.write_text(to_json(Snapshot("web1", "6.1", "libbpf", "2030-01-31T12:00:00Z", 1.0, (), (series,), handshakes=made)))
    assert run(["report", str(both)]) == 0
    report = capsys.readouterr().out
    assert 0 < report.index("1 handshake in 1.00 s") < report.index("@hist[SSL_read]")


def test_what_is_true_of_both_is_said_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = handshakes_of([Shake({Part.REST: 5})])
    troubled = replace(
        busy(),
        handshakes=made,
        losses=Losses(map_full=3),
        cost=TracingCost(hits=1_000, kernel_ns=500_000, run_ns=200_000, cpu_ns=50_000_000),
        notes=("A library was replaced.",),
        missing=(Missing("SSL_peek", "libssl.so.3", "stripped"),),
    )
    kept = tmp_path / "kept.json"
    kept.write_text(to_json(troubled))
    assert run(["report", str(kept)]) == 0
    report = capsys.readouterr().out
    for words in ("Traced: ", "Not traced:", "Lost or uncertain:", "Cost of tracing: ", "Note: ", "SSL_peek"):
        assert report.count(words) == 1, words
    assert "@hist[SSL_" in report


def test_printed_again_it_is_the_same_document(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "--json", str(kept)]) == 0
    assert capsys.readouterr().out.rstrip("\n") == kept.read_text(encoding="utf-8")


@pytest.mark.parametrize(("columns", "width"), [("40", 80), ("80", 80), ("93", 93), ("300", 100)])
def test_page_is_as_wide_as_the_terminal_within_bounds(monkeypatch: pytest.MonkeyPatch, columns: str, width: int) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert output_page().width == width


def test_page_of_a_file_is_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: False)
    assert output_page().width == Page().width
