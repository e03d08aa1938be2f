# SPDX-License-Identifier: Apache-2.0
"""The second opinion on where instructions begin, against GNU objdump, which is neither it nor the planner's decoder."""

from __future__ import annotations

import re
import subprocess
from bisect import bisect_right
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import programs
from tests.fixtures.assembled import Assembled
from tests.fixtures.functions import function_ranges

from ssllatency.code.boundaries import boundaries, length
from ssllatency.elf.image import Image

LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
_LINE = re.compile(r"^ *([0-9a-f]+):\t([0-9a-f ]+?) *(?:\t(.*))?$")


def listed(path: Path) -> list[tuple[int, str, str]]:
    """Address, bytes and text of each instruction that objdump shows, in its order."""
    command = ["objdump", "-d", "-w", path]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = (_LINE.match(line) for line in text.splitlines())
    return [(int(line[1], 16), line[2].replace(" ", ""), line[3] or "") for line in found if line]


@pytest.mark.parametrize("name", ["libssl.so.3", "libcrypto.so.3", "libc.so.6"])
@pytest.mark.slow
def test_lengths_are_those_of_objdump(name: str) -> None:
    """Of all that the unwind tables know as functions: between them are tables, which are no code."""
    programs.needed("objdump")
    path = LIBRARIES / name
    if not path.exists():
        pytest.skip(f"needs {path}")
    ranges = sorted(function_ranges(Image.open(path, debug_roots=())))
    starts = [start for start, _ in ranges]
    wrong = [
        (hex(address), code, text)
        for address, code, text in listed(path)
        if "(bad)" not in text
        and address < ranges[bisect_right(starts, address) - 1][1]
        and length(bytes.fromhex(code), 0) != len(code) // 2
    ]
    assert wrong == []


@pytest.mark.slow
def test_boundaries_of_functions_are_those_of_objdump() -> None:
    """As they are told from where the unwind tables say that a function begins."""
    programs.needed("objdump")
    path = LIBRARIES / "libssl.so.3"
    if not path.exists():
        pytest.skip(f"needs {path}")
    image = Image.open(path, debug_roots=())
    expected = {address for address, _, _ in listed(path)}
    checked = 0
    for start, end in function_ranges(image):
        begins = {start + each for each in boundaries("x86-64", image.code(start, end - start))}
        assert begins == {each for each in expected if start <= each < end}
        checked += len(begins)
    assert checked > 50_000


UNUSUAL = """
    data16 rex.W call other@PLT
    movabs $0x1122334455667788, %rax
    movabs 0x1122334455667788, %al
    mov $0x1122, %ax
    testb $1, 8(%rsp)
    testl $1, 8(%rax,%rbx,4)
    notl (%rip)
    enter $8, $1
    vaddps (%rax), %zmm1, %zmm2
    vpternlogd $1, 64(%rsp), %zmm1, %zmm2
    vpcmpeqb 0x12345(%rip), %ymm1, %k1
    vzeroupper
    vpermq $1, %ymm1, %ymm2
    crc32b (%rbx), %eax
    xbegin 1f
1:  lock cmpxchg16b (%rdi)
    nopw 0x0(%rax,%rax,1)
    bswap %r12
    pushq $0x12345678
    ret $8
    ud2
"""


def test_instructions_that_libraries_rarely_have(assembled: Callable[[str], Assembled]) -> None:
    programs.needed("objdump")
    shown = [each for each in listed(assembled(UNUSUAL).path) if not each[2].startswith(("add    %al", "(bad)"))]
    assert len(shown) > 20
    assert [length(bytes.fromhex(code), 0) for _, code, _ in shown] == [len(code) // 2 for _, code, _ in shown]


@settings(max_examples=500)
@given(st.binary(max_size=64))
def test_any_bytes_have_an_answer(code: bytes) -> None:
    begins = sorted(boundaries("x86-64", code))
    assert all(1 <= later - earlier <= 15 for earlier, later in pairwise(begins))
    assert not begins or begins[0] == 0


def test_instructions_of_aarch64_are_four_bytes() -> None:
    assert sorted(boundaries("aarch64", bytes(14))) == [0, 4, 8]


def test_what_is_cut_off_is_no_instruction() -> None:
    assert length(b"\x48\xb8\x01\x02", 0) is None
    assert length(b"", 0) is None
    assert length(b"\x66" * 20, 0) is None
    assert boundaries("x86-64", b"\x90\x48\xb8") == {0}
