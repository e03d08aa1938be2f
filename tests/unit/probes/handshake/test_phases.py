# SPDX-License-Identifier: Apache-2.0
"""Which calls count as phases, on small libraries in assembly that have just enough of libssl."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.fixtures.assembled import Assembled, function

from ssllatency.code.bodies import Bodies
from ssllatency.code.pointer_calls import calls_in, calls_through
from ssllatency.code.x86.machine import X86
from ssllatency.elf.image import Image
from ssllatency.probes.handshake.phases import plan_handshake
from ssllatency.probes.plan import HandshakeSites
from ssllatency.stacks.openssl.handshake.libssl_code import LibsslCode

Assemble = Callable[[str], Assembled]


def calling(name: str, *callees: str, binding: str = ".globl") -> str:
    """A function that calls others one after the other, each at a label of its own."""
    calls = "".join(f"at_{name}_{callee}: call {callee}@PLT\ntest %eax,%eax\njs 1f\n" for callee in callees)
    return function(name, f"push %rbx\n{calls}1: pop %rbx\nret", binding=binding)


def start_of(made: Assembled, name: str) -> int:
    found = made.image.function(name)
    assert found is not None
    return found.address


LIBSSL = calling("SSL_do_handshake", "SSL_version") + calling("SSL_read", "x")
LIBCRYPTO = function("EVP_DigestSign", "ret") + function("EVP_PKEY_decrypt", "ret")


def labels(made: Assembled, plan: HandshakeSites) -> list[str]:
    return sorted(made.label(call.begin.address).removeprefix("at_") for call in plan.calls)


def missing(plan: HandshakeSites, what: str) -> list[str]:
    return [each.reason for each in plan.missing if each.what == what]


def test_a_signature_counts_and_a_cookies_hmac_does_not(assembled: Assemble) -> None:
    made = assembled(
        LIBSSL
        + calling("sign", "EVP_DigestSign")
        + calling("cookie", "EVP_PKEY_new_raw_private_key_ex", "EVP_DigestSign")
        + calling("old_cookie", "EVP_PKEY_new_mac_key", "EVP_DigestSign")
        + calling("mac", "EVP_DigestSignFinal")
        + calling("ssl3", "EVP_DigestSignFinal", "EVP_DigestSign")
    )
    plan = plan_handshake(made.image)
    assert labels(made, plan) == ["sign_EVP_DigestSign", "ssl3_EVP_DigestSign", "ssl3_EVP_DigestSignFinal"]
    assert {call.operation for call in plan.calls} == {"sign"}


def test_a_call_that_only_asks_for_a_size_is_none(assembled: Assemble) -> None:
    """By what stands just before it; where another way leads to the call, the kernel side looks at the argument."""
    derive = "at_{0}: call EVP_PKEY_derive@PLT\ntest %eax,%eax\njs 9f\n"
    made = assembled(
        LIBSSL
        + function(
            "derive",
            "push %rbx\nxor %esi,%esi\nmov %rdi,%rdx\n" + derive.format("size") + derive.format("whole") + "9: pop %rbx\nret",
        )
        + function("other", "push %rbx\nxor %esi,%esi\nmov %rdi,%rsi\n" + derive.format("set") + "9: pop %rbx\nret")
        + function(
            "joined",
            "push %rbx\ntest %edi,%edi\nje 1f\nxor %esi,%esi\n1: nop\n" + derive.format("either") + "9: pop %rbx\nret",
        )
    )
    assert labels(made, plan_handshake(made.image)) == ["either", "set", "whole"]


def test_keys_that_are_derived_without_a_peer_do_not_count(assembled: Assemble) -> None:
    made = assembled(
        LIBSSL
        + calling("derive", "EVP_PKEY_derive_set_peer", "EVP_PKEY_derive")
        + calling("prf", "EVP_PKEY_CTX_new_id", "EVP_PKEY_derive")
    )
    plan = plan_handshake(made.image)
    assert labels(made, plan) == ["derive_EVP_PKEY_derive", "derive_EVP_PKEY_derive_set_peer"]
    assert {call.phase for call in plan.calls} == {"key_exchange"}


def test_only_the_peers_chain_is_verified_for_the_handshake(assembled: Assemble) -> None:
    made = assembled(
        LIBSSL
        + calling("peer", "X509_STORE_CTX_set_ex_data", "X509_verify_cert")
        + calling("own", "X509_STORE_CTX_init", "X509_verify_cert")
    )
    assert labels(made, plan_handshake(made.image)) == ["peer_X509_verify_cert"]


def test_only_the_peers_own_certificates_are_read_for_the_handshake(assembled: Assemble) -> None:
    made = assembled(
        LIBSSL
        + calling("peer", "d2i_X509", "OPENSSL_sk_push")
        + calling("use", "d2i_X509")
        + calling("dane", "d2i_X509", "d2i_PUBKEY", "OPENSSL_sk_push")
    )
    assert labels(made, plan_handshake(made.image)) == ["peer_d2i_X509"]


def test_a_phase_that_no_call_is_found_of_is_missing(assembled: Assemble) -> None:
    plan = plan_handshake(assembled(LIBSSL + calling("sign", "EVP_DigestSign")).image)
    assert missing(plan, "private_key") == []
    assert missing(plan, "key_exchange") == ["libssl calls no function that is known to make or combine a key exchange's keys"]
    assert len(missing(plan, "peer_verification")) == 1


def test_a_tail_call_has_no_end_and_is_missing(assembled: Assemble) -> None:
    plan = plan_handshake(assembled(LIBSSL + function("f", "mov %rsi,%rdi\njmp EVP_PKEY_keygen@PLT")).image)
    assert plan.calls == ()
    (reason,) = missing(plan, "EVP_PKEY_keygen")
    assert reason.endswith("is no call")


TICKET = calling("ticket", "EVP_CIPHER_CTX_new", "EVP_DecryptUpdate", "EVP_DecryptFinal", binding=".local")
FROM_CLIENT = function("from_client", "test %rsi,%rsi\nje 1f\n{disp32} jmp ticket\n1: ret", binding=".local")


def test_tickets_are_decrypted_in_the_one_function_that_decrypts(assembled: Assemble) -> None:
    """Where that is called by the way of another function that ends in it, the call of that one counts."""
    caller = function(
        "find", "push %rbx\nat_one: call ticket\ntest %eax,%eax\nje 1f\nat_two: call from_client\n1: pop %rbx\nret"
    )
    made = assembled(LIBSSL + TICKET + FROM_CLIENT + caller)
    plan = plan_handshake(made.image)
    assert labels(made, plan) == ["one", "ticket_EVP_CIPHER_CTX_new", "two"]
    callees = ["EVP_CIPHER_CTX_new", "tls_decrypt_ticket", "tls_decrypt_ticket"]
    assert sorted((call.phase, call.callee) for call in plan.calls) == [("session_lookup", callee) for callee in callees]


def test_where_it_is_unknown_whether_there_is_a_ticket_none_is_looked_up(assembled: Assemble) -> None:
    ticket = TICKET.replace("call EVP_CIPHER_CTX_new", "call EVP_CIPHER_CTX_reset")
    plan = plan_handshake(assembled(LIBSSL + ticket + function("find", "push %rbx\ncall ticket\npop %rbx\nret")).image)
    assert plan.calls == ()
    assert missing(plan, "tls_decrypt_ticket") == ["it has no calls of EVP_CIPHER_CTX_new, where one is expected"]


def test_two_functions_that_decrypt_leave_doubt(assembled: Assemble) -> None:
    plan = plan_handshake(assembled(LIBSSL + TICKET + TICKET.replace("ticket", "other")).image)
    (reason,) = missing(plan, "tls_decrypt_ticket")
    assert reason == "2 functions in libssl call EVP_DecryptFinal and EVP_DecryptUpdate, where one is expected"


def test_what_neither_library_has_is_not_planned(assembled: Assemble) -> None:
    plan = plan_handshake(assembled(calling("f", "EVP_DigestSign")).image)
    assert (plan.calls, plan.errors, plan.wake, plan.missing) == ((), (), None, ())


# A program with both libraries in it.


def naming(name: str, file: str, body: str = "") -> str:
    """A function that names a source file, as what raises an error does."""
    return function(name, f"push %rbx\nlea {file}(%rip),%rdi\n{body}pop %rbx\nret")


FILES = '.section .rodata\n.asciz ""\nssl_file: .asciz "ssl/statem/a.c"\ncrypto_file: .asciz "crypto/evp/b.c"\n.text\n'
SIGNING = "at_{}: call EVP_DigestSign\ntest %eax,%eax\njs 1f\nnop\n1: "


def test_in_a_static_program_only_libssls_own_calls_count(assembled: Assemble) -> None:
    """What lies among functions that name libssl's files counts, though it names none."""
    made = assembled(
        FILES
        + naming("SSL_do_handshake", "ssl_file")
        + naming("first", "ssl_file", SIGNING.format("first"))
        + function("second", "push %rbx\n" + SIGNING.format("second") + "pop %rbx\nret")
        + naming("SSL_read", "ssl_file")
        + naming("X509_sign", "crypto_file", SIGNING.format("X509_sign"))
        + LIBCRYPTO
    )
    plan = plan_handshake(made.image)
    assert labels(made, plan) == ["first", "second"]


def test_where_the_libraries_are_mixed_only_functions_that_name_a_file_count(assembled: Assemble) -> None:
    made = assembled(
        FILES
        + naming("SSL_do_handshake", "ssl_file")
        + LIBCRYPTO
        + function("second", "push %rbx\n" + SIGNING.format("second") + "pop %rbx\nret")
        + naming("first", "ssl_file", SIGNING.format("first"))
        + naming("SSL_read", "ssl_file")
    )
    assert labels(made, plan_handshake(made.image)) == ["first"]


def test_a_linker_may_take_libssl_in_parts(assembled: Assemble) -> None:
    """As where libcrypto needs more of it. In the smaller parts only functions that name a file count."""
    far = ".skip 0x80000,0x90\n"
    more = "".join(naming(f"more_{number}", "ssl_file") for number in range(6))
    made = assembled(
        FILES
        + naming("SSL_do_handshake", "ssl_file")
        + more
        + naming("first", "ssl_file", SIGNING.format("first"))
        + function("second", "push %rbx\n" + SIGNING.format("second") + "pop %rbx\nret")
        + more.replace("more", "yet_more")
        + naming("SSL_read", "ssl_file")
        + far
        + naming("X509_sign", "crypto_file", SIGNING.format("X509_sign"))
        + LIBCRYPTO
        + far
        + more.replace("more", "again")
        + naming("last", "ssl_file", SIGNING.format("last"))
        + function("unnamed", "push %rbx\n" + SIGNING.format("unnamed") + "pop %rbx\nret")
        + far
        + naming("by_chance", "ssl_file", SIGNING.format("by_chance"))
    )
    assert labels(made, plan_handshake(made.image)) == ["first", "last", "second"]


def test_a_static_program_that_names_no_files_leaves_libssl_unknown(assembled: Assemble) -> None:
    plan = plan_handshake(assembled(LIBSSL + LIBCRYPTO + calling("sign", "EVP_DigestSign")).image)
    assert plan.calls == ()
    assert missing(plan, "phases") == ["no functions name libssl's source files, so they can't be told from libcrypto's"]


# Callbacks.

LOADED = "push %rbx\nmov 0x580(%rdi),%rbx\nmov 0x298(%rbx),%rax\ntest %rax,%rax\nje 1f\nat_call: call *%rax\n1: pop %rbx\nret"
ON_STACK = (
    "push %rbx\nsub $32,%rsp\nmov 0x580(%rdi),%rbx\nmov 0x298(%rbx),%rax\ntest %rax,%rax\nje 1f\nmov %rax,16(%rsp)\n"
    "call f\nnop\nmov 16(%rsp),%rdx\nat_call: call *%rdx\n1: add $32,%rsp\npop %rbx\nret"
)
CALLBACK_CODE = {
    "loaded and called": (LOADED, ["at_call"]),
    "called through memory": (
        "push %rbx\nmov 0x580(%rdi),%rax\nat_call: call *0x298(%rax)\npop %rbx\nret",
        ["at_call"],
    ),
    "by way of another register": (
        LOADED.replace("at_call:", "mov %rax,%rdx\nat_call:").replace("*%rax", "*%rdx"),
        ["at_call"],
    ),
    "by way of the stack": (ON_STACK, ["at_call"]),
    "called through the stack": (
        ON_STACK.replace("mov 16(%rsp),%rdx\nat_call: call *%rdx", "at_call: call *16(%rsp)"),
        ["at_call"],
    ),
    "called through another place on the stack": (
        ON_STACK.replace("mov 16(%rsp),%rdx\nat_call: call *%rdx", "call *24(%rsp)"),
        [],
    ),
    "from another place on the stack": (ON_STACK.replace("mov 16(%rsp),%rdx", "mov 24(%rsp),%rdx"), []),
    "overwritten on the stack": (ON_STACK.replace("nop", "movb $1,19(%rsp)"), []),
    "of another structure": (LOADED.replace("0x580", "0x588"), []),
    "another field": (LOADED.replace("0x298", "0x2a8"), []),
    "of two structures on two ways": (
        "push %rbx\nmov 0x580(%rdi),%rbx\ntest %esi,%esi\nje 1f\nmov 0x590(%rdi),%rbx\n1: mov 0x298(%rbx),%rax\n"
        "call *%rax\npop %rbx\nret",
        [],
    ),
    "changed on the way": (LOADED.replace("at_call:", "add $8,%rax\nat_call:"), []),
    "of the function's own argument": ("push %rbx\nmov 0x298(%rdi),%rax\ncall *%rax\npop %rbx\nret", []),
}


@pytest.mark.parametrize("code", CALLBACK_CODE)
def test_a_callback_is_what_is_called_through_both_pointers(assembled: Assemble, code: str) -> None:
    body, expected = CALLBACK_CODE[code]
    made = assembled(function("f", body))
    machine = X86()
    image = Image.open(made.path)
    bodies = Bodies(image, machine)
    assert [made.label(address) for address in calls_in(bodies, [start_of(made, "f")], (0x580, 0x298))] == expected
    found = calls_through(image, machine, bodies, (0x580, 0x298), LibsslCode())
    assert [made.label(address) for address in found] == expected


def test_a_callback_by_the_same_field_of_another_structure_counts_beside_it(assembled: Assemble) -> None:
    body = LOADED.replace("1: pop %rbx\nret", "1: mov 0x588(%rdi),%rcx\nat_other: call *0x298(%rcx)\npop %rbx\nret")
    made = assembled(function("f", body))
    machine = X86()
    found = calls_through(made.image, machine, Bodies(made.image, machine), (0x580, 0x298), LibsslCode())
    assert sorted(made.label(address) for address in found) == ["at_call", "at_other"]


EITHER = (
    "push %rbx\nsub $16,%rsp\nmov 0x580(%rdi),%rbx\nmov 0x298(%rbx),%rax\ntest %rax,%rax\njne 2f\nmov 0x290(%rbx),%rax\n"
    "test %rax,%rax\nje 1f\n2: mov %rax,8(%rsp)\ncall f\nmov 8(%rsp),%rdx\nat_call: call *%rdx\n1: add $16,%rsp\npop %rbx\nret"
)


@pytest.mark.parametrize(("fields", "expected"), [((0x298, 0x290), ["at_call"]), ((0x298,), []), ((0x290,), [])])
def test_a_call_of_either_of_two_callbacks_counts_where_both_are_meant(
    assembled: Assemble, fields: tuple[int, ...], expected: list[str]
) -> None:
    made = assembled(function("f", EITHER))
    bodies = Bodies(made.image, X86())
    assert [made.label(address) for address in calls_in(bodies, [start_of(made, "f")], (0x580, *fields))] == expected
