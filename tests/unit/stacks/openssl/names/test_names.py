# SPDX-License-Identifier: Apache-2.0
"""Names read out of the files of real libraries, compared in whole with what the libraries answer when they are asked."""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests import foreign
from tests.fixtures import build
from tests.parameters import slow_except

from ssllatency.elf.image import Image
from ssllatency.stacks.names import Names, join, unpack
from ssllatency.stacks.openssl.accessors import ssl_offsets
from ssllatency.stacks.openssl.names.library import names

HOST = Path("/usr/lib/x86_64-linux-gnu")
IANA = {"prime192v1": "secp192r1", "prime256v1": "secp256r1", "X25519": "x25519", "X448": "x448"}
PARTS = ("libssl", "libcrypto")
NO_ALERT, NO_STATE = "unknown", "unknown state"
SYSTEM_LIBRARY = 2
# Tables in libcrypto that it never loads: SM2's in 1.1.1 and some 3.0, those of OSSL_ENCODER and OSSL_DECODER in 3.
NEVER_LOADED = {1: {53}, 3: {53, 59, 60}}

Told = dict[str, dict[int, str]]


@dataclass(frozen=True)
class Library:
    """A libssl and its libcrypto, with what runs a program that loads them."""

    libssl: Path
    libcrypto: Path
    loader: tuple[str | Path, ...] = ()


def host() -> Library:
    library = Library(HOST / "libssl.so.3", HOST / "libcrypto.so.3")
    if not (library.libssl.exists() and library.libcrypto.exists()):
        pytest.skip(f"needs OpenSSL 3 in {HOST} (Debian: apt-get install libssl3)")
    return library


def debian_13() -> Library:
    root = foreign.needed(foreign.second_root())
    folder = root / "usr/lib/x86_64-linux-gnu"
    loader = (root / "lib64/ld-linux-x86-64.so.2", "--library-path", folder)
    return Library(folder / "libssl.so.3", folder / "libcrypto.so.3", loader)


def openssl_1_1_1() -> Library:
    return Library(*(foreign.needed(foreign.find(f"{name}-1.1-x86-64")) for name in PARTS))


@dataclass(frozen=True)
class Case:
    """A library's own names as read, and as told by itself."""

    read: Names
    told: Told


@pytest.fixture(scope="module")
def tell_names(folder: Path) -> Path:
    program = folder / "tell_names"
    build.run("gcc", "-O1", "-o", program, build.SOURCES / "tell_names.c", "-ldl")
    return program


@pytest.fixture(scope="module", params=slow_except((host, debian_13, openssl_1_1_1), host), ids=["host", "3.5", "1.1.1"])
def case(request: pytest.FixtureRequest, tell_names: Path) -> Case:
    library: Library = request.param()
    libssl, libcrypto = Image.open(library.libssl), Image.open(library.libcrypto)
    read = join(names(libssl), names(libcrypto))
    state = ssl_offsets(libssl)["hand_state"]
    command = [*library.loader, tell_names, library.libssl, library.libcrypto, str(state), *sorted({*read.signatures.values()})]
    environment = {**os.environ, "OPENSSL_CONF": os.devnull}
    output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    told: Told = defaultdict(dict)
    for kind, number, name in (line.split(" ", 2) for line in output.splitlines()):
        told[kind][int(number)] = name
    return Case(read, told)


def test_error_reasons(case: Case) -> None:
    told = {code: text for code, text in case.told["reason"].items() if unpack(code, case.read.major)[0] != SYSTEM_LIBRARY}
    assert len(told) > 1000
    assert {code: case.read.reason(code) for code in told} == told


def test_no_error_reason_is_made_up(case: Case) -> None:
    told = {unpack(code, case.read.major): text for code, text in case.told["reason"].items()}
    assert {key: told.get(key, text) for key, text in case.read.reasons.items()} == case.read.reasons
    assert {library for library, _ in case.read.reasons.keys() - told.keys()} <= NEVER_LOADED[case.read.major]


def test_parts_of_the_library(case: Case) -> None:
    assert case.read.libraries[20] == "SSL routines"
    assert case.read.libraries == case.told["library"]


def test_alerts(case: Case) -> None:
    assert case.read.alerts[40] == "handshake failure"
    assert case.read.alerts == {number: name for number, name in case.told["alert"].items() if name != NO_ALERT}


def test_states(case: Case) -> None:
    assert len(case.read.states) >= 50
    assert case.read.states == {number: name for number, name in case.told["state"].items() if name != NO_STATE}


def test_ciphers(case: Case) -> None:
    assert case.read.ciphers[0x0300C02F] == "ECDHE-RSA-AES128-GCM-SHA256"
    assert case.read.ciphers == case.told["cipher"]


def test_groups(case: Case) -> None:
    assert case.read.groups[29] == "x25519"
    assert case.read.groups == {number: IANA.get(name, name) for number, name in case.told["group"].items()}


def test_signatures(case: Case) -> None:
    told = case.told["signature"]
    assert {"rsa_pss_rsae_sha256", "ecdsa_secp256r1_sha256", "ed25519"} <= {*told.values()}
    assert told == {number: case.read.signatures.get(number) for number in told}


@pytest.mark.slow
def test_same_version_of_another_machine() -> None:
    libraries = [[foreign.needed(foreign.find(f"{name}-3.5-{machine}")) for name in PARTS] for machine in ("x86-64", "arm64")]
    intel, arm = (join(*(names(Image.open(path)) for path in paths)) for paths in libraries)
    assert intel == arm


@pytest.mark.parametrize("version", ["1.1", "3.0"])
def test_other_versions_of_another_machine(version: str) -> None:
    libssl, libcrypto = (foreign.needed(foreign.find(f"{name}-{version}-arm64")) for name in PARTS)
    read = join(names(Image.open(libssl)), names(Image.open(libcrypto)))
    assert (read.alerts[40], read.states[20]) == ("handshake failure", "SSLv3/TLS read client hello")
    assert (read.groups[29], read.signatures[0x0804]) == ("x25519", "rsa_pss_rsae_sha256")
    assert read.reasons[20, 193] == "no shared cipher"
    assert min(map(len, (read.reasons, read.libraries, read.ciphers))) >= 30


@pytest.mark.slow
def test_node() -> None:
    """What its own texts say, and as many as in the library of the same version."""
    read = names(Image.open(foreign.needed(foreign.find("node"))))
    library = join(*(names(Image.open(foreign.needed(foreign.find(f"{name}-3.5-x86-64")))) for name in PARTS))
    assert read.major == 3
    assert len(read.reasons) > 1500
    assert (read.libraries, read.alerts, read.groups) == (library.libraries, library.alerts, library.groups)
    assert (read.reasons[20, 193], read.ciphers[0x03001301]) == ("no shared cipher", "TLS_AES_128_GCM_SHA256")
    assert read.states == library.states
    assert read.signatures.items() >= {0x0804: "rsa_pss_rsae_sha256", 0x0905: "mldsa65"}.items()
