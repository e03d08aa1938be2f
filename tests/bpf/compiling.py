# SPDX-License-Identifier: Apache-2.0
"""The sources of what only tests run: BPF programs, and programs to attach them to."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCES = Path(__file__).resolve().parent / "sources"


def compiled(name: str, directory: Path) -> bytes:
    """The object that is compiled from sources/NAME."""
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
        SOURCES.parents[2] / "bpf",
    ]
    made = directory / f"{name}.o"
    subprocess.run(["clang", *flags, "-c", SOURCES / name, "-o", made], check=True)
    return made.read_bytes()
