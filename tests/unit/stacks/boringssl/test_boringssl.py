# SPDX-License-Identifier: Apache-2.0
"""What SSL_get_error's code tells of BoringSSL's structures, however it is compiled; and that OpenSSL's isn't taken for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import foreign
from tests.fixtures import build
from tests.parameters import slow_except

from ssllatency.code.values import FieldPath
from ssllatency.elf.image import Image
from ssllatency.probes.planner import plan_image
from ssllatency.stacks.boringssl.connection import boringssl_offsets, boringssl_paths
from ssllatency.stacks.boringssl.stack import BoringSsl

NAMES = ("boringssl", "rwstate", "rbio", "wbio", "server", "handshake")


def compiled(folder: Path, kind: int, style: str) -> Image:
    """The library of this kind, in this style."""
    return Image.open(
        build.library(folder, f"libkind{kind}-{style}.so", ["boringssl.c"], f"-DKIND={kind}", *build.STYLES[style])
    )


def offsets(image: Image) -> dict[str, int]:
    """What the compiler says."""
    table = build.symbols(Path(image.label))["offsets"].address
    return {name: image.constant(table + 8 * number, 8) or 0 for number, name in enumerate(NAMES)}


@pytest.mark.parametrize("style", slow_except(build.STYLES, "plain"))
@pytest.mark.parametrize("kind", [1, 2])
def test_where_it_keeps_what_it_waits_for(folder: Path, kind: int, style: str) -> None:
    image = compiled(folder, kind, style)
    found = boringssl_offsets(image)
    due = offsets(image)
    assert found is not None
    assert {name: found[name] for name in ("boringssl", "rwstate", "rbio", "wbio")} == {
        name: due[name] for name in ("boringssl", "rwstate", "rbio", "wbio")
    }
    # A bit that is shifted down isn't followed: then the side isn't known, and never a wrong one.
    assert (found.get("server"), found.get("server_bits")) in ((due["server"], 4), (None, None))


@pytest.mark.parametrize("style", slow_except(build.STYLES, "plain"))
@pytest.mark.parametrize("kind", [1, 2])
def test_where_it_keeps_a_handshake(folder: Path, kind: int, style: str) -> None:
    image = compiled(folder, kind, style)
    due = offsets(image)
    assert boringssl_paths(image) == {"in_init": FieldPath((due["boringssl"], due["handshake"]), 8)}


def test_its_reasons_have_words(folder: Path) -> None:
    known = BoringSsl().names(compiled(folder, 1, next(iter(build.STYLES))))
    assert known.reason(known.ssl << 24 | 184) == "no shared cipher"
    assert known.reason(known.ssl << 24 | 1048) == "tlsv1 alert unknown ca"
    assert known.libraries[known.ssl] == "SSL routines"


def test_its_groups_have_the_names_that_it_has_for_them() -> None:
    """As in its own table of 72 bytes an entry: a NID, the number in TLS, the name and another one."""
    image = Image.open(foreign.needed(foreign.rust_server("boringssl")))
    [place] = [at for at in image.find_string(b"P256Kyber768Draft00") if image.constant(at - 2, 2) == 0xFE32]
    groups = {image.constant(at - 2, 2): image.text(at) for at in range(place - 7 * 72, place + 72, 72)}
    assert {*groups.values()} >= {"P-256", "X25519", "X25519MLKEM768", "X25519Kyber768Draft00", "P256Kyber768Draft00"}
    known = BoringSsl().names(image).groups
    iana = {"P-256": "secp256r1", "P-384": "secp384r1", "P-521": "secp521r1", "X25519": "x25519"}
    assert {number: known.get(number or 0) for number in groups} == {
        number: iana.get(name, name) for number, name in groups.items()
    }


@pytest.mark.parametrize("style", slow_except(build.STYLES, "plain"))
def test_openssl_is_none(folder: Path, style: str) -> None:
    image = compiled(folder, 3, style)
    assert boringssl_offsets(image) is None
    assert boringssl_paths(image) == {}


@pytest.mark.parametrize("name", ["libssl.so.3", "libcrypto.so.3"])
def test_the_machines_own_is_none(name: str) -> None:
    image = Image.open(Path("/usr/lib/x86_64-linux-gnu") / name)
    assert boringssl_offsets(image) is None
    plan = plan_image(image)
    assert (plan.offsets.boringssl, plan.offsets.server_bits) == (None, None)
