# SPDX-License-Identifier: Apache-2.0
"""Plans of this machine's own libssl and libcrypto, against what objdump and the unwind tables say of the same code."""

from __future__ import annotations

import re
import subprocess
from bisect import bisect_right
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile
from tests.fixtures.functions import function_ranges
from tests.parameters import slow_except
from tests.unit.probes.libraries.damage import survive_damage

from ssllatency.code.flow import Code, Unplannable, build
from ssllatency.code.machine import BASELINE, Cost
from ssllatency.code.x86.machine import X86
from ssllatency.elf.image import Image
from ssllatency.probes.catalogue import BY_NAME
from ssllatency.probes.plan import NOT_IN_LIBRARY, FilePlan, OperationPlan, Probe, Role
from ssllatency.probes.planner import plan_image
from ssllatency.probes.settings import PlanSettings
from ssllatency.probes.sites.entry import entry_site
from ssllatency.probes.sites.exits import Chooser
from ssllatency.probes.sites.verify import problem

Line = tuple[int, str, str]  # address, mnemonic, operands
EMULATED = re.compile(r"(push|call|jmp|j[a-z]+|nop|xchg)$")
EVERY = 9  # of the library's functions: about 1,200


@pytest.fixture(scope="module")
def ssl_plan(libssl: Image) -> FilePlan:
    return plan_image(libssl)


@pytest.fixture(scope="module")
def crypto_plan(libcrypto: Image) -> FilePlan:
    return plan_image(libcrypto)


def operation(plan: FilePlan, name: str) -> OperationPlan:
    return next(each for each in plan.operations if each.operation == name)


@cache
def disassembly(path: str, start: int, stop: int) -> tuple[Line, ...]:
    """What objdump makes of [start, stop)."""
    command = ["objdump", "-d", "--no-show-raw-insn", f"--start-address={start}", f"--stop-address={stop}", path]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^ +([0-9a-f]+):\t(\S+) *([^\n]*)$", text, re.MULTILINE)
    return tuple((int(address, 16), mnemonic, operands.strip()) for address, mnemonic, operands in found)


def line(image: Image, address: int) -> Line:
    return disassembly(image.path, address, address + 16)[0]


def of_role(plan: OperationPlan, role: Role) -> list[Probe]:
    return [probe for probe in plan.probes if probe.role is role]


# One by one.


def test_ssl_read_enters_at_its_first_branch_and_leaves_at_the_stack_protector(libssl: Image, ssl_plan: FilePlan) -> None:
    plan = operation(ssl_plan, "SSL_read")
    lines = disassembly(libssl.path, plan.address, plan.address + plan.size)
    if not any("__stack_chk_fail" in operands for _, _, operands in lines):
        pytest.skip("this build of libssl has no stack protector in SSL_read")
    branch = next(each for each in lines if each[1].startswith("j"))
    below = sum(
        int(operands.split(",")[0][1:], 16) for _, name, operands in lines if name == "sub" and operands.endswith(",%rsp")
    )
    (entry,), (leaving,) = of_role(plan, Role.ENTRY), of_role(plan, Role.EXIT)
    assert (entry.address, entry.stack_delta, entry.cost) == (branch[0], below, Cost.EMULATED)
    _, name, operands = line(libssl, leaving.address)
    target = line(libssl, int(operands.split()[0], 16))
    assert name == "jne"
    assert "__stack_chk_fail" in target[2]
    assert (leaving.return_register, leaving.stack_delta, leaving.cost) == ("rax", below, Cost.EMULATED)


def test_rsa_sign_leaves_with_its_value_in_a_saved_register(libcrypto: Image, crypto_plan: FilePlan) -> None:
    plan = operation(crypto_plan, "RSA_sign")
    (leaving,) = of_role(plan, Role.EXIT)
    after = [each for each in disassembly(libcrypto.path, plan.address, plan.address + plan.size) if each[0] > leaving.address]
    move = next(operands for _, name, operands in after if name == "mov" and operands.endswith(",%eax"))
    assert line(libcrypto, leaving.address)[1] == "jne"
    assert f"%e{leaving.return_register[1:]},%eax" == move
    assert leaving.return_register != "rax"


def test_handshake_can_have_a_return_probe_at_its_first_push(libssl: Image) -> None:
    plan = operation(plan_image(libssl, PlanSettings(prefer_return_probes=True)), "SSL_do_handshake")
    (probe,) = plan.probes
    first = next(each for each in disassembly(libssl.path, plan.address, plan.address + 64) if each[1] != "endbr64")
    assert (probe.role, probe.address, probe.stack_delta) == (Role.RETURN, first[0], 0)
    assert first[1] == "push"


def test_handshake_leaves_in_the_state_machine_too(ssl_plan: FilePlan) -> None:
    plan = operation(ssl_plan, "SSL_do_handshake")
    assert plan.probes[0].role is Role.ENTRY
    assert {probe.shared for probe in of_role(plan, Role.EXIT)} == {False, True}


def test_pausing_a_job_is_found_and_covered(crypto_plan: FilePlan) -> None:
    roles = {probe.role for probe in operation(crypto_plan, "ASYNC_pause_job").probes}
    assert roles == {Role.ENTRY, Role.EXIT}


def test_all_operations_of_openssl_3_0_are_found_and_covered(ssl_plan: FilePlan, crypto_plan: FilePlan) -> None:
    if not crypto_plan.version.startswith("OpenSSL 3.0."):
        pytest.skip(f"the machine's library is {crypto_plan.version}")
    missing = {each.operation: each.reason for plan in (ssl_plan, crypto_plan) for each in plan.missing}
    newer = {"SSL_write_ex2", *(name for name in BY_NAME if name.startswith("ml"))}
    assert missing == dict.fromkeys(newer, NOT_IN_LIBRARY)
    assert (ssl_plan.kind, crypto_plan.kind) == ("libssl", "libcrypto")
    assert (ssl_plan.offsets.rwstate, ssl_plan.offsets.rbio, ssl_plan.offsets.wbio) == (0x28, 0x10, 0x18)
    assert crypto_plan.offsets.bio_flags is not None


# All of them.


def test_no_operation_that_can_run_in_a_job_has_a_return_probe(ssl_plan: FilePlan, crypto_plan: FilePlan) -> None:
    for plan in (*ssl_plan.operations, *crypto_plan.operations):
        if BY_NAME[plan.operation].async_job:
            assert not of_role(plan, Role.RETURN)
            assert len(of_role(plan, Role.ENTRY)) == 1
            assert bool(of_role(plan, Role.EXIT)) != BY_NAME[plan.operation].only_entry


@pytest.mark.parametrize("name", slow_except(("libssl", "libcrypto"), "libssl"))
def test_sites_are_instructions_of_objdump_and_cost_what_they_seem(name: str, request: pytest.FixtureRequest) -> None:
    image: Image = request.getfixturevalue(name)
    for return_probes in (True, False):
        for plan in plan_image(image, PlanSettings(return_probes=return_probes)).operations:
            for probe in plan.probes:
                bounds = image.function_bounds(probe.address)
                assert bounds is not None
                found = {address: mnemonic for address, mnemonic, _ in disassembly(image.path, *bounds)}
                assert probe.address in found, plan.operation
                assert (probe.cost is Cost.EMULATED) == bool(EMULATED.match(found[probe.address])), plan.operation
                assert probe.offset == image.file_offset(probe.address)


def unwind_tables(path: str) -> dict[int, FDE]:
    with Path(path).open("rb") as file:
        entries = ELFFile(file).get_dwarf_info().EH_CFI_entries()
    return {each["initial_location"]: each for each in entries if isinstance(each, FDE)}


def depth(table: FDE, address: int) -> int | None:
    """The stack pointer at the function's entry minus that before the instruction, by the unwind table; None if it is told by
    another register."""
    rows = table.get_decoded().table
    rule = rows[bisect_right([row["pc"] for row in rows], address) - 1]["cfa"]
    return rule.offset - 8 if rule.expr is None and rule.reg == 7 else None


@pytest.mark.slow
def test_stack_depths_are_those_of_the_unwind_tables(libcrypto: Image, libssl: Image) -> None:
    """Of every instruction of the planned operations. The compiler made the tables; following the code gave the depths."""
    checked = 0
    for image in (libssl, libcrypto):
        tables = unwind_tables(image.path)
        code = Code(image, X86())
        for plan in plan_image(image).operations:
            graph = build(code, plan.address, plan.size, lambda _function, _slot: None)
            for address, (start, _) in graph.functions.items():
                expected = depth(tables[start], address)
                if start == graph.own[0] and expected is not None:
                    assert graph.delta(address) == expected, f"{plan.operation} at {address:#x}"
                    checked += 1
    assert checked > 2000


@pytest.mark.slow
def test_plans_of_functions_that_nobody_chose(libcrypto: Image) -> None:
    """Every EVERYth function of libcrypto: what is planned passes the check, and the cut is never refused by it."""
    machine = X86()
    code = Code(libcrypto, machine)
    planned = covered_cheaply = refused = 0
    for start, _ in list(function_ranges(libcrypto))[::EVERY]:
        try:
            graph = build(code, start, 0, lambda _function, _slot: None)
            entry = entry_site(graph, frozenset(), BASELINE)
            exits = Chooser(graph, BASELINE, "rax").sites(entry.address)
        except Unplannable:
            refused += 1
            continue
        assert problem(graph, entry, exits, "rax") == "", f"{start:#x}"
        planned += 1
        covered_cheaply += all(site.cost is Cost.EMULATED for site in exits)
    assert planned > 5 * refused
    assert covered_cheaply > planned // 6


def test_addresses_of_one_operation_ascend(crypto_plan: FilePlan) -> None:
    for plan in crypto_plan.operations:
        exits = of_role(plan, Role.EXIT)
        assert all(one.address < other.address for one, other in pairwise(exits))


@pytest.mark.slow
def test_damaged_code_gives_a_plan_or_a_sentence(libssl: Image, ssl_plan: FilePlan, tmp_path: Path) -> None:
    """Bytes of the planned functions, and anywhere, are overwritten: nothing but an SsllatencyError may come of it."""
    survive_damage(libssl, ssl_plan, tmp_path / "damaged.so", seed=3, times=8)
