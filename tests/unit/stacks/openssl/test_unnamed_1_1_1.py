# SPDX-License-Identifier: Apache-2.0
"""Functions of an OpenSSL 1.1.1 whose symbols were stripped: those of stripped copies are the ones that symbols name."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import foreign, programs
from tests.fixtures import build
from tests.fixtures.stripped import stripped_library
from tests.parameters import slow_except

from ssllatency.elf.image import Image
from ssllatency.probes.contents import file_facts
from ssllatency.probes.handshake.phases import plan_handshake
from ssllatency.probes.planner import plan_image
from ssllatency.stacks.openssl.unnamed import before_3
from ssllatency.stacks.openssl.unnamed.found import found_in
from ssllatency.stacks.openssl.unnamed.functions import NAMES
from ssllatency.stacks.openssl.unnamed.raised_numbers import RaisedNumbers, function_numbers
from ssllatency.stacks.registry import stack_of

RELEASES = ("1.1.1l", "1.1.1n")
BUILT_APART = {"state_machine"}  # gcc has split it, so that its symbol is that of another part
SAME_LABELS = (
    *("version", "in_init", "hand_state", "resumed", "server_name", "server_name_session", "alpn", "alpn_length", "session"),
    *("cipher", "signature", "verify_mode", "peer_certificate", "hello_retry"),
)


@pytest.mark.parametrize("release", slow_except(RELEASES))
def test_functions_and_labels_are_those_of_symbols(tmp_path: Path, release: str) -> None:
    programs.needed(*build.TOOLS)
    path = foreign.needed(foreign.find(f"openssl-inside-{release}"))
    (copy := tmp_path / "named.so").symlink_to(path)
    symbols, named, bare = build.symbols(copy), Image.open(copy), Image.open(build.stripped(copy, "bare.so"))
    found = found_in(bare)
    assert found.missing == {}
    assert {*found.functions} >= {*NAMES, *before_3.NAMES}
    assert {name: each.address for name, each in found.functions.items() if name not in BUILT_APART} == {
        name: symbols[name].address for name in found.functions if name not in BUILT_APART
    }
    plans = plan_image(bare), plan_image(named)
    assert (plans[0].stack, {each.found for each in plans[0].operations}) == ("openssl", {"errors raised"})
    sites = [{each.operation: [probe.address for probe in each.probes] for each in plan.operations} for plan in plans]
    assert sites[0].items() <= sites[1].items()
    offsets = stack_of(named).connection(named)
    assert found.offsets.items() <= offsets.items()
    assert {*offsets} - {*found.offsets} == {"rbio", "session", "reused", "cipher"}  # shown by accessors that are found
    labels, told = stack_of(bare).labels(bare), stack_of(named).labels(named)
    assert {name: labels[name] for name in SAME_LABELS} == {name: told[name] for name in SAME_LABELS}
    assert (labels["certificate"].offsets[-1], labels["chain"].offsets[-1]) == (0, 16)
    handshakes = plan_handshake(bare), plan_handshake(named)
    machines = [handshake.state_machine for handshake in handshakes]
    assert machines[0]
    assert machines[1]
    assert machines[0].probes == machines[1].probes
    assert handshakes[0].errors == handshakes[1].errors
    assert handshakes[0].transport == handshakes[1].transport
    assert file_facts(bare).unfound == ("group",)
    assert {part.what for part in handshakes[0].missing} - {part.what for part in handshakes[1].missing} >= {"group"}
    calls = [{(call.callee, call.phase) for call in handshake.calls} for handshake in handshakes]
    assert calls[0] < calls[1]
    assert {phase.value for _, phase in calls[0]} == {"private_key", "key_exchange", "peer_verification"}


def _raised(folder: Path, *flags: str) -> tuple[RaisedNumbers, dict[str, build.Symbol]]:
    image, symbols = stripped_library(folder, "openssl_numbers.c", *flags)
    names = ("SSL_do_handshake", "SSL_read", "SSL_write", "SSL_shutdown", "tls1_PRF", "state_machine")
    return RaisedNumbers(image, names, "state_machine", function_numbers(image)), symbols


@pytest.mark.parametrize("style", slow_except([style for style in build.STYLES if style != "unoptimised"], "plain"))
def test_numbers_name_functions(tmp_path: Path, style: str) -> None:
    raised, symbols = _raised(tmp_path, *build.STYLES[style])
    assert raised.raises == symbols["ERR_put_error"].address
    assert raised.fatal == symbols["ossl_statem_fatal"].address
    assert {name: [start for start, _ in bounds] for name, bounds in raised.raising.items()} == {
        name: [symbols[name].address] for name in ("SSL_do_handshake", "SSL_read", "SSL_write", "SSL_shutdown", "state_machine")
    }


def test_a_number_that_two_give_names_neither(tmp_path: Path) -> None:
    """Both are told, so that none is taken."""
    raised, symbols = _raised(tmp_path, "-DTWICE")
    assert {start for start, _ in raised.raising["SSL_shutdown"]} == {
        symbols["SSL_shutdown"].address,
        symbols["another"].address,
    }


def test_a_function_that_gives_another_number_too_has_no_name(tmp_path: Path) -> None:
    """Be it another function's, or one that no table names, or one that isn't known; but for the state machine."""
    for flag in ("-DBUILT_IN", "-DUNNAMED", "-DUNKNOWN"):
        raised, _ = _raised(tmp_path, flag)
        assert "SSL_write" not in raised.raising, flag
        assert {"SSL_read", "state_machine"} <= {*raised.raising}


def test_what_derives_keys_may_be_built_into_others(tmp_path: Path) -> None:
    """They give its number beside their own."""
    raised, symbols = _raised(tmp_path, "-DDERIVES")
    assert [start for start, _ in raised.raising["SSL_write"]] == [symbols["SSL_write"].address]
    assert "tls1_PRF" not in raised.raising


def test_a_number_with_two_names_has_none(tmp_path: Path) -> None:
    raised, _ = _raised(tmp_path, "-DTWO_NAMES")
    assert "SSL_read" not in raised.raising
    assert "SSL_write" in raised.raising


def test_without_the_tables_of_openssl_there_are_no_numbers(tmp_path: Path) -> None:
    image, _ = stripped_library(tmp_path, "openssl_numbers.c", "-DOF_ANOTHER")
    assert function_numbers(image) == {}
    image, _ = stripped_library(tmp_path, "openssl_names.c")
    assert function_numbers(image) == {}
