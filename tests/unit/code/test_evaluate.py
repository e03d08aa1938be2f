# SPDX-License-Identifier: Apache-2.0
"""What small x86-64 functions return in given cases: jumps that depend on a number, a field or what a call returned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fixtures.assembled import Assembled, assemble, function

from ssllatency.code.evaluate import returned_in_cases
from ssllatency.code.values import Assumptions, ComparisonFlags, LoadedField, SymbolicAddress, Value

Assembler = Callable[[str], Assembled]
ARGUMENT = SymbolicAddress("argument", 0)
CHOICE = "mov $1, %eax\nj{condition} 1f\nmov $2, %eax\n1: ret"
SWITCH = """
    lea 9f(%rip), %rdx
    cmp $2, %eax
    ja 3f
    movslq (%rdx,%rax,4), %rax
    add %rdx, %rax
    jmp *%rax
1:  mov $11, %eax
    ret
2:  mov $22, %eax
    ret
3:  mov $0, %eax
    ret
.p2align 2
9:  .long 1b-9b, 3b-9b, 2b-9b
"""


@pytest.fixture
def assembled(folder: Path, tmp_path: Path) -> Assembler:
    assert folder.is_dir()
    return lambda body: assemble(tmp_path, function("f", body) + function("number", "ret") + function("other", "ret"))


def results(code: Assembled, *cases: Assumptions) -> list[set[Value]]:
    return [{*values} for values in returned_in_cases(code.image, code.symbols["f"], cases)]


def test_jump_table_by_argument(assembled: Assembler) -> None:
    code = assembled(f"mov %edi, %eax\n{SWITCH}")
    cases = [Assumptions({"rdi": number}) for number in (0, 1, 2, 3, 1 << 31)]
    assert results(code, *cases) == [{11}, {0}, {22}, {0}, {0}]


def test_jump_table_by_field(assembled: Assembler) -> None:
    code = assembled(f"mov 92(%rdi), %eax\n{SWITCH}")
    cases = [Assumptions({"rdi": ARGUMENT}, {(92,): number}) for number in (0, 2)]
    assert results(code, *cases, Assumptions({"rdi": ARGUMENT}, {(88,): 2})) == [{11}, {22}, {None, 0}]


@pytest.mark.parametrize("call", ["call number", "call number@PLT", "call *number@GOTPCREL(%rip)"])
def test_jump_table_by_what_a_call_returns(assembled: Assembler, call: str) -> None:
    code = assembled(f"push %rbx\n{call}\npop %rbx\n{SWITCH}")
    cases = [Assumptions(calls={"number": number}) for number in (0, 2)]
    assert results(code, *cases, Assumptions(calls={"other": 2})) == [{11}, {22}, {None, 0}]


@pytest.mark.parametrize("argument", [0, 1])
def test_a_word_of_the_stack_that_a_call_stores(assembled: Assembler, argument: int) -> None:
    register = ("rdi", "rsi")[argument]
    body = f"sub $24, %rsp\nlea 8(%rsp), %{register}\ncall 7f\nmov 16(%rsp), %rax\nadd $24, %rsp\nret\n7: ret"
    code = assembled(body)
    function = code.image.function("f")
    assert function
    called = function.address + function.size - 1
    cases = [{called: {(argument, 8): ARGUMENT}}, {called - 1: {(argument, 8): ARGUMENT}}, {called: {(argument, 0): ARGUMENT}}]
    assert results(code, *(Assumptions(outputs=outputs) for outputs in cases)) == [{ARGUMENT}, {None}, {None}]


def test_what_a_function_without_a_name_returns(assembled: Assembler) -> None:
    code = assembled("push %rbx\ncall 7f\npop %rbx\nret\n7: ret")
    function = code.image.function("f")
    assert function
    called = function.address + function.size - 1
    cases = [Assumptions(results={address: ARGUMENT}) for address in (called, called - 1)]
    assert results(code, *cases) == [{ARGUMENT}, {None}]


def test_nothing_is_left_of_the_case_before(assembled: Assembler) -> None:
    code = assembled("call number@PLT\nret")
    assert results(code, Assumptions(calls={"number": 5}), Assumptions(), Assumptions(calls={"number": 6})) == [
        {5},
        {None},
        {6},
    ]


@pytest.mark.parametrize(
    ("change", "condition", "taken"),
    [
        ("dec %edi", "e", {1: True, 2: False}),
        ("dec %edi", "s", {0: True, 1: False}),
        ("dec %edi", "g", {1: False, 2: True, 0: False}),
        ("inc %edi", "e", {0xFFFFFFFF: True, 0: False}),
        ("inc %edi", "l", {0x80000000: True, 0x7FFFFFFF: False}),
        ("dec %edi", "a", {1: None, 2: None}),
        ("inc %dil", "b", {255: None}),
    ],
)
def test_flags_of_counting(assembled: Assembler, change: str, condition: str, taken: dict[int, bool | None]) -> None:
    code = assembled(f"{change}\n{CHOICE.format(condition=condition)}")
    expected = {True: {1}, False: {2}, None: {1, 2}}
    assert results(code, *(Assumptions({"rdi": number}) for number in taken)) == [expected[each] for each in taken.values()]


def test_comparison_without_the_carry_flag() -> None:
    assert ComparisonFlags(1, 2, 4).taken("jb")
    assert ComparisonFlags(1, 2, 4, carry=False).taken("jb") is None
    assert ComparisonFlags(1, 2, 4, carry=False).taken("jl")


def test_comparison_that_leaves_only_the_carry_flag() -> None:
    assert ComparisonFlags(0, 1, 1, alone=True).taken("jb")
    assert ComparisonFlags(0, 1, 1, alone=True).taken("je") is None


@pytest.mark.parametrize(("condition", "other"), [("b", 2), ("ae", 1)])
def test_a_bit_that_is_tested(assembled: Assembler, condition: str, other: int) -> None:
    code = assembled(f"mov $0x14000, %eax\nbt %rdi, %rax\n{CHOICE.format(condition=condition)}")
    cases = [Assumptions({"rdi": number}) for number in (14, 15, 16, 64 + 14)]
    assert results(code, *cases) == [{3 - other}, {other}, {3 - other}, {3 - other}]
    assert results(code, Assumptions()) == [{1, 2}]


def test_a_condition_as_a_number(assembled: Assembler) -> None:
    code = assembled("xor %eax, %eax\ncmp $6, %edi\nsete %al\nadd $5, %eax\nret")
    assert results(code, Assumptions({"rdi": 6}), Assumptions({"rdi": 7}), Assumptions()) == [{6}, {5}, {None}]


def test_a_complement_leaves_the_flags(assembled: Assembler) -> None:
    code = assembled("mov %edi, %eax\ncmp $6, %edi\nnot %eax\nje 1f\nnot %al\n1: ret")
    assert results(code, Assumptions({"rdi": 6}), Assumptions({"rdi": 5}), Assumptions()) == [
        {0xFFFFFFF9},
        {0xFFFFFF05},
        {None},
    ]


def test_shifts(assembled: Assembler) -> None:
    code = assembled("mov %edi, %eax\nmov %esi, %ecx\nshr %cl, %eax\nshl $4, %eax\nret")
    assert results(
        code, Assumptions({"rdi": 0x1234, "rsi": 8}), Assumptions({"rdi": 0x1234, "rsi": 40}), Assumptions({"rdi": 1})
    ) == [
        {0x120},
        {0x120},
        {None},
    ]


KEEP = "movups %xmm0, -24(%rsp)"
LOW, HIGH = "mov -24(%rsp), %rax\nret", "mov -16(%rsp), %rax\nret"


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (f"movq %rdi, %xmm0\n{KEEP}\n{LOW}", ARGUMENT),
        (f"movq %rdi, %xmm0\n{KEEP}\n{HIGH}", 0),
        (f"pxor %xmm0, %xmm0\nmovq %rdi, %xmm1\npunpcklqdq %xmm1, %xmm0\n{KEEP}\n{LOW}", 0),
        (f"pxor %xmm0, %xmm0\nmovq %rdi, %xmm1\npunpcklqdq %xmm1, %xmm0\n{KEEP}\n{HIGH}", ARGUMENT),
        (f"movq %rdi, %xmm1\nmovaps %xmm1, %xmm0\n{KEEP}\n{LOW}", ARGUMENT),
        ("movq %rdi, %xmm0\nmovq %xmm0, %rax\nret", ARGUMENT),
        ("movq %rdi, %xmm0\nmovq %xmm0, -8(%rsp)\nmov -8(%rsp), %rax\nret", ARGUMENT),
        ("movq %rdi, %xmm0\npunpcklqdq %xmm0, %xmm0\nmovhps %xmm0, -8(%rsp)\nmov -8(%rsp), %rax\nret", ARGUMENT),
        (f"movq $5, -24(%rsp)\nmovdqu (%rdi), %xmm0\n{KEEP}\n{LOW}", LoadedField((0,))),
        (f"movq $5, -24(%rsp)\nmovdqu 16(%rdi), %xmm0\n{KEEP}\n{HIGH}", LoadedField((24,))),
        (f"movq %rdi, %xmm0\nsub $8, %rsp\ncall other\nadd $8, %rsp\n{KEEP}\n{LOW}", None),
        (f"movq %rdi, %xmm0\nvpaddq %ymm1, %ymm1, %ymm0\n{KEEP}\n{LOW}", None),
        (f"movq %rdi, %xmm0\npxor %xmm1, %xmm0\n{KEEP}\n{LOW}", None),
        (f"movq %rdi, %xmm0\nmovhps (%rdi), %xmm0\n{KEEP}\n{LOW}", None),
    ],
)
def test_vector_registers_that_move_pointers(assembled: Assembler, body: str, value: Value) -> None:
    assert results(assembled(body), Assumptions({"rdi": ARGUMENT})) == [{value}]


GUARDED = "{load}\nmov %rdi, %rdx\n{compare}\njne 1f\nmov $3, %eax\nret\n1: mov $7, %eax\nret"


@pytest.mark.parametrize(
    ("load", "compare", "values"),
    [
        ("", "sub %fs:0x28, %rdx", {3}),
        ("", "xor %fs:0x28, %rdx", {3}),
        ("mov %fs:0x28, %rax\nmov %rax, -8(%rsp)", "mov %fs:0x28, %rax\ncmp -8(%rsp), %rax", {3}),
        ("", "sub %fs:0x30, %rdx", {3, 7}),
        ("", "sub %gs:0x28, %rdx", {3, 7}),
        ("", "sub 0x28(%rdi), %rdx", {3, 7}),
    ],
)
def test_the_guard_of_the_stack_is_as_it_was(assembled: Assembler, load: str, compare: str, values: set[Value]) -> None:
    """Else the program ends, in a function that evaluation doesn't know to have no way back."""
    assert results(assembled(GUARDED.format(load=load, compare=compare)), Assumptions()) == [values]


def test_bits_of_two_numbers(assembled: Assembler) -> None:
    """As a length of three bytes is put together."""
    code = assembled("movzbl (%rdi), %eax\nshl $8, %rax\nmovzbl 1(%rdi), %ecx\nor %rcx, %rax\nret")
    assert results(code, Assumptions({"rdi": ARGUMENT}, {(0,): 1, (1,): 2}), Assumptions()) == [{0x102}, {None}]
    assert results(assembled("mov $6, %eax\nmov $3, %ecx\nxor %ecx, %eax\nret"), Assumptions()) == [{5}]
