# SPDX-License-Identifier: Apache-2.0
"""The heap of the C library goes back to the kernel, where it has a function for that; and there is room for open files."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from ssllatency.engines import resources

SIZE, COUNT = 1000, 20_000


def anonymous_kib() -> int:
    match = re.search(r"^RssAnon:\s+(\d+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert match
    return int(match[1])


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="this C library gives nothing back")
def test_what_is_free_is_given_back() -> None:
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    blocks = [library.malloc(ctypes.c_size_t(SIZE)) for _ in range(COUNT)]
    for block in blocks:
        ctypes.memset(block, 1, SIZE)
    for block in blocks[:-1]:  # the last one keeps the end of the heap where it is
        library.free(ctypes.c_void_p(block))
    before = anonymous_kib()
    resources.trim_heap()
    assert before - anonymous_kib() > SIZE * COUNT // 1024 // 2
    library.free(ctypes.c_void_p(blocks[-1]))


def test_a_c_library_without_the_function_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "c_library", object)
    resources.trim_heap()


IN_A_PROCESS = r"""
import re, resource, sys
from ssllatency.engines import resources

def size():
    return int(re.search(r"FDSize:\s*(\d+)", open("/proc/self/status").read())[1])

resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
before = size()
resources.make_room_for_files()
print(before, size())
"""


def tables_of_files(bound: int) -> list[int]:
    """How many files there is room for, before and after."""
    words = [sys.executable, "-c", IN_A_PROCESS, str(bound)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(words, capture_output=True, check=True, text=True, env=environment)
    return [int(word) for word in done.stdout.split()]


def test_the_table_of_open_files_is_made_large_at_once() -> None:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert tables_of_files(soft)[1] >= min(soft, 512)
    before, after = tables_of_files(128)  # which leaves no room for more
    assert after == before
