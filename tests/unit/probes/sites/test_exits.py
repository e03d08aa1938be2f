# SPDX-License-Identifier: Apache-2.0
"""The choice of exit sites: each way out covered once, by the cheapest instruction that is certain."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.fixtures.assembled import Assembled, function

from ssllatency.abi import Convention
from ssllatency.code.flow import Unplannable
from ssllatency.code.machine import Cost
from ssllatency.probes.plan import Probe, Role

Assembler = Callable[[str], Assembled]

GUARD = "mov 8(%rsp), %rdx\nsub %fs:0x28, %rdx\n"
FAIL = "9: call __stack_chk_fail@PLT\n"
TAIL_OF = "xor %edx, %edx\nxor %esi, %esi\n"  # -fzero-call-used-regs


def only_exit(code: Assembled, **properties: object) -> Probe:
    plan = code.plan(**properties)  # type: ignore[arg-type]
    exits = [probe for probe in plan.probes if probe.role is Role.EXIT]
    assert len(exits) == 1
    return exits[0]


def test_stack_protector_branch(assembled: Assembler) -> None:
    code = assembled(
        function(
            "f",
            f"at_a: push %rbx\nsub $0x10, %rsp\ncall other@PLT\n{GUARD}at_x: jne 9f\n"
            f"add $0x10, %rsp\npop %rbx\n{TAIL_OF}ret\n{FAIL}",
        )
    )
    probe = only_exit(code)
    assert code.label(probe.address) == "at_x"
    assert (probe.return_register, probe.stack_delta, probe.cost) == ("rax", 0x18, Cost.EMULATED)


def test_value_moved_to_its_register_after_the_branch(assembled: Assembler) -> None:
    code = assembled(
        function(
            "f",
            f"at_a: push %rbx\nsub $0x10, %rsp\ncall other@PLT\nmov %eax, %ebx\n{GUARD}at_x: jne 9f\n"
            f"add $0x10, %rsp\nmov %ebx, %eax\npop %rbx\nat_r: ret\n{FAIL}",
        )
    )
    assert only_exit(code).return_register == "rbx"
    # A 32-bit move doesn't carry a pointer.
    assert code.label(only_exit(code, convention=Convention.POINTER).address) == "at_r"


@pytest.mark.parametrize(
    "after",
    [
        "mov 4(%rsp), %eax\n",  # from memory
        "mov $20, %eax\n",  # a constant that is too large
        "movzbl %bl, %eax\n",  # of one byte
        "xor %eax, %eax\ntest %ebx, %ebx\nsetg %al\n",
        "cmove %ebx, %eax\n",
    ],
)
def test_value_that_is_in_no_register_at_the_branch_is_taken_at_the_return(assembled: Assembler, after: str) -> None:
    code = assembled(
        function(
            "f",
            f"at_a: push %rbx\nsub $0x10, %rsp\ncall other@PLT\nmov %eax, %ebx\n{GUARD}jne 9f\n{after}"
            f"add $0x10, %rsp\npop %rbx\nat_r: ret\n{FAIL}",
        )
    )
    probe = only_exit(code)
    assert code.label(probe.address) == "at_r"
    assert (probe.return_register, probe.stack_delta, probe.cost) == ("rax", 0, Cost.SINGLE_STEPPED)


def test_one_branch_covers_two_returns(assembled: Assembler) -> None:
    code = assembled(
        function(
            "f",
            "at_a: push %rbx\ncall other@PLT\ntest %rbx, %rbx\nat_x: je 1f\npop %rbx\nret\n1: pop %rbx\nxor %ecx, %ecx\nret\n",
        )
    )
    probe = only_exit(code)
    assert (code.label(probe.address), probe.return_register, probe.stack_delta) == ("at_x", "rax", 8)


def test_branch_whose_ways_have_the_value_in_different_registers(assembled: Assembler) -> None:
    code = assembled(
        function(
            "f",
            "at_a: push %rbx\ncall other@PLT\ntest %rbx, %rbx\nje 1f\npop %rbx\nat_q: ret\n"
            "1: mov %ecx, %eax\npop %rbx\nat_r: ret\n",
        )
    )
    assert code.exits(code.plan()) == ["at_q", "at_r"]


def test_jumps_that_meet_before_one_return_cover_it_together(assembled: Assembler) -> None:
    code = assembled(
        function(
            "f",
            "at_a: push %rbx\ncall other@PLT\ntest %eax, %eax\nje 1f\ncall other@PLT\nat_x: jmp 2f\n"
            "1: call third@PLT\nat_y: jmp 2f\nud2\n2: pop %rbx\nret\n",
        )
    )
    assert code.exits(code.plan()) == ["at_x", "at_y"]


def test_jump_that_meets_what_falls_through_covers_nothing(assembled: Assembler) -> None:
    code = assembled(
        function(
            "f",
            "at_a: push %rbx\ncall other@PLT\ntest %eax, %eax\nje 1f\ncall other@PLT\nat_x: jmp 2f\n"
            "1: call third@PLT\n2: pop %rbx\nat_r: ret\n",
        )
    )
    assert code.exits(code.plan()) == ["at_r"]


def test_branch_in_a_loop_is_no_way_out(assembled: Assembler) -> None:
    code = assembled(function("f", "at_a: push %rbx\ncall other@PLT\n1: dec %rbx\nat_x: jne 1b\npop %rbx\nat_r: ret\n"))
    assert code.exits(code.plan()) == ["at_r"]


def test_branch_past_a_loop_is(assembled: Assembler) -> None:
    code = assembled(
        function(
            "f",
            f"at_a: push %rbx\nsub $0x10, %rsp\n1: call other@PLT\ndec %rbx\njne 1b\n{GUARD}at_x: jne 9f\n"
            f"add $0x10, %rsp\npop %rbx\nret\n{FAIL}",
        )
    )
    assert code.exits(code.plan()) == ["at_x"]


def test_branch_before_a_call_is_no_way_out(assembled: Assembler) -> None:
    code = assembled(
        function(
            "f",
            "at_a: push %rbx\ncall other@PLT\nat_x: jmp 1f\nud2\n1: mov %eax, %ebx\ncall free@PLT\n"
            "mov %ebx, %eax\npop %rbx\nat_r: ret\n",
        )
    )
    assert code.exits(code.plan()) == ["at_r"]


def test_in_a_leaf_no_exit_before_the_entry_site(assembled: Assembler) -> None:
    code = assembled(function("f", "at_a: mov %edi, %eax\ntest %esi, %esi\nat_b: je 1f\nat_q: ret\n1: at_r: ret\n"))
    plan = code.plan()
    assert code.entry(plan) == "at_b"
    assert code.exits(plan) == ["at_q", "at_r"]


def test_call_that_never_returns_ends_the_way(assembled: Assembler) -> None:
    """What follows abort() is another way's code: here one with another stack depth."""
    code = assembled(
        function(
            "f",
            "at_a: push %rbx\ncall other@PLT\ntest %eax, %eax\nje 1f\nat_x: jmp 2f\n1: push %rax\ncall abort@PLT\n"
            "2: pop %rbx\nat_r: ret\n",
        )
    )
    plan = code.plan()
    assert code.exits(plan) == ["at_x"]


def test_call_at_the_end_of_the_function_never_returns(assembled: Assembler) -> None:
    code = assembled(
        function(
            "f", "at_a: push %rbx\ncall other@PLT\ntest %rbx, %rbx\nat_x: jne 1f\npop %rbx\nret\n1: call die@PLT\nnopl (%rax)\n"
        )
    )
    assert code.exits(code.plan()) == ["at_x"]


def test_function_that_never_returns(assembled: Assembler) -> None:
    code = assembled(function("f", "at_a: push %rbx\n1: call other@PLT\njmp 1b\n"))
    with pytest.raises(Unplannable, match="never returns"):
        code.plan()


def test_frame_pointer_and_aligned_stack(assembled: Assembler) -> None:
    code = assembled(
        function(
            "f",
            "at_a: push %rbp\nmov %rsp, %rbp\npush %rbx\nand $-64, %rsp\nsub $64, %rsp\ncall other@PLT\n"
            "test %ecx, %ecx\njne 9f\nlea -8(%rbp), %rsp\ntest %ecx, %ecx\nat_x: jne 9f\npop %rbx\npop %rbp\nret\n"
            f"{FAIL}",
        )
    )
    probe = only_exit(code)
    assert (code.label(probe.address), probe.stack_delta) == ("at_x", 16)


def test_branch_at_an_unknown_stack_depth_is_no_site(assembled: Assembler) -> None:
    code = assembled(
        function(
            "f",
            "at_a: push %rbp\nmov %rsp, %rbp\nand $-64, %rsp\ncall other@PLT\ntest %ecx, %ecx\njne 9f\nleave\nat_r: ret\n"
            f"{FAIL}",
        )
    )
    assert code.exits(code.plan()) == ["at_r"]


def test_part_moved_away_belongs_to_the_function(assembled: Assembler) -> None:
    cold = function(
        "f_cold", "call other@PLT\nadd $8, %rsp\nat_q: ret\n2: call other@PLT\nat_y: jmp at_join\n", binding=".local"
    )
    code = assembled(
        function(
            "f",
            "sub $8, %rsp\nat_a: call other@PLT\ntest %eax, %eax\nje f_cold\njs f_cold + 10\ncall other@PLT\n"
            "at_x: jmp at_join\nud2\nat_join: add $8, %rsp\nret\n",
        )
        + cold
    )
    plan = code.plan()
    assert code.exits(plan) == ["at_q", "at_x", "at_y"]
    assert not any(probe.shared for probe in plan.probes)


UNBALANCED = "at_a: push %rbx\ncall other@PLT\nret\n"
OVERLAPPING = "at_a: push %rbx\ntest %eax, %eax\nje 1f + 1\n1: mov $0xc35b, %eax\npop %rbx\nret\n"
RUNNING_OFF = "at_a: push %rbx\ncall other@PLT\npop %rbx\n"
UNDECODABLE = "at_a: push %rbx\ntest %eax, %eax\nje 1f\npop %rbx\nret\n1: .byte 0x06\n"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (UNBALANCED, "the stack doesn't balance"),
        (OVERLAPPING, "overlap"),
        (RUNNING_OFF, "runs off its end"),
        (UNDECODABLE, "can't be decoded"),
    ],
)
def test_code_that_no_compiler_makes_is_left_out(assembled: Assembler, body: str, reason: str) -> None:
    with pytest.raises(Unplannable, match=reason):
        assembled(function("f", body)).plan()


def test_function_without_known_end_is_left_out(assembled: Assembler) -> None:
    code = assembled(".globl f\n.type f, @function\nf: push %rbx\npop %rbx\nret\n")
    with pytest.raises(Unplannable, match="end isn't known"):
        code.plan()


def test_function_without_unwind_table_has_the_size_of_its_symbol(assembled: Assembler) -> None:
    code = assembled(".globl f\n.type f, @function\nf: at_a: push %rbx\npop %rbx\nat_r: ret\n.size f, .-f\n")
    assert code.exits(code.plan()) == ["at_r"]
