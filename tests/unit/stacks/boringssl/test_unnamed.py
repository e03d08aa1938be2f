# SPDX-License-Identifier: Apache-2.0
"""Functions of a BoringSSL or AWS-LC whose symbols were stripped: those of a stripped copy are the ones that symbols name, and
what isn't certain is not taken."""

from __future__ import annotations

import re
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from tests import foreign, programs
from tests.fixtures import build
from tests.fixtures.stripped import stripped_library
from tests.parameters import slow_except

from ssllatency.code.evaluate import followed_in
from ssllatency.code.flow import Unplannable
from ssllatency.code.values import Assumptions, FieldPath, SymbolicAddress
from ssllatency.elf.image import Image
from ssllatency.probes.contents import file_facts
from ssllatency.probes.handshake.phases import plan_handshake
from ssllatency.probes.plan import FilePlan
from ssllatency.probes.planner import plan_image
from ssllatency.stacks.boringssl import inspections
from ssllatency.stacks.boringssl.connection import boringssl_offsets
from ssllatency.stacks.boringssl.inspections import inspection_path
from ssllatency.stacks.boringssl.labels import Labels
from ssllatency.stacks.boringssl.phases import phase_functions
from ssllatency.stacks.boringssl.raised_errors import errors_of
from ssllatency.stacks.boringssl.unnamed import NAMES, UnnamedFunctions, found_in
from ssllatency.stacks.phases import Phase, Transport

RUST = ("boringssl", "aws-lc")
NETTY = "netty"
MADE_UP = ("ERR_peek_error", "BIO_should_read", *NAMES)
# What isn't linked into these servers; and SSL_write's data goes through BIO_write_ex in the newest BoringSSL.
NOT_LINKED: dict[str, set[str]] = {"boringssl": set(), "aws-lc": set(), NETTY: set()}
SENT = {"sent_certificates", "first_certificate", "sent_count"}
SLOTS = {"sent_slot", "next_slot", "slot_certificates"}  # AWS-LC's
# By callbacks and what looks sessions up, the function that calls each, as symbols name it.
CALLERS = {
    "select_certificate_cb": r"20ssl_server_handshake",
    "client_hello_cb": r"20ssl_server_handshake",
    "servername_cb": r"28ssl_parse_clienthello_tlsext",
    "alpn_select_cb": r"18ssl_negotiate_alpn",
    "cert_cb": r"(20ssl_(server|client)|22tls13_client)_handshake",
    "status_cb": r"20ssl_server_handshake|32tls1_call_ocsp_stapling_callback",
    "new_session_cb": r"16ssl_update_cache",
    "ticket_key_cb": r"34ssl_encrypt_ticket_with_cipher_ctx|26ssl_decrypt_ticket_with_cb",
    "ticket_aead_method": r"18ssl_(encrypt|process)_ticket",
    "ssl_process_ticket": r"20ssl_get_prev_session|17do_select_session",
    "get_session_cb": r"20ssl_get_prev_session",
}
TOLD = {Phase.CALLBACKS, Phase.SESSION_LOOKUP}
# The functions of key shares, by their names of today and of before 2023, which AWS-LC has kept.
KEY_SHARES = {
    "SSLKeyShare::Generate": r"KeyShare(8Generate|5Offer)E",
    "SSLKeyShare::Encap": r"KeyShare(5Encap|6Accept)E",
    "SSLKeyShare::Decap": r"KeyShare(5Decap|6Finish)E",
}
# The parts that are split off; and a group that was tried for a while, whose functions raise errors in such parts alone.
MISSED = r"\.cold$|__PRETTY_FUNCTION__$|P256Kyber768Draft00"
ALSO = {"BIO_write": "BIO_write_ex"}


@pytest.fixture(scope="module", params=[*RUST, NETTY])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real file with symbols."""
    if request.param == NETTY:
        (archive,) = foreign.needed(foreign.java_archives(NETTY)).glob("netty-tcnative-boringssl-static-*-linux-x86_64.jar")
        path = tmp_path_factory.mktemp(NETTY) / NETTY
        with zipfile.ZipFile(archive) as files:
            path.write_bytes(files.read("META-INF/native/libnetty_tcnative_linux_x86_64.so"))
        return path
    return foreign.needed(foreign.rust_server(request.param))


@pytest.fixture(scope="module")
def bare(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stripped copy."""
    programs.needed("strip")
    path = tmp_path_factory.mktemp("bare") / program.name
    build.run("strip", "-o", path, program)
    return path


@pytest.fixture(scope="module")
def images(program: Path, bare: Path) -> tuple[Image, Image]:
    """The file with symbols, and the copy."""
    return Image.open(program), Image.open(bare)


@pytest.fixture(scope="module")
def plans(images: tuple[Image, Image]) -> list[FilePlan]:
    """Their plans."""
    return [plan_image(image) for image in images]


def test_a_stripped_copy_shows_what_symbols_name(program: Path, images: tuple[Image, Image]) -> None:
    named, unnamed = images[0], found_in(images[1])
    assert set(unnamed.missing) == NOT_LINKED[program.name]
    for name, function in unnamed.functions.items():
        due = {due.address for each in (name, ALSO.get(name, name)) if (due := named.function(each))}
        assert function.address in due, name
    offsets = boringssl_offsets(named)
    assert offsets
    assert unnamed.server == {name: offsets[name] for name in ("server", "server_bits")}


def test_a_stripped_copy_is_planned_as_the_file_with_symbols(plans: list[FilePlan]) -> None:
    assert plans[1].stack == "boringssl"
    assert plans[1].offsets == plans[0].offsets
    by_name = [{plan.operation: plan.probes for plan in each.operations} for each in plans]
    assert by_name[1] == {name: probes for name, probes in by_name[0].items() if name.startswith("SSL_")}


def test_the_handshakes_of_a_stripped_copy_are_planned_so(program: Path, images: tuple[Image, Image]) -> None:
    named, unnamed = (plan_handshake(image) for image in images)
    found = ({Phase.PRIVATE_KEY, Phase.KEY_EXCHANGE}, {Phase.PEER_VERIFICATION})
    keys, checks = ([[call for call in plan.calls if call.phase in of] for plan in (named, unnamed)] for of in found)
    assert [call for call in keys[0] if not call.callee.startswith("EVP_PKEY_")] == keys[1]  # which key shares call
    assert {call.phase for call in keys[1]} == {Phase.PRIVATE_KEY, Phase.KEY_EXCHANGE}
    assert set(checks[1]) <= set(checks[0])
    assert {call.callee for call in checks[1]} == {"ssl_verify_peer_cert", "ssl_public_key_verify"}
    others = [[call for call in plan.calls if call.phase in TOLD] for plan in (named, unnamed)]
    assert others[1] == others[0]
    assert len(unnamed.calls) == len(keys[1]) + len(checks[1]) + len(others[1])
    given = {name: other for other, name in ALSO.items()}
    assert unnamed.transport == tuple(replace(call, callee=given.get(call.callee, call.callee)) for call in named.transport)
    assert {call.phase for call in unnamed.transport} == {*Transport}
    assert unnamed.errors == named.errors
    assert (unnamed.within_data, unnamed.labels) == (named.within_data, named.labels)
    always = {"version", "cipher", "group", "resumed", "alpn", "alpn_length", "in_init", "server_name"}
    always |= {"verify_mode", "peer_certificate", "peer_digest", "quic_parameters", "quic_parameters_length", "quic_functions"}
    assert unnamed.labels.keys() == always | SENT | (SLOTS if program.name == "aws-lc" else set())
    assert unnamed.signs == named.signs
    symbol = build.symbols(program)
    signs = {name: each.address for name, each in symbol.items() if re.match(r"_ZN4bssl\d+ssl_private_key_signE", name)}
    (signing,) = (address for name, address in signs.items() if not re.search(MISSED, name))
    assert unnamed.signs
    assert signing <= unnamed.signs.address < signing + 64
    adding = symbol["_ZN4bsslL41ext_quic_transport_params_add_serverhelloEPNS_13SSL_HANDSHAKEEP6cbb_st"].address
    assert unnamed.adds_parameters == named.adds_parameters
    assert unnamed.adds_parameters
    assert adding <= unnamed.adds_parameters.address < adding + 64


def test_callbacks_are_called_where_symbols_say(program: Path, images: tuple[Image, Image]) -> None:
    named = {symbol.address: name for name, symbol in build.symbols(program).items() if not re.search(MISSED, name)}
    for image in images:
        plan = plan_handshake(image)
        calls = [call for call in plan.calls if call.phase in TOLD]
        assert {call.callee for call in calls} == CALLERS.keys() - ({"client_hello_cb"} if program.name != "aws-lc" else set())
        for call in calls:
            bounds = image.function_bounds(call.begin.address)
            assert bounds
            assert re.search(CALLERS[call.callee], named[bounds[0]]), call.callee
        sites = [call.begin.address for call in calls]
        assert len(set(sites)) == len(sites)


def test_the_function_that_chooses_a_protocol_is_looked_for_where_it_is_set(
    images: tuple[Image, Image], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only in a program with quiche's text."""
    setting = images[0].function("SSL_CTX_set_alpn_select_cb")
    assert setting
    stores = followed_in(images[0], setting.address, Assumptions({"rdi": SymbolicAddress("context", 0)})).stores
    (first, *_) = sorted(place.offset for place, _ in stores)
    for image in images:
        errors, holder = errors_of(image), (boringssl_offsets(image) or {})["boringssl"]
        with pytest.raises(Unplannable, match="quiche isn't linked"):
            inspection_path(image, errors, holder)
        monkeypatch.setattr(inspections, "_QUICHE", b"extensions.cc")
        assert inspection_path(image, errors, holder).offsets[1:] == (first,)
        monkeypatch.undo()


def test_the_name_is_stored_where_it_is_returned_from(program: Path, images: tuple[Image, Image]) -> None:
    """Where a program has the function that returns it, both lead to the same place."""
    named = images[0]
    offsets = boringssl_offsets(named)
    assert offsets
    labels = Labels(named, errors_of(named), offsets["boringssl"])
    returns = named.function("SSL_get_servername") is not None
    assert returns == (program.name == NETTY)
    assert labels.server_name()["server_name"].offsets == (offsets["boringssl"], labels.name_stored())


def test_functions_that_are_phases_are_those_that_symbols_name(program: Path, images: tuple[Image, Image]) -> None:
    symbols = build.symbols(program).items()
    named = [(name, symbol.address) for name, symbol in symbols if not re.search(MISSED, name)]
    checks = {address for name, address in named if re.match(r"_ZN4bssl\d+ssl_(verify_peer_cert|public_key_verify)E", name)}
    shares = {name: {at for symbol, at in named if re.search(due, symbol)} for name, due in KEY_SHARES.items()}
    for image in images:
        found = [(each.phase, each.function) for each in phase_functions(image)]
        assert {function.address for phase, function in found if phase is Phase.PEER_VERIFICATION} == checks
        for name, due in shares.items():
            addresses = {function.address for _, function in found if function.name == name}
            assert addresses == due or (name == "SSLKeyShare::Encap" and addresses < due)  # those that only call the others


def test_it_says_what_it_is_and_what_it_lacks(program: Path, images: tuple[Image, Image], plans: list[FilePlan]) -> None:
    facts = file_facts(images[1])
    assert (facts.libraries, facts.obstacle, facts.by_debug_file) == (("libssl", "libcrypto"), "", False)
    assert facts.name == {"aws-lc": "AWS-LC"}.get(program.name, "BoringSSL")
    reasons = {missing.operation: missing.reason for missing in plans[1].missing}
    lacking = NOT_LINKED[program.name]
    assert {
        name for name, reason in reasons.items() if reason.startswith("it has no symbol, and no function raises")
    } == lacking


# One that was made for the purpose.


@pytest.mark.parametrize("style", slow_except(build.STYLES, "plain"))
def test_made_up_ones(tmp_path: Path, style: str) -> None:
    """However they are compiled, what is found is right, and at most what must be certain is missing."""
    image, symbols = stripped_library(tmp_path, "unnamed.c", *build.STYLES[style])
    found = found_in(image)
    assert {name: function.address for name, function in found.functions.items()} == {
        name: symbols[name].address for name in found.functions
    }
    if style == "plain":
        assert set(found.functions) == set(MADE_UP)
        side = image.constant(symbols["offsets"].address + 32, 8)
        assert found.server == {"server": side, "server_bits": 1}
        in_init = image.constant(symbols["offsets"].address + 40, 8) or 0
        assert plan_handshake(image).labels == {"in_init": FieldPath((0x30, in_init), 8)}
        assert plan_image(image).offsets.bio_flags == 0x20


def test_what_two_functions_match_is_not_taken(tmp_path: Path) -> None:
    image, symbols = stripped_library(tmp_path, "unnamed.c", "-DTWICE")
    found = found_in(image)
    assert set(MADE_UP) - set(found.functions) == {"SSL_shutdown"}
    assert found.missing["SSL_shutdown"] == "2 functions may be it, where one is expected"
    assert found.functions["SSL_write"].address == symbols["SSL_write"].address


def test_symbols_come_first(tmp_path: Path) -> None:
    """Where they name what applications call, nothing else is looked at."""
    programs.needed(*build.TOOLS)
    path = build.library(tmp_path, "libnamed.so", ["unnamed.c"], "-O2")
    plan = plan_image(Image.open(path))
    assert {operation.found for operation in plan.operations} == {"symbol table"}


@pytest.mark.parametrize("name", ["libssl.so.3", "libcrypto.so.3"])
def test_openssl_has_none(name: str) -> None:
    image = Image.open(Path("/usr/lib/x86_64-linux-gnu") / name)
    with pytest.raises(Unplannable):
        UnnamedFunctions(image)
