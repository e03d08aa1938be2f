# SPDX-License-Identifier: Apache-2.0
"""Plans of Debian's arm64 libraries, made on any machine: what is planned, and hundreds of functions that nobody chose."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
import zipfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path

import capstone
import pytest
from capstone import arm64
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile
from tests import foreign
from tests.fixtures.functions import function_ranges
from tests.fixtures.stripped import without_symbols
from tests.parameters import slow_except
from tests.unit.probes.libraries.damage import survive_damage

from ssllatency.code.aarch64.machine import Aarch64
from ssllatency.code.decode import instructions
from ssllatency.code.flow import Code, Graph, Unplannable, build
from ssllatency.code.machine import BASELINE, Cost, Flow, Instruction
from ssllatency.elf.image import Image
from ssllatency.probes.catalogue import BY_NAME
from ssllatency.probes.codec import from_values, to_values
from ssllatency.probes.contents import file_facts
from ssllatency.probes.handshake.phases import plan_handshake
from ssllatency.probes.plan import NOT_IN_LIBRARY, FilePlan, HandshakeSites, Role
from ssllatency.probes.planner import plan_image
from ssllatency.probes.settings import PlanSettings
from ssllatency.probes.sites.entry import entry_site
from ssllatency.probes.sites.exits import Chooser
from ssllatency.probes.sites.verify import problem
from ssllatency.stacks.boringssl.unnamed import NAMES, found_in
from ssllatency.stacks.openssl.operations import FATAL

SERIES = ("1.1", "3.0", "3.5", "4")
SSL, CRYPTO = ([f"{library}-{series}-arm64" for series in SERIES] for library in ("libssl", "libcrypto"))
SAMPLE = 500  # functions of each library
SIMULATED = re.compile(r"(b|b\.[a-z]+|bl|br|blr|ret|cbz|cbnz|tbz|tbnz|adr|adrp)$")
CALLED = {"SSL_do_handshake", "SSL_accept", "SSL_connect", "SSL_read", "SSL_write", "SSL_shutdown", "SSL_free"}
POST_QUANTUM = {name for name in BY_NAME if name.startswith("ml")}
PROVIDED = {name for name, operation in BY_NAME.items() if operation.providers and operation.library == "libcrypto"}
MISSING = {
    "libssl-1.1-arm64": {"SSL_write_ex2", "SSL_sendfile", FATAL},
    "libcrypto-1.1-arm64": PROVIDED,
    "libssl-3.0-arm64": {"SSL_write_ex2"},
    "libcrypto-3.0-arm64": POST_QUANTUM,
    "libssl-3.5-arm64": set(),
    "libcrypto-3.5-arm64": set(),
    "libssl-4-arm64": set(),
    "libcrypto-4-arm64": set(),
}


@cache
def _image(path: Path) -> Image:
    return Image.open(path)


def image(name: str) -> Image:
    return _image(foreign.needed(foreign.find(name)))


@cache
def _plan(of: Image, return_probes: bool) -> FilePlan:
    return plan_image(of, PlanSettings(return_probes=return_probes))


@pytest.mark.parametrize("return_probes", [True, False])
@pytest.mark.parametrize("name", slow_except(MISSING, "libssl-3.0-arm64"))
def test_all_operations_that_the_library_has_are_planned(name: str, return_probes: bool) -> None:
    plan = _plan(image(name), return_probes)
    library = name.split("-")[0]
    assert plan.kind == library
    assert {each.operation: each.reason for each in plan.missing} == dict.fromkeys(MISSING[name], NOT_IN_LIBRARY)
    wanted = {operation.name for operation in BY_NAME.values() if operation.library == library}
    assert {each.operation for each in plan.operations} == wanted - MISSING[name]


@pytest.mark.slow
def test_an_openssl_in_another_library_is_planned() -> None:
    """That of Python's cryptography, with its symbols: as the same version for x86-64 is, but for a call that is built in twice
    there."""
    inside = image("openssl-inside-3.3-arm64")
    plan = _plan(inside, False)
    wanted = {operation.name for operation in BY_NAME.values() if operation.library in ("libssl", "libcrypto")}
    assert (plan.stack, plan.kind) == ("openssl", "static")
    assert {each.operation: each.reason for each in plan.missing} == dict.fromkeys({*POST_QUANTUM, FATAL}, NOT_IN_LIBRARY)
    assert {each.operation for each in plan.operations} == wanted - POST_QUANTUM - {FATAL}
    handshake = plan_handshake(inside)
    labels = {"version", "cipher", "group_tls13", "group_session", "resumed", "signature", "server_name", "alpn", "certificate"}
    assert labels <= handshake.labels.keys()
    assert handshake.missing == ()
    assert handshake.state_machine
    others = foreign.needed(foreign.python_package("cryptography")) / "cryptography/hazmat/bindings/_rust.abi3.so"
    same = plan_handshake(Image.open(others))
    assert _callees(same) - _callees(handshake) == Counter({"ticket_key_cb": 1})
    assert _callees(handshake) - _callees(same) == Counter()


def _callees(handshake: HandshakeSites) -> Counter[str]:
    return Counter(call.callee for call in handshake.calls)


@cache
def _of_netty(name: str, machine: str) -> Path:
    """Its library for this machine."""
    (archive,) = foreign.needed(foreign.java_archives(name)).glob("netty-tcnative-boringssl-static-*.jar")
    folder = Path(tempfile.mkdtemp(prefix="netty-"))
    atexit.register(shutil.rmtree, folder)
    with zipfile.ZipFile(archive) as files:
        return Path(files.extract(f"META-INF/native/libnetty_tcnative_linux_{machine}.so", folder))


# By the version of Netty's, the archives of aarch64 and x86-64, and what is built in more often there than here.
NETTY = {
    "2.0.66": ("tcnative-arm64", "netty", Counter({"ticket_aead_method": 1})),
    "2.0.84": ("tcnative-2.0.84-arm64", "tcnative-2.0.84", Counter[str]()),
}


@pytest.mark.parametrize("version", NETTY)
@pytest.mark.slow
def test_a_boringssl_in_another_library_is_planned(version: str) -> None:
    """That of Netty, with its symbols: what applications call, what tells how it ended, phases, labels and served certificates,
    as in the same version for x86-64."""
    *names, more = NETTY[version]
    inside, other = (Image.open(_of_netty(name, machine)) for name, machine in zip(names, ("aarch_64", "x86_64"), strict=True))
    plan = _plan(inside, False)
    assert (plan.stack, CALLED - {each.operation for each in plan.operations}) == ("boringssl", set())
    assert None not in (plan.offsets.rwstate, plan.offsets.boringssl, plan.offsets.server, plan.offsets.bio_flags)
    handshake = plan_handshake(inside)
    same = plan_handshake(other)
    assert plan.offsets == plan_image(other).offsets
    labels = handshake.labels
    assert labels == same.labels
    assert {"version", "cipher", "group", "resumed", "server_name", "alpn", "sent_certificates", "sent_count"} <= labels.keys()
    assert {"verify_mode", "peer_certificate", "peer_digest"} <= labels.keys()
    assert _callees(same) - _callees(handshake) == more
    assert _callees(handshake) - _callees(same) == Counter()
    assert handshake.signs


@pytest.mark.parametrize("version", slow_except(NETTY))
def test_a_stripped_boringssl_is_found(tmp_path: Path, version: str) -> None:
    """That of Netty without its symbols: the same functions, sites, phases and labels as with them, but for functions below
    those that are phases."""
    path = _of_netty(NETTY[version][0], "aarch_64")
    named, bare = Image.open(path), Image.open(without_symbols(path, tmp_path / "bare.so"))
    found = found_in(bare)
    assert found.missing == {}
    assert {*found.functions} >= {*NAMES}
    symbols = {name: named.function(name) for name in found.functions}
    assert {name: each.address for name, each in found.functions.items()} == {
        name: each.address for name, each in symbols.items() if each
    }
    plans = plan_image(bare), plan_image(named)
    assert plans[0].stack == "boringssl"
    assert {each.operation for each in plans[0].operations} == CALLED
    assert plans[0].offsets == plans[1].offsets
    sites = [{each.operation: each.probes for each in plan.operations if each.operation in CALLED} for plan in plans]
    assert sites[0] == sites[1]
    handshakes = plan_handshake(bare), plan_handshake(named)
    labels = handshakes[0].labels
    assert labels == handshakes[1].labels
    assert {"version", "cipher", "group", "resumed", "server_name", "alpn", "sent_certificates", "sent_count"} <= labels.keys()
    assert _callees(handshakes[1]) - _callees(handshakes[0]) == Counter({"EVP_DigestVerify": 1, "X509_verify_cert": 1})
    assert _callees(handshakes[0]) - _callees(handshakes[1]) == Counter()
    assert handshakes[0].signs == handshakes[1].signs
    assert file_facts(bare).unfound == ()


@pytest.mark.parametrize("name", slow_except(MISSING, "libssl-3.0-arm64"))
def test_sites_cost_what_their_instructions_do(name: str) -> None:
    for plan in _plan(image(name), True).operations:
        roles, operation = [probe.role for probe in plan.probes], BY_NAME[plan.operation]
        ends = set() if operation.only_entry else {Role.EXIT}
        more = {Role.ENTRY} if operation.callers_of else set()
        assert (roles == [Role.RETURN] and not operation.async_job) or (
            roles[0] is Role.ENTRY and set(roles[1:]) - more == ends
        )
        for probe in plan.probes:
            (decoded,) = instructions(image(name).code(probe.address, 4), probe.address, "aarch64")
            assert (probe.cost is Cost.EMULATED) == bool(SIMULATED.match(decoded.mnemonic)), plan.operation
            assert probe.offset == image(name).file_offset(probe.address)
            assert re.fullmatch(r"x\d+", probe.return_register) or probe.role is not Role.EXIT


def test_almost_all_sites_are_simulated() -> None:
    plans = [_plan(image(name), True) for name in MISSING]
    costs = [probe.cost for plan in plans for operation in plan.operations for probe in operation.probes]
    assert costs.count(Cost.EMULATED) > 0.97 * len(costs)


@pytest.mark.parametrize("name", SSL)
def test_ssl_read_enters_at_the_stack_guard_and_leaves_at_its_ret(name: str) -> None:
    plan = next(each for each in _plan(image(name), True).operations if each.operation == "SSL_read")
    entry, leaving = plan.probes[0], plan.probes[-1]
    assert SIMULATED.match(entry.instruction.split()[0])
    assert entry.address - plan.address <= 24
    assert (leaving.instruction, leaving.return_register, leaving.stack_delta) == ("ret", "x0", 0)


@pytest.mark.parametrize("name", SSL + CRYPTO)
def test_plan_passes_where_plans_are_read(name: str) -> None:
    plan = _plan(image(name), True)
    assert from_values(to_values(plan), file_size=Path(image(name).path).stat().st_size) == plan


# Functions that nobody chose.


@cache
def _sample(of: Image) -> tuple[int, ...]:
    """Function starts, spread over the library."""
    starts = [start for start, _ in function_ranges(of)]
    return tuple(starts[:: max(1, len(starts) // SAMPLE)])


def graphs(of: Image) -> Iterator[tuple[int, Graph]]:
    code = Code(of, Aarch64())
    for start in _sample(of):
        try:
            yield start, build(code, start, 0, lambda _function, _slot: None)
        except Unplannable:
            continue


@pytest.mark.parametrize("name", SSL + CRYPTO)
@pytest.mark.slow
def test_what_is_planned_passes_the_check(name: str) -> None:
    planned = refused = 0
    for start, graph in graphs(image(name)):
        try:
            entry = entry_site(graph, frozenset(), BASELINE)
            exits = Chooser(graph, BASELINE, "x0").sites(entry.address)
        except Unplannable:
            refused += 1
            continue
        assert problem(graph, entry, exits, "x0") == "", f"{start:#x}"
        assert all(site.cost is Cost.EMULATED for site in exits)
        planned += 1
    assert planned > 5 * refused
    assert planned + refused == len(_sample(image(name)))


def decoded(code: bytes, start: int) -> Iterator[Instruction]:
    """All instructions up to a word that is none."""
    place = 0
    while part := list(Aarch64().decode(code[place:], start + place)):
        yield from part
        place = part[-1].end - start


@pytest.mark.parametrize("name", SSL + CRYPTO)
@pytest.mark.slow
def test_every_return_of_a_covered_function_is_reached(name: str) -> None:
    """A jump table that was read too short would leave some out."""
    checked = 0
    for start, graph in graphs(image(name)):
        if graph.uncovered or len(set(graph.functions.values())) > 1:
            continue
        code = image(name).code(start, graph.own[1] - start)
        returns = {each.address for each in decoded(code, start) if each.flow is Flow.RETURN}
        assert returns == set(graph.ways_out()), f"{start:#x}"
        checked += 1
    assert checked > len(_sample(image(name))) // 4


def test_jump_through_a_table_of_functions() -> None:
    """EVP_PKEY_meth_get0 of OpenSSL 3.0 ends in a call of one of ten standard methods."""
    of = image("libcrypto-3.0-arm64")
    function = of.function("EVP_PKEY_meth_get0")
    assert function is not None
    graph = build(Code(of, Aarch64()), function.address, function.size, lambda _function, _slot: None)
    (jump,) = (address for address, each in graph.nodes.items() if each.flow is Flow.INDIRECT_JUMP)
    assert len(graph.successors[jump]) == 10
    assert not graph.uncovered


def _unwind_tables(of: Image) -> dict[int, FDE]:
    with Path(of.path).open("rb") as file:
        entries = ELFFile(file).get_dwarf_info().EH_CFI_entries()
    return {each["initial_location"]: each for each in entries if isinstance(each, FDE)}


@pytest.mark.parametrize("name", SSL + CRYPTO)
@pytest.mark.slow
def test_stack_depths_are_those_of_the_unwind_tables(name: str) -> None:
    """The compiler made the tables; following the code gave the depths."""
    tables, checked, unknown = _unwind_tables(image(name)), 0, 0
    for start, graph in graphs(image(name)):
        rows = tables[start].get_decoded().table
        starts = [row["pc"] for row in rows]
        for address, (function, _) in graph.functions.items():
            rule = rows[bisect_right(starts, address) - 1]["cfa"]
            if function != start or rule.expr is not None or rule.reg != 31:  # the stack pointer
                continue
            assert graph.delta(address) in (rule.offset, None), f"{address:#x}"
            checked += 1
            unknown += graph.delta(address) is None
    assert checked > 5000
    assert unknown < checked // 200


@cache
def _names() -> dict[int, str]:
    names = {getattr(arm64, f"ARM64_REG_{size}{number}"): f"x{number}" for number in range(29) for size in "WX"}
    frame, link = ((arm64.ARM64_REG_X29, arm64.ARM64_REG_W29), (arm64.ARM64_REG_X30, arm64.ARM64_REG_W30))
    return {**names, **dict.fromkeys(frame, "x29"), **dict.fromkeys(link, "x30")}


@pytest.mark.parametrize("name", slow_except(CRYPTO, "libcrypto-3.0-arm64"))
def test_capstone_knows_of_no_other_register_written_and_no_other_jump(name: str) -> None:
    checked = 0
    for start in islice(_sample(image(name)), 0, None, 5):
        bounds = image(name).function_bounds(start)
        assert bounds is not None
        code = image(name).code(start, bounds[1] - start)
        theirs = {each.address: each for each in instructions(code, start, "aarch64")}
        for each in decoded(code, start):
            other = theirs.get(each.address)
            if other is None or other.mnemonic in ("cmp", "cmn", "tst", "ccmp"):  # Capstone 5 takes a source for written
                continue
            written = {_names()[register] for register in other.regs_access()[1] if register in _names()}
            assert written <= each.writes, f"{each.address:#x} {each.text}"
            jumps = each.flow not in (Flow.NEXT, Flow.RETURN, Flow.STOP)
            assert jumps == bool(other.group(capstone.CS_GRP_JUMP)), f"{each.address:#x} {each.text}"
            if each.target is not None:
                assert each.target == other.operands[-1].imm
            checked += 1
    assert checked > 3000


@pytest.mark.slow
def test_damaged_code_gives_a_plan_or_a_sentence(tmp_path: Path) -> None:
    """Bytes of the planned functions, and anywhere, are overwritten: nothing but an SsllatencyError may come of it."""
    of = image("libssl-3.5-arm64")
    survive_damage(of, _plan(of, True), tmp_path / "damaged.so", seed=5, times=6)
