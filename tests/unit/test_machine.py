# SPDX-License-Identifier: Apache-2.0
"""In CI a skip is a failure, but for what the hardware lacks, which is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.machine import Lacking, needs_architecture, needs_memory

TOP = Path(__file__).resolve().parents[2]


def run(folder: Path, body: str, *, in_ci: bool) -> tuple[int, str]:
    """The exit status and the output of a test with this body."""
    (folder / "test_it.py").write_text(f"import pytest\nfrom tests.machine import Lacking\n\ndef test_it():\n    {body}\n")
    environment = {name: value for name, value in os.environ.items() if name != "CI"} | ({"CI": "1"} if in_ci else {})
    options = ["-c", TOP / "pyproject.toml", "--rootdir", TOP, "-p", "tests.conftest", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, folder / "test_it.py"]
    done = subprocess.run(command, cwd=TOP, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("in_ci", [False, True])
@pytest.mark.slow
def test_what_the_hardware_lacks_is_named_and_no_failure(tmp_path: Path, in_ci: bool) -> None:
    status, output = run(tmp_path, 'raise Lacking("this machine has no abacus")', in_ci=in_ci)
    assert status == 0
    assert "not run: this machine can't" in output
    assert ": this machine has no abacus\n" in output


@pytest.mark.parametrize(("in_ci", "status"), [(False, 0), (True, 1)])
@pytest.mark.slow
def test_another_skip_is_a_failure_in_ci(tmp_path: Path, in_ci: bool, status: int) -> None:
    found, output = run(tmp_path, 'pytest.skip("nginx is missing")', in_ci=in_ci)
    assert found == status
    assert "this machine can't" not in output


def test_memory(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       16384000 kB\nMemAvailable:    6291456 kB\n")
    needs_memory(6 << 30, "is there", meminfo)
    with pytest.raises(Lacking, match=r"^this machine has less than 8 GiB of memory available, which a test needs$"):
        needs_memory(8 << 30, "a test needs", meminfo)


def test_another_architecture() -> None:
    needs_architecture(os.uname().machine, "and this runs")
    with pytest.raises(Lacking, match="isn't of vax, which had it"):
        needs_architecture("vax", "which had it")
