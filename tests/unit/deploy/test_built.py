# SPDX-License-Identifier: Apache-2.0
"""Programs for tests that take minutes to build are kept by what they are built from."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

BUILT = Path(__file__).resolve().parents[3] / "tools/for-tests/built"


def built(verb: str, file: Path, inputs: str, cache: Path) -> int:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    return subprocess.run([BUILT, verb, "server", file], input=inputs, text=True, env=environment, check=False).returncode


def test_a_program_is_taken_where_it_was_built_from_the_same(tmp_path: Path) -> None:
    made, taken = tmp_path / "made", tmp_path / "out/server"
    made.write_text("#!/bin/sh\n")
    made.chmod(0o755)
    assert built("take", taken, "source 1", tmp_path) == 1
    assert built("keep", made, "source 1", tmp_path) == 0
    assert built("take", taken, "source 2", tmp_path) == 1
    assert not taken.exists()
    assert built("take", taken, "source 1", tmp_path) == 0
    assert taken.read_bytes() == made.read_bytes()
    assert os.access(taken, os.X_OK)


def test_what_cannot_be_kept_is_no_failure(tmp_path: Path) -> None:
    made, file = tmp_path / "made", tmp_path / "file"
    made.write_text("")
    file.write_text("")
    assert built("keep", made, "source", file) == 0
    assert built("take", tmp_path / "out", "source", file) == 1
