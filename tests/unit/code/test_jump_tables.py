# SPDX-License-Identifier: Apache-2.0
"""Jump tables of x86-64 code whose index has been on the stack between the comparison that bounds it and the jump."""

from __future__ import annotations

import pytest

from ssllatency.code.x86.instructions import wide_names
from ssllatency.code.x86.machine import X86
from ssllatency.code.x86.tables import table_targets

ADDRESS = 0x1000
COMPARES = "4883f903 7720"  # cmp $3, %rcx; ja
TAKES_TABLE = "488d0d00010000"  # lea 0x100(%rip), %rcx
JUMPS = "48630481 4801c8 ffe0"  # movslq (%rcx,%rax,4), %rax; add %rcx, %rax; jmp *%rax
KEEPS, LOADS = "48894c2418", "488b442418"  # mov %rcx, 0x18(%rsp); mov 0x18(%rsp), %rax


def targets(*code: str) -> list[int] | None:
    """Those that are read of this code, by a table whose entries are their own numbers."""
    path = list(X86().decode(bytes.fromhex("".join(code)), ADDRESS))
    base = next(each.end + 0x100 for each in path if each.raw.mnemonic == "lea")
    found = table_targets(
        path, wide_names(), lambda _, size: b"".join(n.to_bytes(4, "little") for n in range(size // 4)), lambda _: None
    )
    return None if found is None else [target - base for target in found]


@pytest.mark.parametrize(
    ("keeps", "loads"),
    [
        (KEEPS, LOADS),
        ("48894de8", "488b45e8"),  # past the frame pointer
        (KEEPS, "8b442418"),  # the lower half of it
    ],
)
def test_the_index_is_kept_on_the_stack(keeps: str, loads: str) -> None:
    assert targets(keeps, COMPARES, TAKES_TABLE, loads, JUMPS) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("keeps", "between"),
    [
        ("894c2418", ""),  # a half alone is stored
        ("48894c2410", ""),  # elsewhere
        ("48890a", ""),  # past another register
        (KEEPS, "4889542418"),  # and then another value
        (KEEPS, "c744241c00000000"),  # and then half of another
        (KEEPS, "50"),  # and then the stack pointer moves
        (KEEPS, "e800000000"),  # and then a function is called
    ],
)
def test_what_is_not_surely_the_index_is_not_taken(keeps: str, between: str) -> None:
    assert targets(keeps, COMPARES, TAKES_TABLE, between, LOADS, JUMPS) is None
