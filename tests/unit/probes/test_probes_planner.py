# SPDX-License-Identifier: Apache-2.0
"""Which operations an image holds, how their functions are found, and what is said of those that are missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.fixtures import build
from tests.fixtures.assembled import Assembled, function

from ssllatency.elf.image import Image
from ssllatency.probes.plan import NOT_IN_LIBRARY, FilePlan
from ssllatency.probes.planner import NOT_NAMED, kind_of, plan_image

Assembler = Callable[[str], Assembled]

SIMPLE = "push %rbx\ncall other@PLT\npop %rbx\nret\n"


def functions(*names: str) -> str:
    return "".join(function(name, SIMPLE) for name in names)


def reasons(plan: FilePlan) -> dict[str, str]:
    return {each.operation: each.reason for each in plan.missing}


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (("SSL_do_handshake",), "libssl"),
        (("SSL_read", "SSL_write"), "libssl"),
        (("EVP_DigestSign",), "libcrypto"),
        (("mbx_x25519_mb8",), "libcrypto_mb"),
        (("multibuff_rsa_priv_enc",), "qatengine"),
        (("SSL_read", "EVP_DigestSign"), "static"),
        (("SSL_write", "main"), ""),
    ],
)
def test_kind_is_told_by_what_is_defined(assembled: Assembler, names: tuple[str, ...], kind: str) -> None:
    assert kind_of(assembled(functions(*names)).image) == kind


def test_file_without_tls_functions_has_an_empty_plan(assembled: Assembler) -> None:
    plan = plan_image(assembled(functions("main")).image)
    assert (plan.kind, plan.operations, plan.missing) == ("", (), ())


def test_stripped_engine_is_told_by_its_name(assembled: Assembler, tmp_path: Path) -> None:
    code = assembled(functions("bind_engine"))
    renamed = tmp_path / "qatengine.so"
    build.run("gcc", "-shared", "-nostdlib", "-Wl,-soname,qatengine.so", "-o", renamed, code.path.parent / "code.S")
    plan = plan_image(Image.open(renamed))
    assert plan.kind == "qatengine"
    assert set(reasons(plan).values()) == {NOT_NAMED}


def test_what_a_library_exports_or_not(assembled: Assembler) -> None:
    plan = plan_image(assembled(functions("SSL_do_handshake", "SSL_read")).image)
    assert [each.operation for each in plan.operations] == ["SSL_do_handshake", "SSL_read"]
    assert {each.found for each in plan.operations} == {"dynamic symbol"}
    assert reasons(plan)["SSL_write_ex2"] == NOT_IN_LIBRARY
    assert plan.offsets.rwstate is None


def test_reason_of_what_is_found_but_can_not_be_probed(assembled: Assembler) -> None:
    text = functions("EVP_DigestSign") + function("RSA_sign", "push %rbx\npop %rbx\njmp sign_elsewhere@PLT\n")
    plan = plan_image(assembled(text).image)
    assert reasons(plan)["RSA_sign"] == "it ends in sign_elsewhere of another library"
    assert reasons(plan)["rsa_ossl_private_encrypt"] == NOT_NAMED


def test_two_operations_in_the_same_code_are_one(assembled: Assembler) -> None:
    alias = ".globl ECDSA_verify\n.type ECDSA_verify, @function\n.set ECDSA_verify, ECDSA_sign\n"
    plan = plan_image(assembled(functions("EVP_DigestSign", "ECDSA_sign") + alias).image)
    assert "ECDSA_sign" in {each.operation for each in plan.operations}
    assert reasons(plan)["ECDSA_verify"] == "the same code as ECDSA_sign"


def test_method_table_leads_to_a_function_without_symbol(assembled: Assembler) -> None:
    table = '.section .data.rel.ro, "aw"\n.p2align 3\ntable: .quad 0, 0, 0, rsa_ossl_private_encrypt\n.zero 96\n.text\n'
    text = function("RSA_PKCS1_OpenSSL", "lea table(%rip), %rax\nret\n")
    code = assembled(text + function("rsa_ossl_private_encrypt", SIMPLE, binding=".local") + table)
    (named,) = plan_image(code.image).operations
    (found,) = plan_image(Image.open(build.stripped(code.path, "stripped.so"))).operations
    assert (named.found, found.found) == ("symbol table", "RSA_METHOD")
    assert (named.address, named.size, named.probes) == (found.address, found.size, found.probes)


def test_provider_table_leads_to_a_function_without_symbol(assembled: Assembler, tmp_path: Path) -> None:
    sign = assembled(functions("EVP_DigestSign")).path.parent / "code.S"
    library = build.library(tmp_path, "libprovider.so", ["provider.c"], str(sign))
    plan = plan_image(Image.open(build.stripped(library, "stripped.so")))
    address = build.symbols(library)["ed25519_digest_sign"].address
    assert {each.operation: (each.address, each.found) for each in plan.operations}["ed25519_digest_sign"] == (
        address,
        "provider table",
    )
    assert reasons(plan)["ed448_digest_sign"] == NOT_IN_LIBRARY
    assert reasons(plan)["ed25519_digest_verify"] == NOT_NAMED  # the algorithm is there, without this function


@pytest.mark.parametrize("options", [(), ("-DGUARDED",), ("-DKEYS_TOO",)], ids=["", "not set up", "keys"])
def test_provider_in_a_file_of_its_own(tmp_path: Path, options: Sequence[str]) -> None:
    """Its signature is known by its tables, whatever properties it has; one that isn't set up offers none, as FIPS's."""
    library = build.library(tmp_path, "libown.so", ["provider.c"], "-DWITH_ENTRY", *options)
    plan = plan_image(Image.open(build.stripped(library, "own.so")))
    address = build.symbols(library)["base_digest_sign"].address
    assert plan.kind == "provider"
    assert [(each.operation, each.address, each.found) for each in plan.operations] == [
        ("provider_ed25519_digest_sign", address, "provider table")
    ]
    assert set(reasons(plan).values()) == {NOT_IN_LIBRARY}


UNREADABLE = "it can't be read in the file's tables what its provider offers"


@pytest.mark.parametrize("options", [(), ("-DKEYS_TOO",)], ids=["all", "signatures"])
def test_provider_whose_tables_are_made_later(tmp_path: Path, options: Sequence[str]) -> None:
    library = build.library(tmp_path, "liblate.so", ["provider.c"], "-DWITH_ENTRY", "-DMADE_LATE", *options)
    plan = plan_image(Image.open(build.stripped(library, "late.so")))
    assert (plan.kind, plan.operations) == ("provider", ())
    assert {why for name, why in reasons(plan).items() if "sign" in name} == {UNREADABLE}
    assert reasons(plan)["provider_rsa_decrypt"] == NOT_IN_LIBRARY  # this it says it doesn't have


@pytest.mark.parametrize(
    ("option", "names", "why"),
    [
        ("-DONE_FOR_ALL", ("rsa", "ecdsa"), "its provider has one function for several kinds of keys"),
        ("-DONE_EACH", ("ml_dsa",), "its provider has several functions for that"),
    ],
)
def test_what_a_provider_s_function_is_for_must_be_one_thing(
    tmp_path: Path, option: str, names: Sequence[str], why: str
) -> None:
    """Names of algorithms are the same in small letters."""
    plan = plan_image(Image.open(build.library(tmp_path, "libmixed.so", ["provider.c"], "-DWITH_ENTRY", option)))
    assert (plan.kind, plan.operations) == ("provider", ())
    due = {f"provider_{name}_digest_sign" for name in names}
    assert {name for name, reason in reasons(plan).items() if reason == why} == due


def test_provider_without_private_keys_is_no_library(tmp_path: Path) -> None:
    """As OpenSSL's legacy provider."""
    library = build.library(tmp_path, "libnone.so", ["provider.c"], "-DWITH_ENTRY", "-DNO_SIGNATURES")
    plan = plan_image(Image.open(library))
    assert (plan.kind, plan.operations, plan.missing) == ("", (), ())


def test_plan_names_the_path_that_people_know(assembled: Assembler) -> None:
    image = Image.open(assembled(functions("SSL_read")).path, label="/usr/lib/libssl.so.3")
    assert plan_image(image).path == "/usr/lib/libssl.so.3"
