# SPDX-License-Identifier: Apache-2.0
"""docs/use/jq.md: each command prints what stands below it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from pages import TOP
from tests import programs

RECIPES = re.findall(
    r"^((?: {4}[^\n]+\n)+)\n```\n(.*?)^```$", (TOP / "docs" / "use" / "jq.md").read_text(), re.MULTILINE | re.DOTALL
)
FILES = {"handshakes.json": "cpu.json", "before.jsonl": "before.jsonl", "after.jsonl": "after.jsonl"}


def test_there_are_some() -> None:
    assert len(RECIPES) > 5


@pytest.mark.parametrize(("command", "printed"), RECIPES, ids=range(1, len(RECIPES) + 1))
def test_a_recipe_prints_what_is_shown(command: str, printed: str, tmp_path: Path) -> None:
    programs.needed("jq")
    for name, kept in FILES.items():
        (tmp_path / name).symlink_to(TOP / "examples" / "recorded" / kept)
    environment = os.environ | {"PATH": f"{TOP / 'tools'}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == printed
    assert printed
