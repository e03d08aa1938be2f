# SPDX-License-Identifier: Apache-2.0
"""The value of the label process: a number and a name, and the text that stands for both in documents."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssllatency.model.process_label import ProcessLabel


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("nginx(17)", ProcessLabel(17, "nginx")),
        ("nginx: (master)(17)", ProcessLabel(17, "nginx: (master)")),
        ("a (b)(4194304)", ProcessLabel(4194304, "a (b)")),
        ("(7)", ProcessLabel(7, "")),
        ("nginx", ProcessLabel(0, "nginx")),
        ("nginx(x)", ProcessLabel(0, "nginx(x)")),
        ("nginx(017)", ProcessLabel(0, "nginx(017)")),
        (f"nginx({'9' * 5000})", ProcessLabel(0, f"nginx({'9' * 5000})")),
        ("ended: nginx.service", ProcessLabel(0, "nginx.service", ended=True)),
        ("ended: nginx(17)", ProcessLabel(17, "ended: nginx")),
    ],
)
def test_a_label_is_read_from_its_text(text: str, label: ProcessLabel) -> None:
    assert ProcessLabel.from_text(text) == label
    assert label.identity == (label.pid or text)


@given(st.one_of(st.text(), st.from_regex(r"(ended: )?\w*(\(.*\))*", fullmatch=True)))
def test_any_text_comes_back(text: str) -> None:
    assert str(ProcessLabel.from_text(text)) == text


@given(st.text(), st.integers(1, 2**22))
def test_any_process_comes_back(name: str, pid: int) -> None:
    assert ProcessLabel.from_text(str(ProcessLabel(pid, name))) == ProcessLabel(pid, name)


def test_no_process_is_taken_for_the_ended_ones_of_a_service() -> None:
    ended = ProcessLabel.ended_in("exim (4)")
    assert str(ended) == "ended: exim [4)"
    assert ProcessLabel.from_text(str(ended)) == ended
    assert ProcessLabel.from_text(str(ProcessLabel(17, str(ended)))) != ended
