# SPDX-License-Identifier: Apache-2.0
"""The choice of the entry site, and of the site of a return probe."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.fixtures.assembled import Assembled, function

from ssllatency.code.flow import Unplannable
from ssllatency.code.machine import Cost, Emulation
from ssllatency.probes.plan import OperationPlan, Probe, Role

Assembler = Callable[[str], Assembled]
CALL = "call other@PLT\n"


def entry(plan: OperationPlan) -> Probe:
    return next(probe for probe in plan.probes if probe.role is not Role.EXIT)


@pytest.mark.parametrize(
    ("body", "label", "delta", "cost"),
    [
        ("at_a: push %rbx\n", "at_a", 0, Cost.EMULATED),
        ("endbr64\nat_a: push %rbx\n", "at_a", 0, Cost.EMULATED),
        ("mov %rsi, %rax\nat_a: push %r12\n", "at_a", 0, Cost.EMULATED),
        ("at_a: sub $0x18, %rsp\nmov %rsi, %rax\nadd $0x18, %rsp\nret\n", "at_a", 0, Cost.SINGLE_STEPPED),
        ("endbr64\nsub $0x18, %rsp\ntest %edx, %edx\nat_a: js 1f\n1: add $0x18, %rsp\nret\n", "at_a", 0x18, Cost.EMULATED),
        ("sub $8, %rsp\nat_a: call other@PLT\nadd $8, %rsp\nret\n", "at_a", 8, Cost.EMULATED),
        ("sub $8, %rsp\nat_a: jmp 1f\nud2\n1: add $8, %rsp\nret\n", "at_a", 8, Cost.EMULATED),
        ("cs nopw 0(%rax,%rax,1)\nat_a: push %rbx\n", "at_a", 0, Cost.EMULATED),
        ("xchg %eax, %r8d\npause\nat_a: sub $8, %rsp\nmov %rsi, %rax\nadd $8, %rsp\nret\n", "at_a", 0, Cost.SINGLE_STEPPED),
    ],
)
def test_first_cheap_instruction_of_the_straight_line(
    assembled: Assembler, body: str, label: str, delta: int, cost: Cost
) -> None:
    ending = "" if "ret" in body else f"{CALL}{'pop %r12' if 'r12' in body else 'pop %rbx'}\nret\n"
    code = assembled(function("f", body + "at_end: " + (ending or "nop\n")))
    probe = entry(code.plan(ssl_argument=True))
    assert code.label(probe.address) == label
    assert (probe.stack_delta, probe.cost, probe.return_register) == (delta, cost, "")


def test_argument_must_still_be_in_its_register(assembled: Assembler) -> None:
    code = assembled(function("f", f"at_a: mov %rdi, %rax\nat_b: xor %edi, %edi\nat_c: push %rbx\n{CALL}pop %rbx\nat_r: ret\n"))
    assert code.entry(code.plan()) == "at_c"
    assert code.entry(code.plan(ssl_argument=True)) == "at_a"
    assert code.entry(code.plan(skip_null=0)) == "at_a"
    assert code.entry(code.plan(skip_null=1)) == "at_c"


@pytest.mark.parametrize(
    ("before", "kept"),
    [
        ("", True),
        ("mov %rcx, %rax\n", True),
        ("mov %rcx, %r8\nxor %ecx, %ecx\n", False),
        ("xchg %rcx, %rax\n", False),
        ("mov $1, %cl\n", False),
    ],
)
def test_the_site_isnt_dearer_for_a_length_and_the_plan_says_if_it_is_still_there(
    assembled: Assembler, before: str, kept: bool
) -> None:
    code = assembled(function("f", f"{before}at_a: push %rbx\n{CALL}pop %rbx\nat_r: ret\n"))
    plan = code.plan(length_argument=3)
    assert code.entry(plan) == "at_a"
    assert [probe.keeps_length for probe in plan.probes] == [kept, False]
    assert not any(probe.keeps_length for probe in code.plan().probes)


def test_a_jump_back_bounds_the_straight_line(assembled: Assembler) -> None:
    code = assembled(function("f", f"at_a: mov %rdi, %rax\n1: nop\ndec %rax\njne 1b\npush %rbx\n{CALL}pop %rbx\nat_r: ret\n"))
    assert code.entry(code.plan()) == "at_a"


def test_a_loop_through_the_first_instruction_has_no_entry_site(assembled: Assembler) -> None:
    code = assembled(function("f", "at_a: push %rbx\npop %rbx\ndec %rdi\njne f\nat_r: ret\n"))
    with pytest.raises(Unplannable, match="first instruction is part of a loop"):
        code.plan()


def test_loop_past_the_landing_pad_leaves_the_landing_pad(assembled: Assembler) -> None:
    code = assembled(function("f", "at_a: endbr64\n1: push %rbx\npop %rbx\ndec %rdi\njne 1b\nat_r: ret\n"))
    assert code.entry(code.plan()) == "at_a"


def test_recursion_is_no_loop(assembled: Assembler) -> None:
    code = assembled(function("f", "at_a: push %rbx\ndec %rdi\nje 1f\ncall f\n1: pop %rbx\nat_r: ret\n"))
    assert code.entry(code.plan()) == "at_a"


def test_5_byte_nop_is_optimised_but_not_in_a_leaf(assembled: Assembler) -> None:
    newest = Emulation(multibyte_nops=True, optimised_nop5=True)
    nop = "at_a: .byte 0x0f, 0x1f, 0x44, 0, 0\nat_b: push %rbx\n"
    calling = assembled(function("f", f"{nop}{CALL}pop %rbx\nat_r: ret\n"))
    assert entry(calling.plan(emulation=newest)).cost is Cost.OPTIMISED
    assert calling.entry(calling.plan()) == "at_b"
    leaf = assembled(function("f", f"{nop}mov %rdi, -8(%rsp)\npop %rbx\nat_r: ret\n"))
    assert leaf.entry(leaf.plan(emulation=newest)) == "at_b"


def test_multibyte_nop_where_the_kernel_emulates_it(assembled: Assembler) -> None:
    code = assembled(function("f", f"at_a: nopl (%rax)\nat_b: push %rbx\n{CALL}pop %rbx\nat_r: ret\n"))
    assert code.entry(code.plan()) == "at_b"
    assert code.entry(code.plan(emulation=Emulation(multibyte_nops=True))) == "at_a"


RETURNING = "at_a: sub $8, %rsp\ntest %rdi, %rdi\nat_b: je 1f\ncall other@PLT\n1: add $8, %rsp\nat_r: ret\n"


def test_return_probe_only_while_the_return_address_is_on_top(assembled: Assembler) -> None:
    code = assembled(function("f", RETURNING))
    plan = code.plan(async_job=False, prefer=True)
    assert code.labels(plan, Role.RETURN) == ["at_a"]
    assert entry(plan).stack_delta == 0
    assert entry(plan).cost is Cost.SINGLE_STEPPED


def test_return_probe_at_a_branch_before_any_push(assembled: Assembler) -> None:
    body = f"test %rdi, %rdi\nat_a: je 1f\npush %rbx\n{CALL}pop %rbx\n1: ret\n"
    code = assembled(function("f", body))
    assert code.labels(code.plan(async_job=False, prefer=True), Role.RETURN) == ["at_a"]


@pytest.mark.parametrize("call", ["call other@PLT", "call *%rax"])
def test_a_shadow_stack_forbids_a_site_on_a_call(assembled: Assembler, call: str) -> None:
    code = assembled(function("f", f"at_a: sub $8, %rsp\nat_b: {call}\nadd $8, %rsp\nat_r: ret\n"))
    allowed = "at_b" if call.endswith("PLT") else "at_a"
    assert code.entry(code.plan()) == allowed
    assert code.entry(code.plan(emulation=Emulation(calls=False))) == "at_a"
