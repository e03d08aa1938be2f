# SPDX-License-Identifier: Apache-2.0
"""What is told of recorded incidents, whose causes were planted: in text as the transcript shows it, and on the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.unit.reports.html.html_reading import Reading

from ssllatency.cli.command_line import run
from ssllatency.model.statistics.timeline import timeline
from ssllatency.output import recordings
from ssllatency.reports.html.page import page
from ssllatency.reports.text.timeline import render

INCIDENTS = Path(__file__).resolve().parents[4] / "examples/incidents"
NAMES = ("key", "rush", "pages", "quota", "slow", "old")
# What the report must say of each: whose the added time is or how handshakes failed, what changed, and the cause.
EXPECTED = {
    "key": ("Owner of the added time: server's calls", r"private key +[\d.]+ us +\d", "RSA-4096 signing"),
    "rush": ("Owner of the added time: server's queue", r"handshakes a second +[56]\d", "ready to run but had no processor"),
    "pages": ("Owner of the added time: server's queue", r"in other work +\d+ us +\d", "something else than handshakes"),
    "quota": ("Owner of the added time: server's queue", r"CPU quota +0 ns +\d", "held by a CPU quota"),
    "slow": ("Owner of the added time: peer and network", r"wait: peer +[\d.]+ ms +\d", "the peer and the network"),
    "old": ('"no shared cipher" (new, 0 before', r"failed +0 % +\d", "what clients offer and what this server's ciphers"),
}


def sections() -> list[str]:
    """What the transcript shows of each incident."""
    return re.split(r"^### .*\n", (INCIDENTS / "transcript.txt").read_text(), flags=re.MULTILINE)[1:]


def text(name: str) -> str:
    told = timeline(recordings.read(str(INCIDENTS / f"{name}.jsonl")))
    assert told
    return render(told)


@pytest.mark.parametrize("name", NAMES)
def test_an_incident_is_told_with_its_cause(name: str) -> None:
    told = text(name)
    assert told.strip() == sections()[NAMES.index(name)].strip()
    joined = " ".join(told.split())
    assert "Turned for the worse at " in joined
    owner, changed, cause = EXPECTED[name]
    assert owner in joined
    assert cause in joined
    assert re.search(changed, joined)


@pytest.mark.parametrize("name", ["key", "slow"])
def test_who_was_affected_is_told(name: str) -> None:
    affected = re.search(r"^Affected:\n.*\n +(\S+)", text(name), re.MULTILINE)
    assert affected
    assert affected[1] == "api.example"


def test_a_recording_in_which_nothing_happened_says_so() -> None:
    told = text("nothing")
    assert told.strip() == sections()[-1].strip()
    assert told.startswith("Nothing stands out over time: in 20 intervals")


def test_the_report_of_a_recording_begins_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(INCIDENTS / "nothing.jsonl")
    assert run(["report", file]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(text("nothing"))
    assert "\n\nThe whole recording:\n" in shown
    assert run(["report", file, "--intervals"]) == 0
    assert "Nothing stands out over time" not in capsys.readouterr().out


def test_the_page_has_it_as_a_section() -> None:
    read = Reading(page(recordings.read(str(INCIDENTS / "key.jsonl"))))
    words = " ".join(read.text.split())
    assert "What happened" in words
    assert "Normal until" in words
    assert "Who was affected" in words
