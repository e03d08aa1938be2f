# SPDX-License-Identifier: Apache-2.0
"""Intel's libcrypto_mb since its Cryptography Primitives 2, of whose functions each leaves for the variant of itself that suits
the processor: calls of them all, and keys that are made eight at a time.

The older one is that of the server in ../libraries/test_qatengine.py.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from ssllatency.probes.catalogue import CATALOGUE
from tests import foreign
from tests.live.commands.handshakes import Shakes, assert_books
from tests.live.commands.trace import Document, Trace, losses
from tests.live.victims.obedient import obedient
from tests.machine import leave_out, needs_architecture

pytestmark = pytest.mark.usefixtures("tracing")
FUNCTIONS = [operation.name for operation in CATALOGUE if operation.library == "libcrypto_mb"]
# Its argument is the library, which it loads with the first line; with each line it calls that function so many times without a
# lane, or of "keys" makes as many public keys of X25519 at a time, the first of which must be that of the private key 0101….
PROGRAM = """
import ctypes, ssl, sys
PUBLIC = bytes.fromhex("a4e09292b651c278b9772c569f5fa9bb13d906b46ab68c9df9dc2b4409f8a209")
Lanes = ctypes.c_void_p * 8

def keys(used):
    buffers = [[ctypes.create_string_buffer(content, 32) for content in (bytes(32), bytes([lane + 1]) * 32, b"\\t")]
               for lane in range(used)]
    status = library.mbx_x25519_mb8(*(Lanes(*map(ctypes.addressof, column)) for column in zip(*buffers)))
    assert not status & (1 << 4 * used) - 1
    assert buffers[0][0].raw == PUBLIC

print("ready", flush=True)
for line in sys.stdin:
    library = ctypes.CDLL(sys.argv[1])
    name, *numbers = line.split()
    for number in map(int, numbers):
        if name == "keys":
            keys(number)
        else:
            for _ in range(number):
                getattr(library, name)(*(Lanes() for _ in range(8)))
    print("done", flush=True)
"""
_APPLICABLE = "import ctypes, sys; sys.exit(not ctypes.CDLL(sys.argv[1]).mbx_is_crypto_mb_applicable(ctypes.c_uint64(0)))"

_VARIANT = "k1" if "avx512ifma" in Path("/proc/cpuinfo").read_text() else "l9"  # by which code the others work here


@pytest.fixture(scope="module")
def library() -> Path:
    needs_architecture("x86_64", "for which alone libcrypto_mb is made")
    path = foreign.needed(foreign.find("libcrypto_mb-13"))
    if subprocess.run([sys.executable, "-c", _APPLICABLE, path], check=False).returncode:
        leave_out("libcrypto_mb does nothing on this machine's CPU")
    return path


def called(document: Document) -> Counter[str]:
    """How often each function of the library was called, however the calls ended."""
    calls: Counter[str] = Counter()
    for row in document["functions"]:
        calls[row["function"]] += row["count"]
    return calls


def test_calls_of_every_function(library: Path) -> None:
    expected = {name: 1 + number % 3 for number, name in enumerate(FUNCTIONS)}
    with obedient(sys.executable, "-c", PROGRAM, library) as (pid, do):
        do("keys 1")
        with Trace(pid) as trace:
            for name, calls in expected.items():
                do(f"{name} {calls}")
            do(f"{_VARIANT}_mbx_x25519_mb8 1")  # the variant itself isn't a call of the function
    assert called(trace.document) == expected
    assert losses(trace.document) == {}


def test_lanes_of_keys_that_are_made(library: Path) -> None:
    with obedient(sys.executable, "-c", PROGRAM, library) as (pid, do):
        do("keys 2")
        with Shakes(pid) as shakes:
            do("keys 8 8 3 5 1")
            do("mbx_x25519_mb8 2")
    (batches,) = shakes.document["async"]["batches"]
    assert (batches["function"], batches["fill"]) == ("mbx_x25519_mb8", [2, 1, 0, 1, 0, 1, 0, 0, 2])
    assert_books(shakes)
