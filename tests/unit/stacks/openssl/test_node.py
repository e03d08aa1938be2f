# SPDX-License-Identifier: Apache-2.0
"""node as it ships: a program of 100 MB with OpenSSL linked in statically, its tables checked against its own symbol table."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests import foreign

from ssllatency.elf.image import ElfError, Image
from ssllatency.stacks.implementations import library_version
from ssllatency.stacks.openssl.accessors import bio_flags_offset, ssl_offsets
from ssllatency.stacks.openssl.tables.methods import ec_key_method, rsa_method, ssl_methods
from ssllatency.stacks.openssl.tables.providers import algorithms


@pytest.fixture(scope="module")
def node() -> Image:
    installed, fetched = shutil.which("node"), foreign.find("node")
    for program in (installed, fetched.path):
        try:
            image = Image.open(Path(program).resolve()) if program else None
        except ElfError:
            image = None
        if image and image.function("rsa_ossl_private_encrypt") and image.function("RSA_PKCS1_OpenSSL"):
            return image
    pytest.skip(f"needs a node with OpenSSL inside and a symbol table, Node.js's own build: {fetched.reason or 'it has none'}")


def address(image: Image, name: str) -> int:
    function = image.function(name)
    assert function is not None
    return function.address


def test_method_tables_agree_with_the_symbols(node: Image) -> None:
    rsa, ec = rsa_method(node), ec_key_method(node)
    assert rsa[24] == address(node, "rsa_ossl_private_encrypt")
    assert rsa[32] == address(node, "rsa_ossl_private_decrypt")
    assert ec[80] == address(node, "ossl_ecdsa_sign")
    assert ec[72] == address(node, "ossl_ecdh_compute_key")
    assert address(node, "ossl_statem_accept") in ssl_methods(node)["TLS_server_method"].values()


def test_provider_tables_agree_with_the_symbols(node: Image) -> None:
    table = {(each.operation, name): each.functions for each in algorithms(node) for name in each.names}
    assert table["SIGNATURE", "ED25519"][11] == address(node, "ed25519_digest_sign")
    # In OpenSSL 3.0 X25519 and X448 share one function.
    derive = node.function("ecx_derive") or node.function("x25519_derive")
    assert derive is not None
    assert table["KEYEXCH", "X25519"][3] == derive.address
    assert table["ASYM_CIPHER", "RSA"][5] == address(node, "rsa_decrypt")


def test_accessors_and_version(node: Image) -> None:
    assert {"rwstate", "server", "rbio", "wbio", "shutdown"} <= set(ssl_offsets(node))
    assert bio_flags_offset(node) is not None
    assert library_version(node).startswith("OpenSSL ")
