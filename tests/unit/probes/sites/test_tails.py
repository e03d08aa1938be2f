# SPDX-License-Identifier: Apache-2.0
"""Ways out through jumps: jump tables, tail calls by name, and tail calls through OpenSSL's method tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.fixtures.assembled import Assembled, function

from ssllatency.code.flow import Unplannable
from ssllatency.probes.plan import Role
from ssllatency.stacks.openssl.tables.tails import handshake_slots

Assembler = Callable[[str], Assembled]

CASES = "{label}: call other@PLT\nat_x{number}: jmp 8f\nud2\n"
TABLE_BODY = (
    "at_a: push %rbx\n{bound}{load}{jump}"
    + "".join(CASES.format(label=f"case{number}", number=number) for number in range(3))
    + "7: call other@PLT\nat_y: jmp 8f\nud2\n8: pop %rbx\nat_r: ret\n"
)
TABLE = ".section .rodata\n.p2align 2\ntable: .long case0 - table, case1 - table, case2 - table, 0x7fffffff\n.text\n"
OFFSETS = "lea table(%rip), %rdx\nmovslq (%rdx,%rax,4), %rax\nadd %rdx, %rax\n"
BOUND = "cmp $2, %edi\nja 7f\nmov %edi, %eax\n"


@pytest.mark.parametrize(
    ("bound", "load", "jump"),
    [
        (BOUND, OFFSETS, "jmp *%rax\n"),
        (BOUND, OFFSETS, "notrack jmp *%rax\n"),
        ("mov %edi, %eax\ncmp $3, %eax\njae 7f\n", OFFSETS, "jmp *%rax\n"),
        ("movzbl %dil, %eax\ncmp $2, %dil\nja 7f\n", OFFSETS, "jmp *%rax\n"),
        ("cmpl $2, 0x84(%rdi)\nja 7f\nmov 0x84(%rdi), %eax\n", OFFSETS, "jmp *%rax\n"),
        ("mov 0x84(%rdi), %eax\ncmpl $2, 0x84(%rdi)\nja 7f\n", OFFSETS, "jmp *%rax\n"),
        ("lea table(%rip), %r12\ncmp $2, %edi\nja 7f\n", "movslq (%r12,%rdi,4), %rdx\nadd %r12, %rdx\n", "jmp *%rdx\n"),
        (BOUND, "lea table(%rip), %rdx\nmovslq (%rdx,%rax,4), %rax\nadd %rax, %rdx\n", "jmp *%rdx\n"),
    ],
)
def test_bounded_jump_table_is_followed(assembled: Assembler, bound: str, load: str, jump: str) -> None:
    code = assembled(function("f", TABLE_BODY.format(bound=bound, load=load, jump=jump)) + TABLE)
    plan = code.plan()
    assert code.exits(plan) == ["at_x0", "at_x1", "at_x2", "at_y"]


def test_jump_table_of_addresses(assembled: Assembler) -> None:
    table = '.section .data.rel.ro, "aw"\n.p2align 3\ntable: .quad case0, case1, case2\n.text\n'
    load = "lea table(%rip), %rdx\n"
    code = assembled(function("f", TABLE_BODY.format(bound=BOUND, load=load, jump="jmp *(%rdx,%rax,8)\n")) + table)
    assert code.exits(code.plan()) == ["at_x0", "at_x1", "at_x2", "at_y"]


@pytest.mark.parametrize(
    ("bound", "load"),
    [
        ("mov %edi, %eax\n", OFFSETS),  # no bound
        ("cmp $2, %edi\nja 7f\nmov %esi, %eax\n", OFFSETS),  # of another register
        ("cmp $2, %edi\nja 7f\ninc %edi\nmov %edi, %eax\n", OFFSETS),  # of another value
        (BOUND, "mov (%rsi), %rdx\nmovslq (%rdx,%rax,4), %rax\nadd %rdx, %rax\n"),  # a table somewhere
        ("mov 0x84(%rdi), %eax\nmov %rsi, (%rdx)\ncmpl $2, 0x84(%rdi)\nja 7f\n", OFFSETS),  # perhaps of another value
        ("cmpl $2, 0x84(%rdi)\nja 7f\nmov %rsi, %rdi\nmov 0x84(%rdi), %eax\n", OFFSETS),  # of another object
    ],
)
def test_jump_table_of_unknown_size_or_place_is_a_way_out_unknown(assembled: Assembler, bound: str, load: str) -> None:
    code = assembled(function("f", TABLE_BODY.format(bound=bound, load=load, jump="jmp *%rax\n")) + TABLE)
    with pytest.raises(Unplannable, match=r"jump table .* can't be read"):
        code.plan()
    # Where that is safe, a return probe does without knowing; but then only the first instruction is certain.
    assert code.labels(code.plan(async_job=False), Role.RETURN) == ["at_a"]


HELPER = function(
    "helper", "push %rbp\ncall other@PLT\ntest %ebx, %ebx\nat_x: jne 9f\npop %rbp\nret\n9: call __stack_chk_fail@PLT\n"
)


@pytest.mark.parametrize("jump", ["jmp helper", "jmp helper@PLT", "jmp *helper@GOTPCREL(%rip)"])
def test_tail_call_is_followed_into_its_target(assembled: Assembler, jump: str) -> None:
    code = assembled(function("f", f"at_a: push %rbx\ncall other@PLT\npop %rbx\n{jump}\n") + HELPER)
    plan = code.plan()
    (probe,) = (probe for probe in plan.probes if probe.role is Role.EXIT)
    assert (code.label(probe.address), probe.shared, probe.stack_delta) == ("at_x", True, 8)


def test_conditional_tail_call(assembled: Assembler) -> None:
    code = assembled(function("f", "test %rdi, %rdi\nat_a: jne helper\nxor %eax, %eax\nat_r: ret\n") + HELPER)
    plan = code.plan()
    assert code.exits(plan) == ["at_r", "at_x"]
    assert {code.label(probe.address): probe.shared for probe in plan.probes} == {"at_a": False, "at_r": False, "at_x": True}


def test_function_that_also_calls_its_tail_is_counted_once(assembled: Assembler) -> None:
    """The call leaves at another depth; the jump's exit is the one that counts."""
    code = assembled(function("f", "at_a: push %rbx\ncall helper\npop %rbx\njmp helper\n") + HELPER)
    assert code.exits(code.plan()) == ["at_x"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("at_a: push %rbx\npop %rbx\njmp other@PLT\n", "ends in other of another library"),
        ("at_a: push %rbx\npop %rbx\njmp *other@GOTPCREL(%rip)\n", "ends in other of another library"),
        ("at_a: push %rbx\npop %rbx\njmp *0x30(%rdi)\n", "pointer .* can't be followed"),
        ("at_a: push %rbx\nmov 0x30(%rdi), %rax\npop %rbx\njmp *%rax\n", "pointer .* can't be followed"),
        ("test %rdi, %rdi\nat_a: je other@PLT\nret\n", "ends in other of another library"),
    ],
)
def test_tail_call_to_the_unknown_is_left_out_with_the_reason(assembled: Assembler, body: str, reason: str) -> None:
    code = assembled(function("f", body))
    with pytest.raises(Unplannable, match=reason):
        code.plan()
    assert code.labels(code.plan(async_job=False), Role.RETURN) == ["at_a"]


def method(name: str, *slots: str) -> str:
    """A function that returns a table with these words from offset 0."""
    words = "\n".join(f".quad {slot}" for slot in slots)
    returning = function(name, f"lea {name}_table(%rip), %rax\nret\n")
    return f'{returning}.section .data.rel.ro, "aw"\n.p2align 3\n{name}_table:\n{words}\n.text\n'


RSA = method("RSA_PKCS1_OpenSSL", "0", "0", "0", "encrypt", "decrypt", *["0"] * 10)
TARGETS = "".join(function(name, f"call other@PLT\nat_{name}: ret\n", binding=".local") for name in ("encrypt", "decrypt"))


@pytest.mark.parametrize(
    ("jump", "exits"),
    [
        ("mov 0x18(%rcx), %rax\njmp *0x18(%rax)\n", ["at_encrypt"]),
        ("mov 0x18(%rcx), %rax\nmov 0x20(%rax), %rax\njmp *%rax\n", ["at_decrypt"]),
    ],
)
def test_rsa_method_is_followed(assembled: Assembler, jump: str, exits: list[str]) -> None:
    body = f"call other@PLT\nadd $8, %rsp\n{jump}"
    heads = {name: f"sub $8, %rsp\nat_{name}: {body}" for name in ("RSA_private_encrypt", "f")}
    code = assembled("".join(function(name, head) for name, head in heads.items()) + RSA + TARGETS)
    plan = code.plan("RSA_private_encrypt")
    assert code.exits(plan) == exits
    assert all(probe.shared for probe in plan.probes if probe.role is Role.EXIT)
    with pytest.raises(Unplannable):  # another function may jump through anything
        code.plan("f")


def test_empty_slot_is_no_way_out(assembled: Assembler) -> None:
    """RSA_verify jumps to meth->rsa_verify where there is one; the default method has none."""
    body = "at_a: push %rbx\nmov 0x60(%rax), %rdx\npop %rbx\ntest %rdx, %rdx\nje 1f\njmp *%rdx\n1: call other@PLT\nat_r: ret\n"
    code = assembled(function("RSA_verify", body) + RSA + TARGETS)
    assert code.exits(code.plan("RSA_verify")) == ["at_r"]


def test_ec_group_method_is_followed_from_the_default_key_method(assembled: Assembler) -> None:
    """ossl_ecdsa_sign_sig ends in group->meth->ecdsa_sign_sig, the same function in all groups' methods."""
    key = method("EC_KEY_OpenSSL", *["0"] * 12, "sign_sig", "0", "0")
    group = method("EC_GFp_mont_method", *["0"] * 4, "simple_sign_sig")
    code = assembled(
        key + group
        + function("sign_sig", "at_a: push %rbx\nmov (%rdi), %rax\npop %rbx\njmp *0x20(%rax)\n")
        + function("simple_sign_sig", "call other@PLT\nat_r: ret\n", binding=".local")
    )  # fmt: skip
    assert code.exits(code.plan("sign_sig")) == ["at_r"]


def test_handshake_function_is_one_of_the_methods(assembled: Assembler) -> None:
    undefined = function("undefined", "xor %eax, %eax\nat_undefined: ret\n", binding=".local")
    sides = "".join(function(name, f"call other@PLT\nat_{name}: ret\n", binding=".local") for name in ("accept", "connect"))
    methods = "".join(
        method(name, *["0"] * 5, *slots)
        for name, slots in {
            "TLS_method": ("accept", "connect"),
            "TLS_server_method": ("accept", "undefined"),
            "TLS_client_method": ("undefined", "connect"),
        }.items()
    )
    body = "at_a: push %rbx\nmov 0x30(%rdi), %rax\npop %rbx\njmp *%rax\n"
    code = assembled(function("SSL_do_handshake", body) + undefined + sides + methods)
    assert code.exits(code.plan("SSL_do_handshake")) == ["at_accept", "at_connect", "at_undefined"]


def test_handshake_slots_by_the_undefined_function() -> None:
    common = {24: 1, 32: 2}
    for accept in (40, 64):
        server = {**common, accept: 10, accept + 8: 99}
        client = {**common, accept: 99, accept + 8: 20}
        assert handshake_slots({"TLS_server_method": server, "TLS_client_method": client}) == (accept, accept + 8)
    assert handshake_slots({}) == ()
    assert handshake_slots({"TLS_server_method": common, "TLS_client_method": common}) == ()
