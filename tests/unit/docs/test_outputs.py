# SPDX-License-Identifier: Apache-2.0
"""The outputs that documents show: each stands below the command that prints it, in a comment, and is what that prints now."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from pages import DOCUMENTS, TOP, name_of

from ssllatency.cli.command_line import run

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
