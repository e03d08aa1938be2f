# SPDX-License-Identifier: Apache-2.0
"""Waits: each has all that is asked for one, and the document names the codes that mean it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssllatency.abi import Reason, Wait
from ssllatency.model import handshakes as model
from ssllatency.reports.words.parts import STYLES
from ssllatency.stacks import registry
from ssllatency.stacks.base import Stack
from ssllatency.stacks.waits import WAITS

DOCUMENT = Path(__file__).parents[3] / "docs" / "internals" / "stacks.md"
STACKS = [stack for stack in registry.STACKS if stack.codes.waits]  # whose connections hold what they wait for
KINDS = [wait for wait in Wait if wait not in (Wait.NONE, Wait.WAITS)]


@pytest.mark.parametrize("wait", KINDS, ids=lambda wait: wait.name)
def test_a_wait_has_a_name_a_sentence_and_a_part(wait: Wait) -> None:
    meaning = WAITS[wait]
    assert meaning.name
    assert meaning.sentence.endswith(".")
    assert _part(wait) in model.WAITS
    assert STYLES[_part(wait)].name


def test_no_two_waits_have_one_name() -> None:
    assert len({meaning.name for meaning in WAITS.values()}) == len(WAITS) == len(KINDS)


@pytest.mark.parametrize("stack", STACKS, ids=lambda stack: stack.name)
def test_each_code_of_a_stack_means_a_wait(stack: Stack) -> None:
    codes = stack.codes
    assert {*codes.reasons.values()} <= codes.waits.keys()
    assert not {reason for _, reason in codes.ends.values()} & codes.waits.keys()


def table() -> list[str]:
    """The rows of the document's table of waits."""
    rows = ["| wait | | part | " + " | ".join(stack.title for stack in STACKS) + " |", "|---" * (3 + len(STACKS)) + "|"]
    for wait, meaning in WAITS.items():
        names = [", ".join(_name(reason) for reason, kind in stack.codes.waits.items() if kind is wait) for stack in STACKS]
        rows.append(f"| {meaning.name} | {meaning.sentence} | `{_part(wait)}` | {' | '.join(names)} |")
    return rows


def _part(wait: Wait) -> model.Part:
    return model.Part(WAITS[wait].part.name.lower())


def _name(reason: Reason) -> str:
    return "unknown" if reason is Reason.UNKNOWN else reason.name


def test_the_document_has_the_table_of_waits() -> None:
    assert "\n".join(table()) in DOCUMENT.read_text()
