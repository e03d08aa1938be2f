# SPDX-License-Identifier: Apache-2.0
"""BPF programs that only tests run."""

from __future__ import annotations

import subprocess
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def compiled(name: str, directory: Path) -> bytes:
    """The object that is compiled from tests/bpf/NAME."""
    multiarch = subprocess.run(["clang", "-print-multiarch"], check=True, capture_output=True, text=True).stdout.strip()
    flags = [
        "-g",
        "-O2",
        "-mcpu=v3",
        "-target",
        "bpf",
        "-idirafter",
        f"/usr/include/{multiarch}",
        "-I",
        _HERE.parents[1] / "bpf",
    ]
    made = directory / f"{name}.o"
    subprocess.run(["clang", *flags, "-c", _HERE / name, "-o", made], check=True)
    return made.read_bytes()
