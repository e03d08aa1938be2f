# SPDX-License-Identifier: Apache-2.0
"""This machine's own libssl and libcrypto, stripped as the distribution ships them.

OpenSSL's functions name themselves where they raise errors (ERR_set_debug's third argument), so what a table leads to can be
told from the function's own code.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.fixtures.functions import function_ranges

from ssllatency.code.decode import instructions
from ssllatency.elf.image import Image
from ssllatency.stacks.implementations import library_version
from ssllatency.stacks.openssl.accessors import bio_flags_offset, ssl_offsets
from ssllatency.stacks.openssl.tables.methods import ec_key_method, rsa_method, ssl_methods
from ssllatency.stacks.openssl.tables.providers import algorithms

FOLDER = Path("/usr/lib/x86_64-linux-gnu")
LIBSSL, LIBCRYPTO = FOLDER / "libssl.so.3", FOLDER / "libcrypto.so.3"
PARTS = ("SIGNATURE", "KEYEXCH", "KEM", "ASYM_CIPHER")
SELF_NAMED = {24: "rsa_ossl_private_encrypt", 32: "rsa_ossl_private_decrypt", 8: "rsa_ossl_public_encrypt"}

pytestmark = pytest.mark.skipif(
    not (LIBSSL.exists() and LIBCRYPTO.exists()), reason=f"needs OpenSSL 3 in {FOLDER} (Debian: apt-get install libssl3)"
)


@pytest.fixture(scope="module")
def libssl() -> Image:
    return Image.open(LIBSSL)


@pytest.fixture(scope="module")
def libcrypto() -> Image:
    return Image.open(LIBCRYPTO)


def texts_named(image: Image, function: int) -> set[str]:
    """The texts whose address the function takes."""
    bounds = image.function_bounds(function)
    assert bounds is not None
    assert bounds[0] == function
    code = instructions(image.code(function, bounds[1] - bounds[0]), function, image.machine)
    leas = [each for each in code if each.mnemonic == "lea" and "rip" in each.op_str]
    return {image.text(each.address + each.size + each.operands[1].mem.disp) for each in leas}


def test_rsa_method_leads_to_functions_that_name_themselves(libcrypto: Image) -> None:
    table = rsa_method(libcrypto)
    for slot, name in SELF_NAMED.items():
        assert libcrypto.function(name) is None or libcrypto.function(name).found != "dynamic symbol"  # type: ignore[union-attr]
        assert name in texts_named(libcrypto, table[slot])
    exported = libcrypto.function("BN_mod_exp_mont")
    assert exported is not None
    assert table[48] == exported.address


def test_ec_key_method_leads_to_functions_that_name_themselves(libcrypto: Image) -> None:
    table = ec_key_method(libcrypto)
    assert set(table) == {64, 72, 80, 88, 96, 104, 112}
    for slot, name in {72: "ossl_ecdh_compute_key", 88: "ossl_ecdsa_sign_setup", 112: "ossl_ecdsa_verify_sig"}.items():
        assert name in texts_named(libcrypto, table[slot])


def test_default_provider_of_openssl_3_0(libcrypto: Image) -> None:
    version = library_version(libcrypto)
    found = {part: [each.names[0] for each in algorithms(libcrypto) if each.operation == part] for part in PARTS}
    assert {"RSA", "ED25519", "ECDSA"} <= set(found["SIGNATURE"])
    if version.startswith("OpenSSL 3.0."):
        assert found == {
            "SIGNATURE": ["DSA", "RSA", "ED25519", "ED448", "ECDSA", "SM2", "HMAC", "SIPHASH", "POLY1305", "CMAC"],
            "KEYEXCH": ["DH", "ECDH", "X25519", "X448", "TLS1-PRF", "HKDF", "SCRYPT"],
            "ASYM_CIPHER": ["RSA", "SM2"],
            "KEM": ["RSA"],
        }


def test_provider_functions_name_themselves(libcrypto: Image) -> None:
    table = {(each.operation, each.names[0]): each.functions for each in algorithms(libcrypto)}
    assert "rsa_decrypt" in texts_named(libcrypto, table["ASYM_CIPHER", "RSA"][5])
    assert "ed25519_digest_sign" in texts_named(libcrypto, table["SIGNATURE", "ED25519"][11])
    assert table["KEM", "RSA"][5] != table["ASYM_CIPHER", "RSA"][5]


def test_ssl_methods_tell_server_from_client(libssl: Image) -> None:
    tables = ssl_methods(libssl)
    both, server, client = (tables[f"TLS_{side}"] for side in ("method", "server_method", "client_method"))
    differing = sorted(slot for slot in server if server[slot] != client[slot])
    assert len(differing) == 2
    accept, connect = differing
    assert (both[accept], both[connect]) == (server[accept], client[connect])
    assert server[connect] == client[accept]


def test_accessors(libssl: Image, libcrypto: Image) -> None:
    offsets = ssl_offsets(libssl)
    names = {"version", "rwstate", "server", "rbio", "wbio", "shutdown", "hand_state", "state", "session", "reused", "cipher"}
    assert set(offsets) == names
    assert offsets["wbio"] == offsets["rbio"] + 8
    if library_version(libcrypto).startswith("OpenSSL 3.0."):
        assert (offsets["version"], offsets["rwstate"], offsets["server"], offsets["rbio"]) == (0, 40, 56, 16)
        assert (offsets["shutdown"], offsets["state"], offsets["hand_state"]) == (68, 72, 92)
    assert bio_flags_offset(libcrypto) is not None


def test_version_is_that_of_the_package(libcrypto: Image) -> None:
    stated = subprocess.run(["openssl", "version"], check=True, capture_output=True, text=True).stdout
    assert f"Library: {library_version(libcrypto)}" in stated or stated.startswith(library_version(libcrypto))


def test_every_range_of_the_unwind_tables_is_code(libcrypto: Image) -> None:
    ranges = list(function_ranges(libcrypto))
    assert len(ranges) > 5000
    assert all(libcrypto.executable(start) and start < end for start, end in ranges)
