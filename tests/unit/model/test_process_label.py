# SPDX-License-Identifier: Apache-2.0
"""The value of the label process."""

from __future__ import annotations

import pytest

from ssllatency.model.process_label import identity_of, name_of, pid_of, process_label


@pytest.mark.parametrize(
    ("label", "pid", "name"),
    [
        ("nginx(17)", 17, "nginx"),
        ("a (b)(4194304)", 4194304, "a (b)"),
        ("nginx", 0, "nginx"),
        ("nginx(x)", 0, "nginx"),
        (f"nginx({'9' * 5000})", 0, "nginx"),
    ],
)
def test_a_label_is_taken_apart(label: str, pid: int, name: str) -> None:
    assert (pid_of(label), name_of(label)) == (pid, name)
    assert identity_of(label) == (pid or label)


def test_a_label_comes_back() -> None:
    assert pid_of(process_label("nginx: (master)", 17)) == 17
