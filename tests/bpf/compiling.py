# SPDX-License-Identifier: Apache-2.0
"""What only tests run: BPF programs, and programs to attach them to."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

from ssllatency.engines.bpf import kernel

SOURCES = Path(__file__).resolve().parent / "sources"
# Maps of handshakes that are large, of which a test's program needs little.
SMALL_TABLES = ("handshakes", "excess_handshakes", "open_calls", "excess_calls")
SMALL = 16
_PROGRAM_RUN = 10  # BPF_PROG_RUN


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


def run(program: int) -> None:
    """Run the program with that descriptor once."""
    assert kernel.bpf(_PROGRAM_RUN, struct.pack("<II", program, 0)) == 0
