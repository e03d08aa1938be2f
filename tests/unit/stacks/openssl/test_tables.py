# SPDX-License-Identifier: Apache-2.0
"""Method and provider tables of stripped images, through every kind of relocation, against the addresses that nm gave."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures import build
from tests.parameters import slow_except

from ssllatency.elf.image import Image
from ssllatency.stacks.openssl.tables.methods import ec_key_method, rsa_method, ssl_methods
from ssllatency.stacks.openssl.tables.providers import Algorithm, algorithms

RSA = {8: "rsa_ossl_public_encrypt", 16: "rsa_ossl_public_decrypt", 24: "rsa_ossl_private_encrypt"}
RSA |= {32: "rsa_ossl_private_decrypt", 40: "rsa_ossl_mod_exp", 48: "BN_mod_exp_mont"}
EC = {72: "ossl_ecdh_compute_key", 80: "ossl_ecdsa_sign", 112: "ossl_ecdsa_verify_sig"}
SSL = {
    "TLS_method": {40: "ssl_accept", 48: "ssl_connect"},
    "TLS_server_method": {40: "ssl_accept", 48: "ssl_undefined_function"},
    "TLS_client_method": {40: "ssl_undefined_function", 48: "ssl_connect"},
}
ALGORITHMS = [
    ("KEYMGMT", ("X25519", "1.3.101.110"), {6: "x25519_gen"}),
    ("KEYEXCH", ("X25519", "1.3.101.110"), {3: "x25519_derive"}),
    ("SIGNATURE", ("ED25519", "1.3.101.112"), {11: "ed25519_digest_sign"}),
    ("SIGNATURE", ("ECDSA",), {3: "ecdsa_sign"}),
    (
        "ASYM_CIPHER",
        ("RSA", "rsaEncryption", "1.2.840.113549.1.1.1"),
        {1: "rsa_newctx", 3: "rsa_encrypt", 5: "rsa_decrypt"},
    ),
    (
        "KEM",
        ("RSA", "rsaEncryption", "1.2.840.113549.1.1.1"),
        {1: "rsa_newctx", 3: "rsakem_generate", 5: "rsakem_recover"},
    ),
]
LIBRARIES = {
    "rela": (),
    "relr": ("-Wl,-z,pack-relative-relocs",),
    "cet": ("-fcf-protection=full",),
    "no-cet": ("-fcf-protection=none",),
    "unoptimised": ("-O0",),
    "size": ("-Os",),
    "no-jump-tables": ("-O2", "-fno-jump-tables"),
    "size-no-jump-tables": ("-Os", "-fno-jump-tables"),
    "zeroed": ("-fzero-call-used-regs=used-gpr",),
    "no-separate-code": ("-Wl,-z,noseparate-code",),
    "symbolic": ("-Wl,-Bsymbolic",),
}
PROGRAMS = {
    "fixed": ("-static", "-no-pie"),
    "fixed-joined": ("-static", "-no-pie", "-Wl,-z,noseparate-code"),
    "static-pie": ("-static-pie",),
    "static-pie-relr": ("-static-pie", "-Wl,-z,pack-relative-relocs"),
    "dynamic-pie": ("-pie", "-fPIE", "-rdynamic"),
    "dynamic-fixed": ("-no-pie", "-rdynamic"),
}


def named(table: dict[int, int], path: Path) -> dict[int, str]:
    """`table` with names in place of addresses."""
    names = {symbol.address: name for name, symbol in build.symbols(path).items() if symbol.kind in "tT"}
    return {slot: names.get(address, hex(address)) for slot, address in table.items()}


def listed(found: tuple[Algorithm, ...], path: Path) -> list[tuple[str, tuple[str, ...], dict[int, str]]]:
    return [(each.operation, each.names, named(each.functions, path)) for each in found]


def check_methods(image: Image, path: Path) -> None:
    assert named(rsa_method(image), path) == RSA
    assert named(ec_key_method(image), path) == EC
    assert {name: named(table, path) for name, table in ssl_methods(image).items()} == SSL


@pytest.mark.parametrize("kind", slow_except(LIBRARIES, "rela", "relr"))
def test_method_tables_of_stripped_libraries(folder: Path, kind: str) -> None:
    path = build.library(folder, f"libm-{kind}.so", ["methods.c"], *LIBRARIES[kind])
    stripped = build.stripped(path, f"m-{kind}.so")
    check_methods(Image.open(stripped), path)
    check_methods(Image.open(build.without_section_headers(stripped, f"m-{kind}.bare.so")), path)


@pytest.mark.parametrize("kind", slow_except(LIBRARIES, "rela", "relr"))
def test_provider_tables_of_stripped_libraries(folder: Path, kind: str) -> None:
    path = build.library(folder, f"libp-{kind}.so", ["provider.c"], *LIBRARIES[kind])
    assert listed(algorithms(Image.open(build.stripped(path, f"p-{kind}.so"))), path) == ALGORITHMS


@pytest.mark.parametrize("kind", slow_except(PROGRAMS, "fixed", "static-pie-relr"))
def test_tables_of_programs(folder: Path, kind: str) -> None:
    path = build.program(folder, f"m-{kind}", "methods.c", *PROGRAMS[kind])
    check_methods(Image.open(path), path)
    path = build.program(folder, f"p-{kind}", "provider.c", *PROGRAMS[kind])
    assert listed(algorithms(Image.open(build.stripped(path, f"p-{kind}.stripped"))), path) == ALGORITHMS


def test_relr_library_really_has_relr(folder: Path) -> None:
    path = build.library(folder, "librelr.so", ["methods.c"], *LIBRARIES["relr"])
    assert "(RELR)" in build.run("readelf", "-dW", path)
    fixed = build.program(folder, "really-fixed", "methods.c", *PROGRAMS["fixed"])
    assert "EXEC" in build.run("readelf", "-hW", fixed)


def test_images_without_tables_have_none(shapes: Path) -> None:
    image = Image.open(shapes)
    assert rsa_method(image) == {}
    assert ec_key_method(image) == {}
    assert ssl_methods(image) == {}
    assert algorithms(image) == ()


def test_names_that_end_other_names_are_found(provider: Path) -> None:
    image = Image.open(build.stripped(provider, "suffix.so"))
    places = list(image.find_string(b"ECDSA"))
    assert len(places) == 1
    assert image.text(places[0] - len("deterministic-")) == "deterministic-ECDSA"
    assert [image.pointer(each) for each in image.pointers_to(places[0])] == places


def test_pointers(shapes: Path) -> None:
    known = build.symbols(shapes)
    image = Image.open(build.stripped(shapes, "pointers.so"))
    table = known["shape_pointers"].address
    targets = [image.pointer(table + 8 * slot) for slot in range(5)]
    assert targets == [known["shape_static"].address, known["shape_exported"].address, None, known["shape_data"].address, None]
    assert table in image.pointers_to(known["shape_static"].address)
    assert table + 8 in image.pointers_to(known["shape_exported"].address)
    assert image.pointers_to(known["shape_exported"].address + 1) == []
    assert image.pointer(1 << 60) is None
    assert image.pointer(table + 1) is None


def test_pointers_of_a_fixed_program(folder: Path) -> None:
    path = build.program(folder, "fixed-pointers", "provider.c", "-static", "-no-pie")
    known = build.symbols(path)
    image = Image.open(path)
    place = known["default_dispatch"].address + 24
    assert image.pointer(place) == known["default_query"].address
    assert place in image.pointers_to(known["default_query"].address)
