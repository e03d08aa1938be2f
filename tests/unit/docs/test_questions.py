# SPDX-License-Identifier: Apache-2.0
"""Twenty questions of somebody who is new here: each is answered by one row of the page on architecture and by a file that it
names, so that no more than two files are opened until one knows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[3]
INTERNALS = TOP / "docs" / "internals"
PAGE = (INTERNALS / "architecture.md").read_text()
ROOTS = (TOP, TOP / "python" / "ssllatency", INTERNALS)
FILE = re.compile(r"`([\w.]+/[\w./]+)`|\]\(([\w./-]+)")

# The question; the words by which its row is found; what the file has that answers it.
QUESTIONS = [
    ("Which processes does --port take?", "processes the options mean", "def select("),
    ("When are two mappings of one file?", "two mappings", "def own_identity("),
    ("What becomes of a traced library that is overwritten?", "overwritten", "def leave_overwritten("),
    ("What does --wait look for before anybody maps it?", "nobody maps yet", "def expected_files("),
    ("How is the cheapest way out of a function chosen?", "cheapest exit", "minimum cut"),
    ("When is a plan refused that may miss a way out?", "misses no way out", "def problem("),
    ("When are links multi, session or perf?", "multi, session or perf", "def decide("),
    ("Who gets no probe?", "gets no probe", "def unprobed("),
    ("Which processes would a return probe kill?", "return probe could kill", "shadow_stack"),
    ("How does a forked worker become a target?", "at a reload", "int at_fork("),
    ("What makes a call a retry?", "a retry or a failure", "succeeded_as_openssl("),
    ("What does a handshake wait for between two calls?", "waits for between two calls", "part_of_wait("),
    ("How is p99 computed?", "a percentile", "def quantile_ns("),
    ("Where does a loss get its sentence?", "| losses |", "def losses("),
    ("Where do the names of ciphers come from?", "a cipher, a group", "def names_in("),
    ("Who decides what goes into windows?", "watched in windows", "class Controller"),
    ("What keeps counters from falling?", "no counter falls", "class Ledger"),
    ("Which rights does the process for the network give up?", "process for the network gives up", "def confine("),
    ("How is Java's own TLS measured?", "Java's own TLS |", "def record("),
    ("What stays behind after kill -9?", "stays behind", "kill -9"),
]


def named(row: str) -> list[Path]:
    """The files that a row of the page names."""
    names = [first or second for first, second in FILE.findall(row)]
    return [root / name for name in names for root in ROOTS if (root / name).is_file()]


@pytest.mark.parametrize(("question", "words", "answer"), QUESTIONS, ids=[question for question, _, _ in QUESTIONS])
def test_a_question_is_answered_by_a_row_and_a_file(question: str, words: str, answer: str) -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("|") and words in line]
    assert len(rows) == 1, question
    assert [file.name for file in named(rows[0]) if answer in file.read_text()], question
