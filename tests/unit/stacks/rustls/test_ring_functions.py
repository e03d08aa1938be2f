# SPDX-License-Identifier: Apache-2.0
"""rustls with ring: its functions in a stripped library are found by where they may panic, and taken only where one is meant;
in one with symbols, by their names as either way of mangling has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures import build

from ssllatency.abi import Outcome
from ssllatency.elf.image import Image
from ssllatency.probes.contents import file_facts
from ssllatency.probes.planner import plan_image
from ssllatency.stacks.rustls.functions import SYMBOLS
from ssllatency.stacks.rustls.operations import (
    AGREE,
    CLIENT_HELLO,
    ECDSA_SIGN,
    ED25519_SIGN,
    OPERATIONS,
    RSA_SIGN,
    TLS12_FINISHED,
    TLS13_FINISHED,
)

SOURCE = "rustls_ring.c"
FUNCTIONS = {
    CLIENT_HELLO: "handle",
    RSA_SIGN: "sign_by_rsa",
    ECDSA_SIGN: "sign_by_ecdsa",
    ED25519_SIGN: "sign_by_ed25519",
    AGREE: "agree",
}
NOT_NAMED = "no symbol and no table names it"


def test_its_functions_are_found_without_symbols(tmp_path: Path) -> None:
    library = build.library(tmp_path, "module.so", (SOURCE,))
    image = Image.open(build.stripped(library, "stripped.so"))
    plan = plan_image(image)
    assert (plan.kind, plan.stack, plan.version) == ("static", "rustls", "rustls 0.23.46")
    addresses = {operation.operation: operation.address for operation in plan.operations}
    symbols = build.symbols(library)
    assert addresses == {name: symbols[function].address for name, function in FUNCTIONS.items()}
    assert {operation.found for operation in plan.operations} == {"panic locations"}
    assert {each.operation: each.reason for each in plan.missing} == dict.fromkeys((TLS13_FINISHED, TLS12_FINISHED), NOT_NAMED)
    facts = file_facts(image)
    assert (facts.libraries, facts.others, facts.obstacle) == (("rustls", "ring"), (("rustls", "0.23.46"),), "")


@pytest.mark.parametrize(("flag", "left_out"), [("-DTWICE", {CLIENT_HELLO}), ("-DNO_TABLES", {*FUNCTIONS} - {AGREE})])
def test_what_may_be_another_is_left_out(tmp_path: Path, flag: str, left_out: set[str]) -> None:
    library = build.library(tmp_path, "module.so", (SOURCE,), flag)
    plan = plan_image(Image.open(build.stripped(library, "stripped.so")))
    assert {operation.operation for operation in plan.operations} == {*FUNCTIONS} - left_out
    missing = {each.operation for each in plan.missing}
    assert missing >= left_out


def test_how_their_calls_ended_is_not_known() -> None:
    outcomes = {operation.name: operation.outcomes for operation in OPERATIONS}
    assert {outcomes[name] for name in FUNCTIONS} == {(Outcome.UNKNOWN,)}
    assert Outcome.SUCCESS in outcomes["aws_lc_ECDSA_sign"]
    assert Outcome.UNKNOWN not in outcomes["aws_lc_ECDSA_sign"]


def test_what_symbols_name_twice_is_not_told_apart_by_its_looks(tmp_path: Path) -> None:
    """Two versions of rustls in one program; only one of them may panic where the search looks for it."""
    library = build.library(tmp_path, "module.so", (SOURCE,))
    named = build.symbols(library)
    older, newer = OLDER_NAMES[CLIENT_HELLO], OLDER_NAMES[CLIENT_HELLO].replace("6893df96583a0e75", "0000000000000000")
    text = int(build.run("readelf", "-SW", library).partition(" .text ")[2].split()[1], 16)
    for names, function in (((older,), "handle"), ((older, newer), None)):
        offsets = [named[each].address - text for each in ("handle", "sign_by_rsa")]
        added = [f"--add-symbol={name}=.text:{offset:#x},function,local" for name, offset in zip(names, offsets, strict=False)]
        path = tmp_path / f"{len(names)}.so"
        build.run("objcopy", *added, library, path)
        found = {each.operation: each.address for each in plan_image(Image.open(path)).operations}
        assert found.get(CLIENT_HELLO) == (named[function].address if function else None)


def test_without_unwind_tables_nothing_is_guessed(tmp_path: Path) -> None:
    """As in deno."""
    path = build.stripped(build.library(tmp_path, "module.so", (SOURCE,)), "stripped.so")
    build.run("objcopy", "--remove-section=.eh_frame", "--remove-section=.eh_frame_hdr", path)
    facts = file_facts(Image.open(path))
    assert (facts.libraries, facts.others) == ((), (("rustls", "0.23.46"),))


def test_at_a_fixed_address_nothing_is_guessed(tmp_path: Path) -> None:
    """No relocation tells which of its words are pointers."""
    path = build.program(tmp_path, "server", SOURCE, "-no-pie", "-s")
    assert file_facts(Image.open(path)).libraries == ()


# As compilers have named them in Granian 2.2.6, in the older way.
OLDER_NAMES = {
    CLIENT_HELLO: "_ZN142_$LT$rustls..server..hs..ExpectClientHello$u20$as$u20$rustls..common_state..State$LT$rustls..server"
    "..server_conn..ServerConnectionData$GT$$GT$6handle17h6893df96583a0e75E",
    RSA_SIGN: "_ZN88_$LT$rustls..crypto..ring..sign..RsaSigner$u20$as$u20$rustls..crypto..signer..Signer$GT$4sign"
    "17h48e4b1d8f01384f7E",
    ECDSA_SIGN: "_ZN90_$LT$rustls..crypto..ring..sign..EcdsaSigner$u20$as$u20$rustls..crypto..signer..Signer$GT$4sign"
    "17h5062fb41c0d350ddE",
    ED25519_SIGN: "_ZN92_$LT$rustls..crypto..ring..sign..Ed25519Signer$u20$as$u20$rustls..crypto..signer..Signer$GT$4sign"
    "17h613ee4667d3d442fE",
    TLS13_FINISHED: "_ZN142_$LT$rustls..server..tls13..ExpectFinished$u20$as$u20$rustls..common_state..State$LT$rustls..server"
    "..server_conn..ServerConnectionData$GT$$GT$6handle17hdac33b2dbfcf4a67E.llvm.1234567890123456789",
}
# Others in the same file.
OTHERS = (
    "_ZN142_$LT$rustls..server..tls13..ExpectFinished$u20$as$u20$rustls..common_state..State$LT$rustls..server..server_conn"
    "..ServerConnectionData$GT$$GT$10into_owned17h940799acbba5dc07E",
    "_ZN4core3ptr58drop_in_place$LT$rustls..server..tls13..ExpectFinished$GT$17h1768c29d35dd40d7E",
    "_ZN91_$LT$rustls..crypto..ring..kx..KeyExchange$u20$as$u20$rustls..crypto..ActiveKeyExchange$GT$8complete17h5bc019a1dba27616E",
)


@pytest.mark.parametrize("name", OLDER_NAMES)
def test_each_symbol_names_one_function(name: str) -> None:
    symbol = OLDER_NAMES[name].encode()
    assert [each for each, described in SYMBOLS.items() if described.fullmatch(symbol)] == [name]


@pytest.mark.parametrize("symbol", OTHERS)
def test_other_symbols_name_none(symbol: str) -> None:
    assert not any(described.fullmatch(symbol.encode()) for described in SYMBOLS.values())
