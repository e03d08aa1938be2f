# SPDX-License-Identifier: Apache-2.0
"""Functions of an OpenSSL whose symbols were stripped, in code for aarch64: those of stripped copies are the ones that symbols
name, and plans made of them are those that are made with symbols."""

from __future__ import annotations

import atexit
import os
import platform
import shutil
import subprocess
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from tests import foreign, programs
from tests.fixtures import build
from tests.fixtures.assembled_aarch64 import function
from tests.fixtures.stripped import without_symbols
from tests.parameters import slow_except
from tests.unit.probes.libraries.damage import survive_damage

from ssllatency.elf.image import Image
from ssllatency.probes.contents import file_facts
from ssllatency.probes.handshake.phases import plan_handshake
from ssllatency.probes.plan import HandshakeSites
from ssllatency.probes.planner import plan_image
from ssllatency.stacks.openssl.unnamed import before_3, since_3
from ssllatency.stacks.openssl.unnamed.found import FoundOpenSsl, found_in
from ssllatency.stacks.openssl.unnamed.functions import NAMES
from ssllatency.stacks.registry import stack_of

# 3.5 by GCC 14, the others by GCC 10; 3.3 is what the rules for this machine were made with. Debian's functions sign the
# addresses that they return to, guard the stack, and clear registers at their ends.
DEBIAN = "3.5 of Debian 13"
RELEASES = ("1.1.1l", "3.0", "3.3", "3.5", "4.0", DEBIAN)
WITH_QUIC = ("3.5", "4.0", DEBIAN)
# Functions of the compiler's library, which count references on processors with an instruction for that and without.
COUNTING = ("__aarch64_ldadd4_relax", "__aarch64_ldadd4_rel", "__aarch64_ldadd4_acq_rel")
LABELS = {
    *("version", "in_init", "hand_state", "resumed", "server_name", "server_name_session", "alpn", "alpn_length", "session"),
    *("cipher", "signature", "verify_mode", "peer_certificate", "hello_retry"),
}
GROUPS = {"group_session", "group_tls13"}
UNTOLD = {"tls_decrypt_ticket", "lookup_sess_in_cache", "ticket_key_cb", "cert_cb", "servername_cb", "status_cb"}
OTHER_CALLBACKS = {"alpn_select_cb", "client_hello_cb", "app_verify_callback", "new_session_cb"}
NEVER_RAISING = {"RSA_verify", "ECDSA_sign", "ECDSA_verify", "ossl_ecdsa_sign", "ossl_ecdsa_verify", "ossl_ecdh_compute_key"}


@cache
def _path(release: str) -> Path:
    return _linked() if release == DEBIAN else foreign.needed(foreign.find(f"openssl-inside-{release}-arm64"))


def _linked() -> Path:
    """A library that Debian's archives for arm64 are linked into, of which nothing is exported."""
    archive = foreign.needed(foreign.find("libssl.a-3.5-arm64"))
    linker, more = "ld", {}
    if platform.machine() != "aarch64":
        found = foreign.needed(foreign.find("ld-arm64"))
        linker, more = str(found), {"LD_LIBRARY_PATH": str(found.parents[1] / "lib" / "x86_64-linux-gnu")}
    programs.needed("clang")
    folder = Path(tempfile.mkdtemp(prefix="openssl-"))
    atexit.register(shutil.rmtree, folder)
    source, counting = folder / "counting.s", folder / "counting.o"
    counters = "".join(f".globl {name}\n{function(name, 'ldadd w0, w0, [x1]; ret')}" for name in COUNTING)
    source.write_text(f".text\n{counters}")
    (folder / "hidden").write_text("{ local: *; };\n")
    build.run("clang", "--target=aarch64-linux-gnu", "-march=armv8.1-a", "-c", "-o", counting, source)
    inputs = [archive, archive.with_name("libcrypto.a"), counting]
    options = ["-shared", "--eh-frame-hdr", f"--version-script={folder / 'hidden'}", "-o", folder / "libinside.so"]
    subprocess.run([linker, *options, "--whole-archive", *inputs], env={**os.environ, **more}, check=True, timeout=60)
    return folder / "libinside.so"


@cache
def _named(release: str) -> Image:
    return Image.open(_path(release))


@pytest.fixture(scope="module")
def bare_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bare")


@cache
def _bare(release: str, folder: Path) -> Image:
    return Image.open(without_symbols(_path(release), folder / f"{release}.so"))


def _symbols(release: str) -> dict[str, set[int]]:
    """The addresses of the functions that symbols name; parts that the compiler made of one (NAME.part.0) have its name."""
    symbols: dict[str, set[int]] = {}
    with _path(release).open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        for symbol in table.iter_symbols():
            if symbol["st_info"]["type"] == "STT_FUNC":
                symbols.setdefault(symbol.name.split(".")[0], set()).add(symbol["st_value"])
    return symbols


def _release_names(release: str) -> set[str]:
    return {*NAMES, *(before_3.NAMES if release.startswith("1") else since_3.NAMES)}


@pytest.mark.parametrize("release", slow_except(RELEASES))
def test_functions_of_aarch64_are_those_of_symbols(release: str, bare_files: Path) -> None:
    found = found_in(_bare(release, bare_files))
    assert found.missing == {}
    assert {*found.functions} >= _release_names(release)
    symbols = _symbols(release)
    wrong = {name for name, each in found.functions.items() if each.address not in symbols.get(name, ())}
    assert wrong == set()
    assert len(found.functions) >= 75


@pytest.mark.parametrize("release", slow_except(RELEASES))
def test_fields_and_labels_of_aarch64_are_those_of_symbols(release: str, bare_files: Path) -> None:
    bare, named = _bare(release, bare_files), _named(release)
    found = found_in(bare)
    stack = stack_of(named)
    offsets = stack.connection(named)
    assert found.offsets.items() <= offsets.items()
    assert {*offsets} - {*found.offsets} == {"rbio", "session", "reused", "cipher"}  # shown by accessors that are found
    labels, told = stack_of(bare).labels(bare), stack.labels(named)
    wanted = LABELS if release.startswith("1") else LABELS | GROUPS
    assert {name: labels.get(name) for name in wanted} == {name: told[name] for name in wanted}
    assert _served(found) == (0, 16)
    assert file_facts(bare).unfound == (("group",) if release.startswith("1") else ())


def _served(found: FoundOpenSsl) -> tuple[int, int]:
    """The places of a certificate and of its chain in what holds both, which isn't where the accessor reads them."""
    certificate, chain = (found.labels[name].offsets for name in ("certificate", "chain"))
    assert certificate[:-1] == chain[:-1]
    return certificate[-1], chain[-1]


@pytest.mark.parametrize("release", slow_except(RELEASES))
def test_plans_of_aarch64_are_those_of_symbols(release: str, bare_files: Path) -> None:
    bare, named = _bare(release, bare_files), _named(release)
    plans = plan_image(bare), plan_image(named)
    assert (plans[0].stack, plans[0].kind) == ("openssl", "static")
    assert {each.found for each in plans[0].operations} <= {"errors raised", "provider table"}
    sites = [{each.operation: {probe.address for probe in each.probes} for each in plan.operations} for plan in plans]
    other = {name for name in sites[0] if sites[0][name] != sites[1][name]}
    assert other == ({"SSL_accept", "SSL_connect"} if release in WITH_QUIC else set())
    assert all(sites[0][name] < sites[1][name] for name in other)  # but for exits of QUIC's
    assert {*sites[1]} - {*sites[0]} >= NEVER_RAISING
    told, offsets = (_values(plan.offsets) for plan in plans[::-1])
    assert {name: offsets[name] for name, value in told.items() if value is not None} == {
        name: value for name, value in told.items() if value is not None
    }
    assert None not in (plans[0].offsets.rwstate, plans[0].offsets.rbio, plans[0].offsets.bio_descriptor)


def _values(offsets: object) -> dict[str, object]:
    return {name: getattr(offsets, name) for name in type(offsets).__annotations__}


@pytest.mark.parametrize("release", slow_except(RELEASES))
def test_handshakes_of_aarch64_are_those_of_symbols(release: str, bare_files: Path) -> None:
    """Where they begin and end, why they fail, what they read and write, and their phases, as far as these are told."""
    handshakes = plan_handshake(_bare(release, bare_files)), plan_handshake(_named(release))
    machines = [handshake.state_machine for handshake in handshakes]
    assert machines[0]
    assert machines[1]
    assert machines[0].probes == machines[1].probes
    assert handshakes[0].errors == handshakes[1].errors
    assert handshakes[0].transport == handshakes[1].transport
    assert len(handshakes[0].transport) >= 9
    calls = [_calls(handshake) for handshake in handshakes]
    assert calls[0] - calls[1] == Counter()
    assert {phase for _, phase in calls[0]} == {"private_key", "key_exchange", "peer_verification"}
    untold = {callee for callee, phase in calls[1] - calls[0] if phase in ("private_key", "key_exchange")}
    assert untold <= {"EVP_PKEY_public_check"}
    assert {part.what for part in handshakes[0].missing} >= UNTOLD | OTHER_CALLBACKS


def _calls(handshake: HandshakeSites) -> Counter[tuple[str, str]]:
    return Counter((call.callee, call.phase.value) for call in handshake.calls)


@pytest.mark.slow
def test_damaged_aarch64_code_without_symbols_gives_a_plan_or_a_sentence(bare_files: Path) -> None:
    bare = _bare("3.3", bare_files)
    survive_damage(bare, plan_image(bare), bare_files / "damaged.so", seed=7, times=1)
