# SPDX-License-Identifier: Apache-2.0
"""The outputs that documents show: each stands below the command that prints it, in a comment, and is what that prints now."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import DOCUMENTS, TOP, name_of

from ssllatency.cli.command_line import run
from ssllatency.reports.documents.recording_reading import from_text
from ssllatency.reports.text.handshakes.lines import HandshakeLines
from ssllatency.reports.text.page import Page

_SHOWN = re.compile(r"^<!-- ssllatency ([^\n]*) -->\n```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OUTPUTS = [
    pytest.param(command, output, id=f"{name_of(document)}-{number}")
    for document in DOCUMENTS
    for number, (command, output) in enumerate(_SHOWN.findall(document.read_text()), 1)
]
RECORDED = TOP / "examples" / "recorded"


def test_there_are_some() -> None:
    assert len(OUTPUTS) > 5


@pytest.mark.parametrize(("command", "output"), OUTPUTS)
def test_an_output_is_what_the_command_prints(
    command: str, output: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same order; "..." stands for lines that are left out."""
    monkeypatch.chdir(TOP)
    assert run(shlex.split(command)) == 0
    printed = f"\n{capsys.readouterr().out}"
    for part in re.split(r"^\.\.\.\n", output, flags=re.MULTILINE):
        _, found, printed = printed.partition(f"\n{part}")
        assert found, part
        printed = f"\n{printed}"


def test_each_recorded_measurement_is_shown_or_explained() -> None:
    kept = {file.name for file in RECORDED.iterdir() if file.suffix in (".json", ".jsonl")}
    told = set(re.findall(r"`(\w+\.jsonl?)`", (RECORDED / "README.md").read_text()))
    assert kept == told
    shown = {Path(word).name for parameters in OUTPUTS for word in shlex.split(str(parameters.values[0])) if "/" in word}
    assert kept - shown == {"demo.json"}  # the demo shows it


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_utc")
def test_the_lines_of_snoop_are_those_of_recorded_handshakes() -> None:
    """The first of the slowest ones."""
    first = from_text((RECORDED / "before.jsonl").read_text(), "before.jsonl").intervals[0]
    assert first.handshakes
    lines = HandshakeLines(page=Page(80, most=80))
    drawn = f"{lines.heading}{''.join(lines.render(first.handshakes.slowest[:2]))}"
    assert f"```\n{drawn}```\n" in (TOP / "docs" / "reference" / "snoop.md").read_text()
