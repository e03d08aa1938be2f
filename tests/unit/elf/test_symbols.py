# SPDX-License-Identifier: Apache-2.0
"""Symbol tables of a size, or with contents, that no compiler makes."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fixtures import hostile

from ssllatency.elf.headers import Headers
from ssllatency.elf.source import ElfSource
from ssllatency.elf.symbols import MAX_NAME, MAX_SYMBOLS, FunctionIndex


def index_of(path: Path) -> FunctionIndex:
    return FunctionIndex(Headers(ElfSource.open(path, "symbols")))


def test_a_name_that_two_functions_share_names_neither(tmp_path: Path) -> None:
    """But a global one it names before local ones."""
    functions = [("both", 0x1000, 8), ("both", 0x2000, 8), ("one", 0x3000, 4), ("one", 0x3000, 4), ("mixed", 0x4000, 1)]
    path = hostile.debug_file(tmp_path / "symbols", "ab" * 20, functions, local=True)
    found = index_of(path)
    assert found.find("both") is None
    assert [getattr(found.find(name), "address", None) for name in ("one", "mixed", "none")] == [0x3000, 0x4000, None]
    path = hostile.debug_file(tmp_path / "global", "ab" * 20, functions)
    both = index_of(path).find("both")
    assert both is not None
    assert both.address == 0x1000


# In a process of its own: what other tests have left running takes memory, and time, while it is measured.
MEASURE = """
import sys, tracemalloc
from pathlib import Path
from ssllatency.elf.headers import Headers
from ssllatency.elf.source import ElfSource
from ssllatency.elf.symbols import FunctionIndex
tracemalloc.start()
found = FunctionIndex(Headers(ElfSource.open(Path(sys.argv[1]), "symbols")))
print(len(found), tracemalloc.get_traced_memory()[1])
"""


def memory_for(path: Path, count: int) -> int:
    """The most bytes that are held while the index of this file is made, of fewer functions than `count`."""
    words = [sys.executable, "-c", MEASURE, str(path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=300)
    found, used = map(int, done.stdout.split())
    assert found in range(count)
    return used


@pytest.mark.slow
def test_millions_of_overlapping_names_take_little_memory(tmp_path: Path) -> None:
    """Each name ends where the others do, as a linker merges them."""
    path = tmp_path / "overlapping"
    count = 400_000
    hostile.overlapping_names(path, count, MAX_NAME - 1)
    assert memory_for(path, count) < 400 * count


def test_more_symbols_than_any_library_has_are_none(tmp_path: Path) -> None:
    path = tmp_path / "many"
    hostile.overlapping_names(path, 1, 8)
    data = bytearray(path.read_bytes())
    (sections,) = struct.unpack_from("<Q", data, 0x28)
    struct.pack_into("<Q", data, sections + 64 + 32, (MAX_SYMBOLS + 1) * 24)
    path.write_bytes(data)
    assert len(index_of(path)) == 0
