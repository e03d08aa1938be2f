# SPDX-License-Identifier: Apache-2.0
"""Tables of names through every kind of linking, and what looks like such a table but isn't."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures import build
from tests.parameters import slow_except
from tests.unit.stacks.openssl.test_tables import LIBRARIES, PROGRAMS

from ssllatency.elf.image import Image
from ssllatency.stacks.names import Names, join, unpack
from ssllatency.stacks.openssl.names.library import names

ALERTS = {0: "close notify", 10: "unexpected message", 20: "bad record mac", 40: "handshake failure", 42: "bad certificate"}
STATES = {
    0: "before SSL initialization",
    1: "SSL negotiation finished successfully",
    3: "SSLv3/TLS read server hello",
    20: "SSLv3/TLS read client hello",
    46: "TLSv1.3 read server certificate verify",
}
REASONS = {
    (20, 193): "no shared cipher",
    (20, 1040): "ssl/tls alert handshake failure",
    (4, 100): "bad e value",
    (4, 129): "block type is not 01",
    (0, 2): "system lib",
    (0, 65): "malloc failure",
    (0, 66): "called a function",
}
PARTS = {2: "system library", 4: "rsa routines", 20: "SSL routines"}
CIPHERS = {
    0x03001301: "TLS_AES_128_GCM_SHA256",
    0x03001302: "TLS_AES_256_GCM_SHA384",
    0x03000001: "NULL-MD5",
    0x0300002F: "AES128-SHA",
    0x0300FF87: "GOST2012-NULL-GOST12",
    0x03000096: "SEED-SHA",
}
SCHEMES = {0x0403: "ecdsa_secp256r1_sha256", 0x0503: "ecdsa_secp384r1_sha384", 0x0807: "ed25519", 0x0201: "rsa_pkcs1_sha1"}
GROUPS = {23: "secp256r1", 29: "x25519"}
VERSION_1 = ("-DMAJOR_1",)


def check(read: Names) -> None:
    assert read == Names(
        reasons=REASONS,
        libraries=PARTS,
        alerts=ALERTS,
        states=STATES,
        ciphers=CIPHERS,
        groups=GROUPS,
        signatures={**SCHEMES, 0x0905: "mldsa65"},
        major=3,
    )


@pytest.mark.parametrize("kind", slow_except(LIBRARIES, "rela", "relr"))
def test_libraries(folder: Path, kind: str) -> None:
    path = build.library(folder, f"libnames-{kind}.so", ["names.c"], *LIBRARIES[kind])
    check(names(Image.open(build.stripped(path, f"libnames-{kind}-stripped.so"))))


@pytest.mark.parametrize("kind", slow_except(PROGRAMS, "static-pie-relr"))
def test_programs(folder: Path, kind: str) -> None:
    check(names(Image.open(build.program(folder, f"names-{kind}", "names.c", *PROGRAMS[kind]))))


def test_program_without_symbols_has_its_tables(folder: Path) -> None:
    path = build.program(folder, "names-bare", "names.c", "-static", "-no-pie")
    read = names(Image.open(build.stripped(path, "names-bare-stripped"), debug_roots=()))
    assert (read.reasons, read.libraries, read.groups) == (REASONS, PARTS, GROUPS)
    assert (read.alerts, read.states, read.ciphers) == ({}, {}, {})


def test_rows_of_schemes_since_3_5(folder: Path) -> None:
    check(names(Image.open(build.library(folder, "libnames-35.so", ["names.c"], "-DSINCE_3_5"))))


@pytest.mark.parametrize("kind", ["rela", "relr"])
def test_version_1(folder: Path, kind: str) -> None:
    read = names(Image.open(build.library(folder, f"libnames-1-{kind}.so", ["names.c"], *VERSION_1, *LIBRARIES[kind])))
    assert (read.major, read.reasons, read.libraries) == (1, REASONS, PARTS)
    assert read.groups == {1: "sect163k1", 3: "sect163r2", 4: "secp256r1", 5: "x25519"}
    assert (read.alerts, read.states, read.ciphers, read.signatures) == (ALERTS, STATES, CIPHERS, SCHEMES)


def test_nothing_in_another_library(shapes: Path) -> None:
    assert names(Image.open(shapes)) == Names()


def test_groups_of_version_1_need_both_libraries() -> None:
    libssl, libcrypto = Names(curves={23: 415, 24: 715}, major=1), Names(objects={415: "prime256v1"}, major=1)
    assert join(libssl, libcrypto).groups == join(libcrypto, libssl).groups == {23: "secp256r1"}


def test_the_first_of_two_names_wins() -> None:
    one, other = Names(alerts={1: "one", 2: "two"}), Names(alerts={2: "other", 3: "three"}, major=3)
    assert join(one, other) == Names(alerts={1: "one", 2: "two", 3: "three"}, major=3)


@pytest.mark.parametrize(
    ("code", "major", "parts"),
    [
        (20 << 23 | 193, 3, (20, 193)),
        (20 << 24 | 367 << 12 | 193, 1, (20, 193)),
        (1 << 31 | 104, 3, (2, 104)),
        (2 << 24 | 2 << 12 | 111, 1, (2, 111)),
        (6 << 23 | 0x80000 | 0x40000 | 0x100, 3, (6, 0xC0100)),
    ],
)
def test_codes_are_unpacked(code: int, major: int, parts: tuple[int, int]) -> None:
    assert unpack(code, major) == parts


def test_reason_of_a_code() -> None:
    known = Names(reasons=REASONS, major=3)
    assert known.reason(20 << 23 | 193) == "no shared cipher"
    assert known.reason(6 << 23 | 65) == "malloc failure"
    assert known.reason(6 << 23 | 1000) == ""
    assert Names(reasons=REASONS).reason(20 << 23 | 193) == ""
