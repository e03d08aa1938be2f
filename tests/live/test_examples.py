# SPDX-License-Identifier: Apache-2.0
"""The examples that have a transcript: they still print what it shows, but for the numbers."""

from __future__ import annotations

import os
import re
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from .test_demo import left_behind

pytestmark = pytest.mark.usefixtures("tracing")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# What follows from the numbers: how a diagnosis reads, what a load tool's units are, and which machine it was.
_VARYING = (
    (r"==> .*?\n\n", "==>\n\n"),
    (r"\n +\d+ waits not split, .*", ""),
    (r"^OpenSSL .* processors$", "OpenSSL, Linux, processors"),
    (r"^\S+, kernel \S+, (.*) from \S+$", r"host, kernel, \1"),
    (r"\|[█▓▥▒·○]+\|", "|bar|"),
    (r"<?\d[\d.]*", "0"),
    (r"0 ?(ns|us|ms|s)\b", "0 s"),
    (r"0[KMG]?B/s", "0B/s"),
)


def shape(text: str) -> list[str]:
    """The fields of its lines, without numbers; what is said several times in a row, once."""
    for pattern, instead in _VARYING:
        text = re.sub(pattern, instead, text, flags=re.DOTALL if pattern.startswith("==>") else re.MULTILINE)
    fields = [field for line in text.splitlines() for field in re.split(r" {2,}", line.strip()) if field]
    return fields[:1] + [after for before, after in pairwise(fields) if after != before]


def test_async_gain_prints_what_its_transcript_shows(tmp_path: Path) -> None:
    connections = 200
    command, environment = [EXAMPLES / "async-gain" / "run", str(connections)], os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    transcript = (EXAMPLES / "async-gain" / "transcript.txt").read_text()
    assert shape(done.stdout) == shape(transcript)
    succeeded = re.findall(r", (\d+) succeeded", done.stdout)
    assert succeeded == re.findall(r"^(\d+) handshakes in .*: \1 successful", done.stdout, re.MULTILINE)
    assert [int(number) for number in succeeded] == 4 * [connections]
    assert left_behind(tmp_path) == []


def test_matrix_prints_what_its_transcript_shows(tmp_path: Path, folder: Path) -> None:
    """Its plan word for word, and its table with the same effects."""
    command, environment = [EXAMPLES / "matrix" / "run", tmp_path / "runs.csv"], os.environ | {"TMPDIR": str(folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=240)
    transcript = (EXAMPLES / "matrix" / "transcript.txt").read_text()
    plan, table = (re.split(r"^Main effects:$", text, flags=re.MULTILINE) for text in (done.stdout, transcript))
    assert plan[0].splitlines()[1:] == table[0].splitlines()[1:]  # the first names the machine
    assert effects_shape(plan[1]) == effects_shape(table[1])
    assert (tmp_path / "runs.csv").read_text().count("\n") == 1 + 8 * 3
    assert left_behind(folder) == []


def effects_shape(table: str) -> list[str]:
    """Its words without the numbers."""
    numbers = re.sub(r"(?<![\w-])[-+]?\d[\d.]*(?!\d*[-\w])", "0", " ".join(table.split()))
    return re.sub(r"\b0 (us|ms)\b", "0 s", numbers).split()
