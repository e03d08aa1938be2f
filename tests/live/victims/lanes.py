# SPDX-License-Identifier: Apache-2.0
"""A library of our own with some of crypto_mb's names, as its own needs a processor that not every machine has, and a program
that makes batches of known lanes with it."""

from __future__ import annotations

import subprocess
from pathlib import Path

FUNCTIONS = ("mbx_rsa_private_crt_ssl_mb8", "mbx_rsa_public_ssl_mb8", "mbx_x25519_mb8")
_SOURCE = '#define TRACED __attribute__((noinline, visibility("default")))\n' + "\n".join(
    f'TRACED unsigned {name}(void *lanes[8]) {{ __asm__ volatile("" : : "r"(lanes) : "memory"); return 0; }}'
    for name in FUNCTIONS
)
# Python that has libssl mapped; its argument is the library. It says "ready", then for each line "FUNCTION LANES …" makes a
# batch of each size and says "done". The first line loads the library.
BATCHES = """
import ctypes, ssl, sys
print("ready", flush=True)
for line in sys.stdin:
    library = ctypes.CDLL(sys.argv[1])
    name, *sizes = line.split()
    for used in map(int, sizes):
        getattr(library, name)((ctypes.c_void_p * 8)(*[1] * used))
    print("done", flush=True)
"""


def build_lanes(directory: Path) -> Path:
    """Compiles the library."""
    source, library = directory / "lanes.c", directory / "libcrypto_mb.so.11"
    source.write_text(_SOURCE)
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", source, "-o", library], check=True)
    return library
