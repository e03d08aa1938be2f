# SPDX-License-Identifier: Apache-2.0
"""Conditions of branches at which calls begin or end: the kernel side's own headers of both machines, compiled for this one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests import programs

HERE = Path(__file__).parent
BPF = HERE.parents[2] / "bpf"


def told(folder: Path, machine: str, headers: Path = BPF) -> tuple[int, str]:
    """How the program for a machine ends, and what it writes."""
    programs.needed("gcc")
    includes = (f"-I{HERE / 'host'}", f"-I{headers}")
    built = folder / "conditions"
    options = ("-std=gnu11", "-Wno-unused-function", f"-D__TARGET_ARCH_{machine}")
    subprocess.run(["gcc", *options, *includes, "-o", built, HERE / "conditions.c"], check=True)
    done = subprocess.run([built], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize("machine", ["x86", "arm64"])
def test_each_condition_holds_as_the_manual_says(tmp_path: Path, machine: str) -> None:
    assert told(tmp_path, machine) == (0, "")


@pytest.mark.parametrize(("machine", "header", "right", "wrong"), [
    ("x86", "common/x86_64.bpf.h", "(carry | zero) << 3", "carry << 3"),
    ("arm64", "common/aarch64.bpf.h", "(carry & !zero) << 4", "carry << 4"),
])  # fmt: skip
def test_a_defect_is_found(tmp_path: Path, machine: str, header: str, right: str, wrong: str) -> None:
    headers = tmp_path / "bpf"
    shutil.copytree(BPF, headers)
    text = (headers / header).read_text()
    assert right in text
    (headers / header).write_text(text.replace(right, wrong, 1))
    code, said = told(tmp_path, machine, headers)
    assert code == 1
    assert "expected" in said
