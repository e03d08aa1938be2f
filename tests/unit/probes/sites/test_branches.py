# SPDX-License-Identifier: Apache-2.0
"""Exit sites on branches whose direction tells what is returned, constants, and the ways of size queries."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.fixtures.assembled import Assembled, function

from ssllatency.abi import Convention, Returns
from ssllatency.probes.costs import cost_ns, failing_ns
from ssllatency.probes.plan import Leaving, OperationPlan, Probe, Role
from ssllatency.stacks.operation import ReturnValue

Assembler = Callable[[str], Assembled]

HEAD = "at_a: push %rbx\nsub $0x10, %rsp\n"
FOOT = "add $0x10, %rsp\npop %rbx\n"


def exits(plan: OperationPlan) -> list[Probe]:
    return [probe for probe in plan.probes if probe.role is Role.EXIT]


def notes(code: Assembled, plan: OperationPlan) -> dict[str, str]:
    return {code.label(probe.address): probe.value_note() for probe in exits(plan)}


def test_a_branch_tells_which_constant_is_returned(assembled: Assembler) -> None:
    body = f"{HEAD}call other@PLT\ntest %eax, %eax\nat_x: jle 1f\nmov $1, %eax\n{FOOT}ret\n1: xor %eax, %eax\n{FOOT}ret\n"
    code = assembled(function("f", body))
    plan = code.plan()
    assert notes(code, plan) == {"at_x": "value 0 if jle, else 1"}
    (leaving,) = exits(plan)
    assert (leaving.leaving, leaving.taken_value, leaving.other_value) == (Leaving.BOTH, 0, 1)
    assert (leaving.return_register, leaving.stack_delta, leaving.fails) == ("", 0x18, False)
    assert cost_ns(plan) == failing_ns(plan) == 1000


def test_one_direction_is_the_way_out_and_the_other_goes_on(assembled: Assembler) -> None:
    """As in ecx_derive: success leaves by a branch, an error is reported first and leaves by the `ret`."""
    failing = f"call report@PLT\nxor %eax, %eax\n{FOOT}at_r: ret\n"
    body = f"{HEAD}call other@PLT\ntest %eax, %eax\nat_x: jne 1f\n{failing}1: mov $1, %eax\n{FOOT}ret\n"
    code = assembled(function("f", body))
    plan = code.plan()
    assert notes(code, plan) == {"at_x": "value 1 if jne", "at_r": "value in rax"}
    first, second = sorted(exits(plan), key=lambda probe: probe.address)
    assert (first.leaving, first.passed, first.fails) == (Leaving.TAKEN, 0, False)
    assert (second.leaving, second.passed, second.fails) == (Leaving.BOTH, 1, True)
    assert (cost_ns(plan), failing_ns(plan)) == (1000, 6000)


def test_the_way_that_isnt_taken_may_be_the_way_out(assembled: Assembler) -> None:
    failing = f"1: call report@PLT\nxor %eax, %eax\n{FOOT}at_r: ret\n"
    body = f"{HEAD}call other@PLT\ntest %eax, %eax\nat_x: je 1f\nmov $1, %eax\n{FOOT}ret\n{failing}"
    code = assembled(function("f", body))
    assert notes(code, code.plan()) == {"at_x": "value 1 if not je", "at_r": "value in rax"}


def test_a_register_in_one_direction_and_a_constant_in_the_other(assembled: Assembler) -> None:
    body = (
        f"{HEAD}call other@PLT\nmov %eax, %ebx\ncall third@PLT\ntest %eax, %eax\nat_x: je 1f\nmov %ebx, %eax\n{FOOT}ret\n"
        f"1: or $-1, %eax\n{FOOT}ret\n"
    )
    code = assembled(function("f", body))
    assert notes(code, code.plan()) == {"at_x": "value -1 if je, else in rbx"}


def test_two_registers_have_no_room(assembled: Assembler) -> None:
    body = (
        f"{HEAD}call other@PLT\nmov %eax, %ebx\ncall third@PLT\ntest %eax, %eax\nje 1f\nmov %ebx, %eax\n{FOOT}at_q: ret\n"
        f"1: mov %ebp, %eax\n{FOOT}at_r: ret\n"
    )
    code = assembled(function("f", body))
    assert code.exits(code.plan()) == ["at_q", "at_r"]


@pytest.mark.parametrize(("written", "planned"), [(-2, "at_x"), (11, "at_x"), (-3, "at_r"), (12, "at_r")])
def test_only_small_constants_have_room(assembled: Assembler, written: int, planned: str) -> None:
    code = assembled(function("f", f"{HEAD}call other@PLT\nat_x: jmp 1f\nud2\n1: mov ${written}, %eax\n{FOOT}at_r: ret\n"))
    plan = code.plan()
    assert code.exits(plan) == [planned]
    assert exits(plan)[0].value_note() == (f"value {written}" if planned == "at_x" else "value in rax")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("mov $1, %eax", "1"),
        ("mov $1, %rax", "1"),
        ("movabs $1, %rax", "1"),
        ("xor %eax, %eax", "0"),
        ("sub %rax, %rax", "0"),
        ("or $-1, %rax", "-1"),
        ("mov $-1, %rax", "-1"),
        ("mov $-1, %eax", ""),  # 2^32 - 1 as a pointer
        ("mov $1, %al", ""),
        ("mov $1, %ax", ""),
        ("xor %ax, %ax", ""),
        ("xor %ebx, %eax", ""),
        ("and $-1, %eax", ""),
        ("or $1, %eax", ""),
    ],
)
def test_what_sets_a_pointer_to_a_constant(assembled: Assembler, setting: str, value: str) -> None:
    code = assembled(function("f", f"{HEAD}call other@PLT\nat_x: jmp 1f\nud2\n1: {setting}\n{FOOT}at_r: ret\n"))
    plan = code.plan(convention=Convention.POINTER)
    assert notes(code, plan) == ({"at_x": f"value {value}"} if value else {"at_r": "value in rax"})


def test_a_branch_in_a_loop_is_no_site(assembled: Assembler) -> None:
    body = f"{HEAD}1: call other@PLT\ntest %eax, %eax\njne 2f\ndec %rbx\njne 1b\n2: mov $1, %eax\n{FOOT}at_r: ret\n"
    code = assembled(function("f", body))
    assert code.exits(code.plan()) == ["at_r"]


def test_no_call_pays_for_one_that_fails(assembled: Assembler) -> None:
    """A branch that only failed calls leave by would be passed by all the others."""
    good = f"call third@PLT\nmov 8(%rsp), %rdx\nsub %fs:0x28, %rdx\nat_x: jne 9f\n{FOOT}ret\n"
    body = (
        f"{HEAD}call other@PLT\ntest %eax, %eax\nje 1f\n{good}1: xor %eax, %eax\n{FOOT}at_r: ret\n9: call __stack_chk_fail@PLT"
    )
    code = assembled(function("f", body))
    plan = code.plan()
    assert code.exits(plan) == ["at_r", "at_x"]
    assert (cost_ns(plan), failing_ns(plan)) == (1000, 5500)
    plan = code.plan(returns=Returns.NEGATIVE_ERROR)  # where 0 is success, it is one of the ways out
    assert (cost_ns(plan), failing_ns(plan)) == (1500, 1500)


def test_an_engine_may_do_without_branches(assembled: Assembler) -> None:
    body = f"{HEAD}call other@PLT\ntest %eax, %eax\njle 1f\nmov $1, %eax\n{FOOT}at_q: ret\n1: xor %eax, %eax\n{FOOT}at_r: ret\n"
    code = assembled(function("f", body))
    plan = code.plan(branch_exits=False)
    assert notes(code, plan) == {"at_q": "value in rax", "at_r": "value in rax"}


# Size queries.

QUERY = "at_a: push %rbx\nmov %rsi, %rbx\ncall ready@PLT\n{test}\n{branch}\n{real}1: call size@PLT\npop %rbx\nat_q: ret\n"
REAL = "call work@PLT\nat_x: jmp 2f\nud2\n2: pop %rbx\nret\n"


@pytest.mark.parametrize(
    ("test", "branch", "known"),
    [
        ("test %rbx, %rbx", "je 1f", True),
        ("cmp $0, %rbx", "je 1f", True),
        ("test %rbx, %rbx\nmov %rbx, %rcx", "je 1f", True),
        ("test %rbx, %rbx", "jne 3f\njmp 1f\n3:", True),
        ("test %ebx, %ebx", "je 1f", False),  # half of the pointer
        ("test %rdi, %rdi", "je 1f", False),  # another register
        ("test %rbx, %rbx", "js 1f", False),
        ("test %rbx, %rbx\nadd $1, %rcx", "je 1f", False),  # other flags
        ("mov %rax, %rbx\ntest %rbx, %rbx", "je 1f", False),  # no longer the argument
        ("mov %ebx, %ebp\ntest %rbp, %rbp", "je 1f", False),  # not the whole of it
        ("test %rbx, %rbx", "3: je 1f\ndec %rdi\njne 3b", False),  # comes from elsewhere as well
    ],
)
def test_the_way_of_a_size_query_needs_no_exit(assembled: Assembler, test: str, branch: str, known: bool) -> None:
    code = assembled(function("f", QUERY.format(test=test, branch=branch, real=REAL)))
    plan = code.plan(skip_null=1)
    assert code.exits(plan) == (["at_x"] if known else ["at_q", "at_x"])
    assert code.exits(code.plan()) == ["at_q", "at_x"]  # where no argument matters


def test_a_buffer_that_two_ways_bring_in_different_registers_isnt_known(assembled: Assembler) -> None:
    brought = "test %edi, %edi\nje 4f\nmov %rdx, %rbx\njmp 5f\n4: mov %rsi, %rbx\n5: call ready@PLT\n"
    body = f"at_a: push %rbx\n{brought}test %rbx, %rbx\nje 1f\n{REAL}1: call size@PLT\npop %rbx\nat_q: ret\n"
    code = assembled(function("f", body))
    assert code.exits(code.plan(skip_null=1)) == ["at_q", "at_x"]


# What a return value means.


@pytest.mark.parametrize(
    ("convention", "good", "bad"),
    [
        (Convention.ONE, [1], [0, -1, 2]),
        (Convention.SSL_HANDSHAKE, [1], [0, -1, 2]),
        (Convention.SSL_IO, [1, 11], [0, -1]),
        (Convention.SSL_EX, [1, 2], [0, -1]),
        (Convention.POSITIVE, [1, 2], [0, -1]),
        (Convention.SSL_SHUTDOWN, [0, 1], [-1]),
        (Convention.LENGTH, [0, 1], [-1]),
        (Convention.POINTER, [1, -1], [0]),
        (Convention.MBX8, [0, 2, 3], [1, 8]),
        (Convention.NONE, [0, 1, -1], []),
    ],
)
def test_which_constants_are_success(convention: Convention, good: list[int], bad: list[int]) -> None:
    assert [value for value in (*good, *bad) if ReturnValue(convention).is_success(value)] == good


@pytest.mark.parametrize(
    ("returns", "convention", "good", "bad"),
    [
        (Returns.NEGATIVE_ERROR, Convention.SSL_HANDSHAKE, [0, 1], [-1, -28]),
        (Returns.NEGATIVE_ERROR, Convention.SSL_IO, [1, 11], [0, -28]),  # 0: the peer has closed
        (Returns.NEGATIVE_ERROR, Convention.LENGTH, [0, 11], [-28]),
        (Returns.GO_ERROR, Convention.SSL_HANDSHAKE, [0], [1, -1]),
        (Returns.GO_ERROR, Convention.SSL_IO, [0], [1 << 32, -1]),
    ],
)
def test_which_constants_are_success_where_errors_are_told_otherwise(
    returns: Returns, convention: Convention, good: list[int], bad: list[int]
) -> None:
    assert [value for value in (*good, *bad) if ReturnValue(convention, returns).is_success(value)] == good


@pytest.mark.parametrize(("prefix", "planned"), [("", ["at_x"]), (".byte 0x3e\n", ["at_q", "at_r"])])
def test_a_branch_with_a_prefix_is_left_alone(assembled: Assembler, prefix: str, planned: list[str]) -> None:
    """The kernel doesn't emulate it."""
    label = "" if prefix else "at_x: "
    ways = f"mov $1, %eax\n{FOOT}at_q: ret\n1: xor %eax, %eax\n{FOOT}at_r: ret\n"
    code = assembled(function("f", f"{HEAD}call other@PLT\ntest %eax, %eax\n{prefix}{label}jle 1f\n{ways}"))
    assert code.exits(code.plan()) == planned
