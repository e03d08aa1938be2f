# SPDX-License-Identifier: Apache-2.0
"""GnuTLS as this machine has it, older and newer: what its code and tables show, and that each of its functions is planned."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from tests import foreign
from tests.fixtures import build

from ssllatency.elf.image import Image
from ssllatency.engines.sessions.handshake_sites import places_of
from ssllatency.model.handshakes import Label
from ssllatency.probes.handshake.phases import plan_handshake
from ssllatency.probes.planner import plan_image
from ssllatency.stacks.gnutls.connection import connection_offsets, label_paths, suites, transport_pointers
from ssllatency.stacks.gnutls.stack import GnuTls
from ssllatency.stacks.phases import Phase, Transport
from ssllatency.stacks.registry import stack_of

FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64")


OWN, OLD = "this machine's", "libgnutls-3.7.1-x86-64"  # the latter has no gnutls_ciphersuite_get, nor gnutls_record_send_file
LABELS = {
    "version",
    "cipher",
    "group",
    "signature",
    "resumed",
    "in_init",
    "alert",
    "descriptor",
    "certificate_bytes",
    "quic_functions",
}
CERTIFICATE = {"verify_mode", "peer_certificate", "credentials"}
EXTENSIONS = {"server_name", "server_name_length", "alpn", "alpn_length"}


@pytest.fixture(scope="module", params=[OWN, OLD, "libgnutls-3.8-x86-64", "libgnutls-3.8-arm64"])
def name(request: pytest.FixtureRequest) -> str:
    """Which library it is."""
    return str(request.param)


@pytest.fixture(scope="module")
def image(name: str) -> Image:
    """The library."""
    if name != OWN:
        return Image.open(foreign.needed(foreign.find(name)))
    found = next((path for folder in FOLDERS if (path := Path(folder, "libgnutls.so.30")).exists()), None)
    if found is None:
        pytest.skip("there is no libgnutls.so.30: apt-get install libgnutls30")
    return Image.open(found)


def test_it_is_recognised_with_its_version(image: Image) -> None:
    stack = stack_of(image)
    assert isinstance(stack, GnuTls)
    name, release = stack.name_and_release(stack.version(image))
    assert (name, release.split(".")[0]) == ("GnuTLS", "3")


def test_the_session_is_read_by_its_accessors(image: Image, name: str) -> None:
    offsets = connection_offsets(image)
    assert (offsets["server"], offsets["server_bits"]) == (0, 1)
    assert offsets["rwstate"] > 0
    paths = label_paths(image)
    assert paths.keys() == (LABELS | CERTIFICATE | EXTENSIONS) - ({"cipher", "in_init"} if name == OLD else set())
    deep = {"version", "cipher", "group", "peer_certificate", "certificate_bytes"} | EXTENSIONS
    assert {label for label, path in paths.items() if len(path.offsets) == 2} == deep & paths.keys()
    assert len({path.offsets for path in paths.values()} | {(offsets["rwstate"],)}) == len(paths) + 1


def test_its_own_certificate_is_a_datum(image: Image) -> None:
    """In the first of the certificates that were chosen, behind the key that it is of."""
    path = label_paths(image)["certificate_bytes"]
    assert (path.offsets[1], path.size) == (8, 0)


def test_what_extensions_bring_lies_behind_a_pointer(image: Image) -> None:
    paths = label_paths(image)
    name, length = paths["server_name"], paths["server_name_length"]
    assert name.offsets[0] == length.offsets[0] != paths["alpn"].offsets[0] == paths["alpn_length"].offsets[0]
    assert (name.offsets[1], name.size, length.offsets[1], length.size) == (2, 0, 0, 2)
    assert (paths["alpn"].offsets[1] + 8, paths["alpn"].size, paths["alpn_length"].size) == (
        paths["alpn_length"].offsets[1],
        8,
        4,
    )


def test_cipher_suites_are_named_by_its_table(image: Image, name: str) -> None:
    named = suites(image)
    if name == OLD:
        assert named == {}
        return
    assert named[0x03001301] == "TLS_AES_128_GCM_SHA256"
    assert named[0x0300C02F] == "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    assert named[0x0300009C] == "TLS_RSA_WITH_AES_128_GCM_SHA256"
    assert len(set(named.values())) == len(named) > 100


def test_each_of_its_functions_is_planned(image: Image, name: str) -> None:
    planned = plan_image(image)
    assert (planned.kind, planned.stack) == ("libgnutls", "gnutls")
    absent = {"gnutls_record_send_file"} if name == OLD else set()
    assert {operation.operation for operation in planned.operations} == {one.name for one in GnuTls.operations} - absent
    assert {missing.operation for missing in planned.missing} == absent


def test_what_handshakes_are_grouped_by(image: Image, name: str) -> None:
    shown = places_of(replace(plan_image(image), handshake=plan_handshake(image)))
    assert set(Label) - shown == ({Label.CIPHER} if name == OLD else set())


def test_phases_and_waits_are_found(image: Image) -> None:
    handshake = plan_handshake(image)
    assert {call.phase for call in handshake.calls} == {Phase.PRIVATE_KEY, Phase.PEER_VERIFICATION, Phase.KEY_EXCHANGE}
    assert {call.phase for call in handshake.transport} == {Transport.WAIT_PEER, Transport.WAIT_WINDOW}
    assert handshake.missing == ()
    assert not handshake.within_data
    assert len(transport_pointers(image).values()) == 4


def test_calls_of_key_exchange_are_found(image: Image, name: str) -> None:
    calls = Counter(call.callee for call in plan_handshake(image).calls if call.phase is Phase.KEY_EXCHANGE)
    encapsulation = {"_gnutls_pk_encaps": 1, "_gnutls_pk_decaps": 1} if "3.8" in name else {}
    assert calls.keys() == {"_gnutls_pk_generate_keys", "_gnutls_pk_derive", *encapsulation}
    assert {function: calls[function] for function in encapsulation} == encapsulation
    assert min(calls["_gnutls_pk_generate_keys"], calls["_gnutls_pk_derive"]) >= 12


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
