# SPDX-License-Identifier: Apache-2.0
"""Handshake plans of real libraries: this machine's, and those that tools/for-tests/foreign-libraries brings."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from tests import foreign
from tests.parameters import slow_except
from tests.unit.probes.conftest import FOLDER
from tests.unit.probes.handshake.handshake_walk import calls, function, walk
from tests.unit.probes.libraries.test_system_plans import depth, unwind_tables

from ssllatency.code.machine import Cost, Emulation
from ssllatency.elf.image import Image
from ssllatency.errors import SsllatencyError
from ssllatency.probes.codec import handshake_from_values, handshake_values
from ssllatency.probes.handshake.phases import plan_handshake
from ssllatency.probes.plan import HandshakeSites, PhaseCall, Role
from ssllatency.probes.settings import PlanSettings
from ssllatency.stacks.phases import Phase, Transport

X86 = ("libssl-host", "libssl-1.1-x86-64", "libssl-3.5-x86-64", "libssl-4-x86-64", "node")
LIBSSL = (*X86, "libssl-1.1-arm64", "libssl-3.0-arm64", "libssl-3.5-arm64", "libssl-4-arm64")
QUICK = slow_except(LIBSSL, "libssl-host", "libssl-3.0-arm64")
LIBCRYPTO = tuple(name.replace("libssl", "libcrypto") for name in LIBSSL if name != "node")
NO_CALLS = Emulation(calls=False)

# How often libssl calls what: in OpenSSL's source as in these builds of it. GOST's two calls are a matter of configuration.
CALLBACKS = {"client_hello_cb": 1, "servername_cb": 2, "alpn_select_cb": 1, "cert_cb": 2, "status_cb": 2, "new_session_cb": 1}
TICKETS = {"ticket_key_cb": 2}
LOOKUPS = {"tls_decrypt_ticket": 2, "EVP_CIPHER_CTX_new": 1, "lookup_sess_in_cache": 2}
CHECKS = {"EVP_DigestVerify": 2, "EVP_DigestVerifyFinal": 1}
OF_3 = {
    **CALLBACKS,
    **TICKETS,
    **LOOKUPS,
    **CHECKS,
    "EVP_DigestSign": 2,
    "EVP_DigestSignFinal": 1,
    "EVP_PKEY_decrypt": 3,
    "EVP_PKEY_keygen": 2,
    "EVP_PKEY_derive": 1,
    "EVP_PKEY_derive_set_peer": 2,
    "EVP_PKEY_public_check": 1,
    "EVP_PKEY_encapsulate": 1,
    "EVP_PKEY_decapsulate": 1,
    "d2i_X509": 2,
    "X509_verify_cert": 1,
    "app_verify_callback": 1,
}
OF_4 = {name: number for name, number in OF_3.items() if not name.endswith("Final")}  # which has no SSL 3.0
OF_1_1 = {
    **CALLBACKS,
    **TICKETS,
    **LOOKUPS,
    **CHECKS,
    "EVP_DigestSign": 2,
    "EVP_DigestSignFinal": 1,
    "EVP_PKEY_decrypt": 1,
    "EVP_PKEY_keygen": 2,
    "EVP_PKEY_derive": 1,
    "EVP_PKEY_derive_set_peer": 2,
    "RSA_private_decrypt": 1,
    "d2i_X509": 2,
    "X509_verify_cert": 1,
    "app_verify_callback": 1,
}
OF_NODE = {
    **OF_3,
    "EVP_PKEY_decrypt": 1,
    "EVP_PKEY_derive_set_peer": 1,
    "X509_verify_cert": 2,
    "app_verify_callback": 2,
    "status_cb": 3,
    "ticket_key_cb": 3,
}
SERIES = {"1.1": OF_1_1, "3.0": OF_3, "3.5": OF_3, "4": OF_4, "host": OF_3, "node": OF_NODE}
EXPECTED = {name: SERIES[name.removeprefix("libssl-").split("-")[0]] for name in LIBSSL}


@cache
def opened(path: Path) -> Image:
    return Image.open(path, debug_roots=())


@cache
def planned(path: Path, emulation: Emulation) -> HandshakeSites:
    return plan_handshake(opened(path), PlanSettings(emulation=emulation))


def found(name: str, emulation: Emulation = Emulation()) -> tuple[Image, HandshakeSites]:  # noqa: B008 - it is frozen
    path = FOLDER / f"{name.removesuffix('-host')}.so.3" if name.endswith("-host") else foreign.needed(foreign.find(name))
    if not path.exists():
        pytest.skip(f"this machine has no {path}")
    return opened(path), planned(path, emulation)


@pytest.mark.parametrize("name", QUICK)
def test_every_call_of_a_handshake_is_found(name: str) -> None:
    _, plan = found(name)
    assert Counter(call.callee for call in plan.calls) == EXPECTED[name]
    assert {call.phase for call in plan.calls} == set(Phase)
    assert {call.callee: call.phase for call in plan.transport} == {
        "ssl_read_bytes": Transport.WAIT_PEER,
        "ssl_write_bytes": Transport.WAIT_WINDOW,
    }
    assert plan.state_machine
    assert not plan.within_data
    assert plan.missing == ()
    assert {"version", "hand_state", "cipher"} <= set(plan.labels)


@pytest.mark.parametrize("name", LIBSSL)
@pytest.mark.parametrize("emulation", [Emulation(), NO_CALLS], ids=["", "shadow stack"])
@pytest.mark.slow
def test_the_way_from_each_begin_leads_through_its_call_to_its_end(name: str, emulation: Emulation) -> None:
    image, plan = found(name, emulation)
    assert plan.calls
    for call in plan.calls:
        walked = walk(image, call)
        assert walked.clean, call
        assert all(end.address in function(image, call.begin.address) for end in call.ends)
        assert _calls(image, walked.call, call.callee), call
        for probe in (call.begin, *call.ends):
            assert probe.offset == image.file_offset(probe.address)


def _calls(image: Image, instruction: object, callee: str) -> bool:
    """Whether the call goes to libcrypto's function; where it goes to a hidden one or a callback, only what form it has."""
    direct = str(instruction.op_str).lstrip("#").startswith("0x")  # type: ignore[attr-defined]
    if callee.endswith(("_cb", "_callback")):
        return not direct
    if callee in LOOKUPS:
        return direct
    return calls(image, instruction, callee)


@pytest.mark.parametrize("name", QUICK)
def test_no_end_is_where_a_phase_begins(name: str) -> None:
    _, plan = found(name)
    begins = [call.begin.address for call in plan.calls]
    assert len(set(begins)) == len(begins)
    assert not set(begins) & {end.address for call in plan.calls for end in call.ends}


@pytest.mark.parametrize("name", slow_except(X86[:-1], "libssl-host"))
def test_stack_depths_are_those_of_the_unwind_tables(name: str) -> None:
    image, plan = found(name)
    tables = unwind_tables(image.path)
    for call in plan.calls:
        bounds = image.function_bounds(call.begin.address)
        assert bounds is not None
        for probe in (call.begin, *call.ends):
            assert depth(tables[bounds[0]], probe.address) == probe.stack_delta, call


@pytest.mark.parametrize("name", QUICK)
def test_every_site_is_cheap(name: str) -> None:
    """But where the call for a ticket's keys has two ways to it, one for each of the two callbacks."""
    _, plan = found(name)
    begins = [call.begin for call in plan.calls if call.callee != "ticket_key_cb" or call.condition]
    probes = [*begins, *(end for call in plan.calls for end in call.ends)]
    assert {probe.cost for probe in probes} == {Cost.EMULATED}


@pytest.mark.parametrize("name", slow_except(X86, "libssl-host"))
def test_a_callback_begins_at_the_branch_that_finds_it_set(name: str) -> None:
    """So a callback that isn't set costs a trap and counts nothing, and none is single-stepped. Before the session's callback a
    reference is taken: by a call, which is the begin, or in place. Since OpenSSL 3.0 there are two ways to the callback for a
    ticket's keys, past calls of other functions."""
    image, plan = found(name)
    callbacks = [call for call in plan.calls if call.phase is Phase.CALLBACKS]
    if image.function("SSL_CTX_set_tlsext_ticket_key_evp_cb"):
        callbacks = [call for call in callbacks if call.callee != "ticket_key_cb"]
    others = [call for call in callbacks if call.callee != "new_session_cb" or not call.begin.instruction.startswith("call")]
    assert {(call.condition, call.taken) for call in others} - {("jne", True)} == {("je", False)}
    assert len(callbacks) - len(others) == (name in ("libssl-host", "libssl-1.1-x86-64"))


def test_what_tells_of_the_private_key() -> None:
    _, plan = found("libssl-host")
    calls = {call.callee: call for call in plan.calls}

    def arguments(call: PhaseCall) -> tuple[object, ...]:
        return call.phase, call.operation, call.skip_null, call.size_argument, call.size_is_pointer

    assert arguments(calls["EVP_DigestSign"]) == (Phase.PRIVATE_KEY, "sign", 1, 2, True)
    assert arguments(calls["EVP_PKEY_decrypt"]) == (Phase.PRIVATE_KEY, "decrypt", 1, 4, False)
    assert arguments(calls["EVP_PKEY_derive"]) == (Phase.KEY_EXCHANGE, "", 1, None, False)
    assert arguments(calls["EVP_DigestVerify"]) == (Phase.PEER_VERIFICATION, "", None, None, False)


@pytest.mark.parametrize("name", slow_except(X86, "libssl-host"))
def test_with_a_shadow_stack_no_site_is_a_call(name: str) -> None:
    """Then sites lie before the calls; where the argument that tells a size query isn't set there, the call is left out."""
    _, plan = found(name, NO_CALLS)
    mnemonics = {probe.instruction.split()[0] for call in plan.calls for probe in (call.begin, *call.ends)}
    assert "call" not in mnemonics
    whole = Counter(EXPECTED[name])
    whole.subtract(call.callee for call in plan.calls)
    assert +whole == Counter(each.what for each in plan.missing)
    assert all("arguments in place" in each.reason for each in plan.missing)


@pytest.mark.parametrize("name", QUICK)
def test_alerts_are_seen_where_the_handshake_is_broken_off(name: str) -> None:
    image, plan = found(name)
    fatal = [site for site in plan.errors if site.kind == "fatal"]
    assert [site.function for site in fatal] == ["ossl_statem_fatal"]
    assert fatal[0].probe.role is Role.ENTRY
    named = image.function("ossl_statem_fatal")  # node names it
    if named:
        assert image.function_bounds(fatal[0].probe.address) == image.function_bounds(named.address)


@pytest.mark.parametrize("name", QUICK)
def test_why_it_breaks_off_is_seen_at_its_calls(name: str) -> None:
    """The handshake's own, since 3.2 the record layer's and QUIC's, since 4.0 what encrypts a ClientHello. OpenSSL 1.1.1 has no
    such function, and in node libcrypto calls it as well."""
    _, plan = found(name)
    own = [site for site in plan.errors if site.kind == "own"]
    number = 0 if "1.1" in name or name == "node" else 3 if "3.5" in name else 4 if "-4-" in name else 1
    assert [site.function for site in own] == ["ERR_vset_error"] * number
    assert all(site.probe.cost is Cost.EMULATED for site in own)


@pytest.mark.parametrize("name", slow_except([*LIBCRYPTO, "node"], "libcrypto-host"))
def test_errors_and_offload_are_seen_in_libcrypto(name: str) -> None:
    image, plan = found(name)
    kind, function_name = ("raise_1_1", "ERR_put_error") if "1.1" in name else ("raise", "ERR_vset_error")
    assert (kind, function_name) in [(site.kind, site.function) for site in plan.errors]
    assert plan.wake is not None
    named = image.function("ASYNC_WAIT_CTX_set_wait_fd")
    assert named is not None
    assert image.function_bounds(plan.wake.address) == image.function_bounds(named.address)
    if name != "node":
        assert (plan.calls, dict(plan.labels), plan.missing) == ((), {}, ())


@pytest.mark.slow
def test_hidden_functions_are_those_that_names_tell() -> None:
    """In node they have names; without looking at them, the same ones are found by what they call."""
    image, _ = found("node")
    named = {each: image.function(each) for each in ("tls_decrypt_ticket", "lookup_sess_in_cache", "ossl_statem_fatal")}
    assert all(named.values())

    class Nameless(Image):
        def function(self, name: str):  # type: ignore[no-untyped-def]
            return None if name in named else super().function(name)

    nameless = Nameless.open(image.path, debug_roots=())
    assert plan_handshake(nameless) == found("node")[1]


@pytest.mark.parametrize("name", ["libssl-host", "libssl-1.1-arm64"])
@pytest.mark.slow
def test_a_damaged_file_gives_an_error_or_a_plan_that_can_be_read_back(name: str, tmp_path: Path) -> None:
    image, plan = found(name)
    chance = random.Random(11)
    content = Path(image.path).read_bytes()
    bounds = [image.function_bounds(call.begin.address) or (0, 1) for call in plan.calls]
    places = [(image.file_offset(start), end - start) for start, end in bounds] + [(0, len(content)), (0, 4096)]
    read_back = 0
    for count in (1, 5, 50, 400) * 3:
        changed = bytearray(content)
        for _ in range(count):
            start, size = chance.choice(places)
            changed[start + chance.randrange(size)] = chance.randrange(256)
        damaged = tmp_path / "damaged.so"
        damaged.write_bytes(changed)
        try:
            replanned = plan_handshake(Image.open(damaged, debug_roots=()))
        except SsllatencyError:
            continue
        assert handshake_from_values(handshake_values(replanned), file_size=len(content)) == replanned
        read_back += 1
    assert read_back
