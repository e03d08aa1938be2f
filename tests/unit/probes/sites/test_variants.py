# SPDX-License-Identifier: Apache-2.0
"""Ways out through a table of a function's variants for different processors, as Intel's libraries have them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.fixtures.assembled import Assembled, function

from ssllatency.code.flow import Unplannable

Assembler = Callable[[str], Assembled]

READ_ONLY, WRITABLE = '.section .data.rel.ro, "aw"', ".data"
LOOKS = "push %rbx\ncall other@PLT\nat_i: pop %rbx\n"  # at the processor, when it is first called
JUMPS = "mov chosen(%rip), %rax\nlea table(%rip), %r10\nmov (%rax), %eax\nadd $1, %eax\ncltq\njmp *(%r10,%rax,8)\n"
LOADS = JUMPS.replace("jmp *(%r10,%rax,8)", "mov (%r10,%rax,8), %rax\njmp *%rax")
WORKS = "push %rbx\ncall other@PLT\npop %rbx\n{label}: ret\n"
ROW = "ini_x_f, k1_x_f, l9_x_f"


def code(row: str = ROW, section: str = READ_ONLY, *, jumps: str = JUMPS, name: str = "x_f") -> str:
    """A function of this name that leaves through a table with this row, and its variants."""
    return (
        function(name, f"at_a: {jumps}")
        + function("ini_x_f", LOOKS + LOADS)
        + function("k1_x_f", WORKS.format(label="at_k"))
        + function("l9_x_f", WORKS.format(label="at_l"))
        + function("k1_other", "at_other: ret\n")
        + f".data\n.p2align 3\nchosen: .quad number\nnumber: .long -1\n{section}\n.p2align 5\n.quad 0\n.p2align 5\n"
        + f"table: .quad {row}\n.p2align 5\n.quad ini_other, k1_other\n.text\n"
    )


def many(number: int, jumps: str = JUMPS) -> str:
    """The same with so many variants."""
    names = [f"v{each}_x_f" for each in range(number)]
    row = code(", ".join(names), jumps=jumps)
    return row + "".join(function(name, WORKS.format(label=f"at_{name}")) for name in names)


@pytest.mark.parametrize("jumps", [JUMPS, LOADS, JUMPS.replace("table(", "table + 8(").replace("add $1, %eax\n", "")])
def test_every_variant_is_a_way_out(assembled: Assembler, jumps: str) -> None:
    library = assembled(code(jumps=jumps))
    assert library.exits(library.plan("x_f")) == ["at_k", "at_l"]


@pytest.mark.parametrize(
    "text",
    [
        code(section=WRITABLE),  # another entry may be written there
        code("k1_x_f"),
        code("ini_x_f, k1_x_f, 0, l9_x_f"),  # where does it end?
        code("ini_x_f, k1_x_f, k1_other, l9_x_f"),
        code("0, k1_x_f, l9_x_f"),
        code("ini_x_f, k1_x_f + 1, l9_x_f"),  # no function begins there
        code("x_f, x_f"),
        code(", ".join(["ini_x_f", *["k1_x_f"] * 17])),
        many(17, JUMPS.replace("table(", "table + 128(")),  # does it begin here?
        code(name="x_g"),  # these are another function's variants
        code("ini_other, k1_other"),
    ],
)
def test_a_table_that_may_hold_others_is_not_followed(assembled: Assembler, text: str) -> None:
    library = assembled(text)
    with pytest.raises(Unplannable, match=r"jump table .* can't be read"):
        library.plan("x_g" if "\nx_g:" in text else "x_f")


def test_a_jump_with_more_on_the_stack_is_not_followed(assembled: Assembler) -> None:
    library = assembled(code(jumps=f"push %rbx\n{JUMPS}"))
    with pytest.raises(Unplannable, match=r"jump at .* can't be followed|stack doesn't balance"):
        library.plan("x_f")
