# SPDX-License-Identifier: Apache-2.0
"""What the planner says that this kernel does with a site is what the kernel does: it refuses none, runs each instruction to
the same effect with a probe as without, and steps it elsewhere only where the planner expects that."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bpf.instructions import OWN, Snippet
from tests.bpf.stepping import check, expected, instruction


@pytest.mark.parametrize("snippet", OWN, ids=lambda snippet: snippet.name)
def test_the_kernel_runs_a_site_as_planned(snippet: Snippet, tmp_path: Path) -> None:
    each = instruction(snippet)
    assert each.text.split()[0] == snippet.name.split()[0]
    cost = expected(each)
    if cost is None:
        pytest.skip("the planner takes no such site")
    check(snippet, cost, tmp_path)
