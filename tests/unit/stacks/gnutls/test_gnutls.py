# SPDX-License-Identifier: Apache-2.0
"""GnuTLS as this machine has it: what its code and tables show, and that each of its functions is planned."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures import build

from ssllatency.elf.image import Image
from ssllatency.probes.handshake.phases import plan_handshake
from ssllatency.probes.planner import plan_image
from ssllatency.stacks.gnutls.connection import connection_offsets, label_paths, suites, transport_pointers
from ssllatency.stacks.gnutls.stack import GnuTls
from ssllatency.stacks.phases import Phase, Transport
from ssllatency.stacks.registry import stack_of

FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64")


@pytest.fixture(scope="module")
def image() -> Image:
    """The machine's own library."""
    found = next((path for folder in FOLDERS if (path := Path(folder, "libgnutls.so.30")).exists()), None)
    if found is None:
        pytest.skip("there is no libgnutls.so.30: apt-get install libgnutls30")
    return Image.open(found)


def test_it_is_recognised_with_its_version(image: Image) -> None:
    stack = stack_of(image)
    assert isinstance(stack, GnuTls)
    name, release = stack.name_and_release(stack.version(image))
    assert (name, release.split(".")[0]) == ("GnuTLS", "3")


def test_the_session_is_read_by_its_accessors(image: Image) -> None:
    offsets = connection_offsets(image)
    assert (offsets["server"], offsets["server_bits"]) == (0, 1)
    assert offsets["rwstate"] > 0
    paths = label_paths(image)
    assert paths.keys() == {"version", "cipher", "group", "signature", "resumed", "in_init", "alert", "descriptor"}
    depths = {name: len(path.offsets) for name, path in paths.items()}
    assert {name for name, depth in depths.items() if depth == 2} == {"version", "cipher", "group"}
    assert len({path.offsets for path in paths.values()} | {(offsets["rwstate"],)}) == len(paths) + 1


def test_cipher_suites_are_named_by_its_table(image: Image) -> None:
    named = suites(image)
    assert named[0x03001301] == "TLS_AES_128_GCM_SHA256"
    assert named[0x0300C02F] == "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    assert named[0x0300009C] == "TLS_RSA_WITH_AES_128_GCM_SHA256"
    assert len(set(named.values())) == len(named) > 100


def test_each_of_its_functions_is_planned(image: Image) -> None:
    planned = plan_image(image)
    assert (planned.kind, planned.stack) == ("libgnutls", "gnutls")
    assert {operation.operation for operation in planned.operations} == {operation.name for operation in GnuTls.operations}
    assert planned.missing == ()


def test_phases_and_waits_are_found(image: Image) -> None:
    handshake = plan_handshake(image)
    assert {call.phase for call in handshake.calls} == {Phase.PRIVATE_KEY, Phase.PEER_VERIFICATION}
    assert {call.phase for call in handshake.transport} == {Transport.WAIT_PEER, Transport.WAIT_WINDOW}
    assert handshake.missing == ()
    assert not handshake.within_data
    assert len(transport_pointers(image).values()) == 4


def test_names_of_its_codes(image: Image) -> None:
    names = GnuTls().names(image)
    assert names.reason(names_code(110)) == "premature termination"
    assert names.reason(names_code(1048)) == "alert received: unknown CA"
    assert names.groups[29] == "x25519"


def names_code(reason: int) -> int:
    """The word in which the kernel side keeps an error."""
    return 1 << 24 | reason


def test_another_library_shows_nothing(tmp_path: Path) -> None:
    other = Image.open(build.library(tmp_path, "libgnutls.so.30", ["shapes.c"]))
    assert connection_offsets(other) == {}
    assert label_paths(other) == {}
    assert suites(other) == {}
    assert transport_pointers(other) == {}
    assert not GnuTls().recognises(other)
