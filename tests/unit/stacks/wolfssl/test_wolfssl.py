# SPDX-License-Identifier: Apache-2.0
"""wolfSSL as this machine has it, and newer: what its code and tables show, and that each of its functions is planned."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import foreign
from tests.fixtures import build, wolfssl

from ssllatency import abi
from ssllatency.elf.image import Image
from ssllatency.probes.codec import from_values, to_values
from ssllatency.probes.handshake.phases import plan_handshake
from ssllatency.probes.plan import Role
from ssllatency.probes.planner import plan_image
from ssllatency.stacks.phases import Phase, Transport
from ssllatency.stacks.registry import stack_of
from ssllatency.stacks.wolfssl.connection import connection_offsets, label_paths
from ssllatency.stacks.wolfssl.stack import WolfSsl
from ssllatency.stacks.wolfssl.suites import suites

FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu")
OWN, BUILT_IN = "this machine's", "this machine's, built in"
LABELS = {"version", "cipher", "resumed", "group", "alert", "descriptor"}
TWINS = {"wolfSSL_accept_TLSv13", "wolfSSL_connect_TLSv13"}
NEWER = {"wolfSSL_read_ex", "wolfSSL_write_ex"}


@pytest.fixture(scope="module", params=[OWN, BUILT_IN, "libwolfssl-5.7-x86-64", "libwolfssl-5.7-arm64"])
def image(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The library, or a program that has all of it built in."""
    name = str(request.param)
    if name == BUILT_IN:
        return Image.open(wolfssl.build("client", tmp_path_factory.mktemp("built-in"), built_in=True))
    if name != OWN:
        return Image.open(foreign.needed(foreign.find(name)))
    found = next((path for folder in FOLDERS if (path := Path(folder, "libwolfssl.so.35")).exists()), None)
    if found is None:
        pytest.skip("there is no libwolfssl.so.35: run tools/setup")
    return Image.open(found)


def test_it_is_recognised_with_its_version(image: Image) -> None:
    stack = stack_of(image)
    assert isinstance(stack, WolfSsl)
    name, release = stack.name_and_release(stack.version(image))
    assert (name, release.split(".")[0]) == ("wolfSSL", "5")


def test_its_connection_is_read_by_its_accessors(image: Image) -> None:
    offsets = connection_offsets(image)
    assert offsets.keys() == {"rwstate", "server", "server_bits", "state", "shutdown"}
    assert 0 < offsets["shutdown"] - offsets["state"] < 8  # options beside each other
    assert offsets["server_bits"] == 0x180
    paths = label_paths(image)
    assert paths.keys() == LABELS
    assert (paths["resumed"].size, paths["resumed"].bits) == (1, 0x40)
    assert paths["descriptor"].offsets[0] == offsets["rwstate"] + 4
    assert len({path.offsets for path in paths.values()} | {(offsets["rwstate"],), (offsets["state"],)}) == len(paths) + 2


def test_each_of_its_functions_is_planned(image: Image) -> None:
    plan = plan_image(image)
    assert (plan.kind, plan.stack) == ("libwolfssl", "wolfssl")
    assert {planned.operation for planned in plan.operations} == {one.name for one in WolfSsl.operations} - TWINS - NEWER
    assert {missing.operation for missing in plan.missing} == NEWER
    assert from_values(to_values(plan), 1 << 40) == plan


def test_calls_may_begin_in_either_of_two_functions(image: Image) -> None:
    """Each ends in a call of the other where the version that it was for turns out to be another one."""
    planned = {one.operation: one for one in plan_image(image).operations}
    for name in ("wolfSSL_accept", "wolfSSL_connect"):
        entries = [probe for probe in planned[name].probes if probe.role is Role.ENTRY]
        starts = [function.address for each in (name, f"{name}_TLSv13") if (function := image.function(each))]
        assert [entry.shared for entry in entries] == [True, True]
        assert all(0 <= entry.address - start < 64 for entry, start in zip(entries, starts, strict=True))
        assert {probe.role for probe in planned[name].probes} == {Role.ENTRY, Role.EXIT}
    negotiating = [probe for probe in planned["wolfSSL_negotiate"].probes if probe.role is Role.ENTRY]
    assert [entry.shared for entry in negotiating] == [False]


def test_phases_and_waits_are_found(image: Image) -> None:
    handshake = plan_handshake(image)
    assert {call.phase for call in handshake.calls} == {Phase.PRIVATE_KEY, Phase.PEER_VERIFICATION, Phase.KEY_EXCHANGE}
    assert {call.phase for call in handshake.transport} == {Transport.WAIT_PEER, Transport.WAIT_WINDOW}
    callees = {call.callee for call in handshake.calls}
    assert callees >= {"wc_RsaSSL_Sign", "wc_RsaPSS_Sign", "wc_ecc_sign_hash", "wc_curve25519_make_key"}
    assert callees >= {"wc_RsaPSS_VerifyInline", "wc_RsaPSS_VerifyInline_ex", "wc_ecc_verify_hash"}
    assert all(part.what.startswith("some calls of wc_") for part in handshake.missing)
    assert not handshake.within_data


def test_names_of_its_codes(image: Image) -> None:
    names = WolfSsl().names(image)
    word = abi.Error.LIBRARY_WOLFSSL << 24
    assert names.reason(word | 501) == "match suite error"
    assert names.reason(word | 3048) == "alert received: unknown CA"
    assert names.groups[365] == "x25519"
    assert names.ciphers == suites(image)
    assert suites(image)[0x03001301] == "TLS_AES_128_GCM_SHA256"
    assert suites(image)[0x0300C02F] == "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"


def test_another_library_shows_nothing(tmp_path: Path) -> None:
    other = Image.open(build.library(tmp_path, "libwolfssl.so.35", ["shapes.c"]))
    assert connection_offsets(other) == {}
    assert label_paths(other) == {}
    assert suites(other) == {}
    assert not WolfSsl().recognises(other)
