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
# The same as Intel has it since its Cryptography Primitives 2: each function leaves through a table of its variants for
# different processors, the first of which looks at the processor.
_VARIANTS = (
    '#define TRACED __attribute__((noinline, visibility("default")))\n'
    "typedef unsigned function(void *lanes[8]);\nstatic int number = -1;\n"
    "static int *__attribute__((noipa)) choose(void) { if (number < 0) number = CHOSEN; return &number; }\n"
    + "\n".join(
        f"""static int *chosen_{name} = &number;
function ini_{name}, k1_{name}, l9_{name};
static function *const table_{name}[] = {{ini_{name}, k1_{name}, l9_{name}}};
TRACED unsigned k1_{name}(void *lanes[8]) {{ __asm__ volatile("" : : "r"(lanes) : "memory"); return 0; }}
TRACED unsigned l9_{name}(void *lanes[8]) {{ __asm__ volatile("nop" : : "r"(lanes) : "memory"); return 0; }}
TRACED unsigned ini_{name}(void *lanes[8]) {{ chosen_{name} = choose(); return table_{name}[*chosen_{name} + 1](lanes); }}
TRACED unsigned {name}(void *lanes[8]) {{ return table_{name}[*chosen_{name} + 1](lanes); }}
"""
        for name in FUNCTIONS
    )
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
    return _build(_SOURCE, directory / "libcrypto_mb.so.11")


def build_variants(directory: Path, chosen: int) -> Path:
    """The library of which each function leaves for one of two variants, the one with this number."""
    return _build(_VARIANTS, directory / "libcrypto_mb.so.13", f"-DCHOSEN={chosen}")


def _build(source: str, library: Path, *options: str) -> Path:
    library.with_suffix(".c").write_text(source)
    subprocess.run(["gcc", "-O2", *options, "-shared", "-fPIC", library.with_suffix(".c"), "-o", library], check=True)
    return library
