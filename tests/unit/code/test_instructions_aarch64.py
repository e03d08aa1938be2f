# SPDX-License-Identifier: Apache-2.0
"""What the planner reads out of aarch64 instructions, one by one, against what the kernel's decode-insn.c says of them; and the
sites that it chooses in small functions."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import programs
from tests.fixtures.assembled_aarch64 import AssembledAarch64, assemble, function

from ssllatency.abi import Convention
from ssllatency.code.aarch64.instructions import Aarch64Instruction
from ssllatency.code.aarch64.machine import Aarch64
from ssllatency.code.flow import Unplannable
from ssllatency.code.machine import BASELINE, Cost, Emulation, Flow
from ssllatency.probes.plan import OperationPlan, Role
from ssllatency.probes.sites.entry import return_probe_site

Assembler = Callable[[str], AssembledAarch64]
ADDRESS = 0x1000
NOPS = Emulation(multibyte_nops=True)
SHADOW_STACK = Emulation(calls=False)


def one(word: int) -> Aarch64Instruction:
    (decoded,) = Aarch64().decode(struct.pack("<I", word), ADDRESS)
    return decoded


# One by one.


@pytest.mark.parametrize(
    ("word", "cost"),
    [
        (0x14000004, Cost.EMULATED),  # b
        (0x97FFFFFE, Cost.EMULATED),  # bl
        (0x54000041, Cost.EMULATED),  # b.ne
        (0xB4000060, Cost.EMULATED),  # cbz
        (0x35FFFFE3, Cost.EMULATED),  # cbnz
        (0x36F80102, Cost.EMULATED),  # tbz
        (0xB747FF02, Cost.EMULATED),  # tbnz
        (0xD61F0200, Cost.EMULATED),  # br x16
        (0xD63F0040, Cost.EMULATED),  # blr x2
        (0xD65F03C0, Cost.EMULATED),  # ret
        (0x10000043, Cost.EMULATED),  # adr
        (0xB0000003, Cost.EMULATED),  # adrp
        (0xD503201F, Cost.SINGLE_STEPPED),  # nop
        (0xD503245F, Cost.SINGLE_STEPPED),  # bti c
        (0xD503249F, Cost.SINGLE_STEPPED),  # bti j
        (0xD503233F, Cost.SINGLE_STEPPED),  # paciasp
        (0xA9BE7BFD, Cost.SINGLE_STEPPED),  # stp x29, x30, [sp, #-32]!
        (0xA8C27BFD, Cost.SINGLE_STEPPED),  # ldp x29, x30, [sp], #32
        (0xD10143FF, Cost.SINGLE_STEPPED),  # sub sp, sp, #80
        (0xF9470C21, Cost.SINGLE_STEPPED),  # ldr x1, [x1, #3608]
        (0xAA0003F3, Cost.SINGLE_STEPPED),  # mov x19, x0
        (0x7100081F, Cost.SINGLE_STEPPED),  # cmp w0, #2
        (0x4EA28420, Cost.SINGLE_STEPPED),  # add v0.4s, v1.4s, v2.4s
        (0xF8200041, Cost.SINGLE_STEPPED),  # ldadd x0, x1, [x2]
    ],
)
def test_cost_of_a_probe(word: int, cost: Cost) -> None:
    assert one(word).cost(BASELINE) is cost


@pytest.mark.parametrize(
    "word",
    [
        0x58000040,  # ldr x0, literal: broken until Linux 6.12, refused since
        0x9C000080,  # ldr q0, literal, which the kernel would step at another address
        0x98000040,  # ldrsw, literal
        0xD8000040,  # prfm, literal
        0xC85F7C20,  # ldxr
        0xC802FC20,  # stlxr
        0xC8DFFC20,  # ldar, which the kernel takes for exclusive
        0xC8A07C41,  # cas
        0xF8200420,  # ldraa
        0x19010440,  # cpyfp
        0xD53BD040,  # mrs x0, tpidr_el0
        0xD51BD040,  # msr tpidr_el0, x0
        0xD5033BBF,  # dmb ish
        0xD503205F,  # wfe
        0xD50323BF,  # autiasp
        0xD4000001,  # svc
        0xD4200020,  # brk
        0xD71F0801,  # braa
        0xD63F085F,  # blraaz
        0xD65F0BFF,  # retaa
        0xD69F03E0,  # eret
        0x5400004E,  # b.al
        0x54000051,  # bc.ne, which the kernel would step at another address
        0x00000000,  # udf
    ],
)
def test_is_never_probed(word: int) -> None:
    assert one(word).cost(NOPS) is None


def test_nop_is_simulated_by_newer_kernels() -> None:
    assert one(0xD503201F).cost(NOPS) is Cost.EMULATED


@pytest.mark.parametrize("word", [0x97FFFFFE, 0xD63F0040])
def test_calls_are_left_alone_where_they_must_be(word: int) -> None:
    assert one(word).cost(SHADOW_STACK) is None


def test_nothing_between_exclusive_load_and_store_is_probed() -> None:
    words = (0xC85FFC20, 0xB4000060, 0xC802FC20, 0xB4000060)  # ldaxr, cbz, stlxr, cbz
    decoded = list(Aarch64().decode(struct.pack("<4I", *words), ADDRESS))
    assert [each.cost(BASELINE) for each in decoded] == [None, None, None, Cost.EMULATED]


@pytest.mark.parametrize("before", [0x48627C04, 0xC8DFFC20, 0xC802FC20])  # caspa, ldar, stlxr: complete in themselves
def test_other_atomic_instructions_open_nothing(before: int) -> None:
    assert list(Aarch64().decode(struct.pack("<2I", before, 0xB4000060), ADDRESS))[1].cost(BASELINE) is Cost.EMULATED


def test_an_exclusive_load_without_a_store_does_not_rule_for_ever() -> None:
    decoded = list(Aarch64().decode(struct.pack("<I", 0xC87F0820) + 40 * struct.pack("<I", 0xB4000060), ADDRESS))  # ldxp
    assert decoded[1].cost(BASELINE) is None
    assert decoded[40].cost(BASELINE) is Cost.EMULATED


def test_an_exclusive_load_near_the_end_of_the_code_is_left_to_the_next() -> None:
    load, store, other = 0xC85FFC20, 0xC802FC20, 0xB4000060
    nops = struct.pack("<8I", *8 * [0xD503201F])
    code = nops + struct.pack("<3I", load, other, store)
    assert len(list(Aarch64().decode(code, ADDRESS))) == 8
    assert [each.cost(BASELINE) for each in Aarch64().decode(code[len(nops) :], ADDRESS + len(nops))] == [None, None, None]
    assert len(list(Aarch64().decode(code + 4 * nops, ADDRESS))) == 11 + 32


def test_decoding_ends_at_what_is_no_code() -> None:
    assert len(list(Aarch64().decode(struct.pack("<2I", 0xD65F03C0, 0x60000001), ADDRESS))) == 1
    assert len(list(Aarch64().decode(struct.pack("<I", 0xD65F03C0) + b"\x1f\x20", ADDRESS))) == 1
    assert not list(Aarch64().decode(struct.pack("<I", 0xD65F03C0), ADDRESS + 2))


@pytest.mark.parametrize(
    ("word", "flow", "target"),
    [
        (0x14000004, Flow.JUMP, ADDRESS + 16),
        (0x97FFFFFE, Flow.CALL, ADDRESS - 8),
        (0x54000041, Flow.BRANCH, ADDRESS + 8),
        (0x5400004E, Flow.JUMP, ADDRESS + 8),  # b.al
        (0xB4000060, Flow.BRANCH, ADDRESS + 12),
        (0x35FFFFE3, Flow.BRANCH, ADDRESS - 4),
        (0x36F80102, Flow.BRANCH, ADDRESS + 32),
        (0xB747FF02, Flow.BRANCH, ADDRESS - 32),
        (0xD61F0200, Flow.INDIRECT_JUMP, None),
        (0xD71F0801, Flow.INDIRECT_JUMP, None),  # braa
        (0xD63F0040, Flow.INDIRECT_CALL, None),
        (0xD63F085F, Flow.INDIRECT_CALL, None),  # blraaz
        (0xD65F03C0, Flow.RETURN, None),
        (0xD65F0BFF, Flow.RETURN, None),  # retaa
        (0xD65F00A0, Flow.INDIRECT_JUMP, None),  # ret x5
        (0xD4200020, Flow.STOP, None),  # brk
        (0xD4400020, Flow.STOP, None),  # hlt
        (0x00000000, Flow.STOP, None),  # udf
        (0xD4000001, Flow.NEXT, None),  # svc
        (0xD503245F, Flow.NEXT, None),  # bti c
    ],
)
def test_flow(word: int, flow: Flow, target: int | None) -> None:
    assert (one(word).flow, one(word).target) == (flow, target)


@pytest.mark.parametrize(
    ("word", "copy"),
    [
        (0xAA0003F3, ("x19", "x0", 64)),  # mov x19, x0
        (0x2A1403E0, ("x0", "x20", 32)),  # mov w0, w20
        (0x93407E60, ("x0", "x19", 32)),  # sxtw x0, w19
        (0xAA1F03E0, None),  # mov x0, xzr
        (0xAA2003E0, None),  # mvn x0, x0
        (0x9A820020, None),  # csel x0, x1, x2, eq
        (0x910003FD, None),  # mov x29, sp
    ],
)
def test_copy(word: int, copy: tuple[str, str, int] | None) -> None:
    assert one(word).copy == copy


@pytest.mark.parametrize(
    ("word", "written"),
    [
        (0x9A820020, {"x0"}),  # csel
        (0x7100081F, set()),  # cmp w0, #2
        (0x7A401823, set()),  # ccmp w1, #0, #3, ne
        (0xF90007FE, set()),  # str x30, [sp, #8]
        (0xF9470C21, {"x1"}),  # ldr x1, [x1, #3608]
        (0xF84107FE, {"x30"}),  # ldr x30, [sp], #16
        (0xA8C27BFD, {"x29", "x30"}),  # ldp x29, x30, [sp], #32
        (0xF8010C20, {"x1"}),  # str x0, [x1, #16]!
        (0xF8200041, {"x1"}),  # ldadd x0, x1, [x2]
        (0x9E660001, {"x1"}),  # fmov x1, d0
        (0x0E0C3C03, {"x3"}),  # umov w3, v0.s[1]
        (0x4EA28420, set()),  # add v0.4s, v1.4s, v2.4s
        (0x4CDF7028, {"x1"}),  # ld1 {v8.16b}, [x1], #16
        (0xD53BD040, {"x0"}),  # mrs x0, tpidr_el0
        (0xD503245F, set()),  # bti c
        (0xF9800000, set()),  # prfm pldl1keep, [x0]
    ],
)
def test_writes(word: int, written: set[str]) -> None:
    assert one(word).writes == written


@pytest.mark.parametrize(
    ("word", "written"),
    [
        (0xC802FC20, {"x2"}),  # stlxr w2, x0, [x1]
        (0xC8A07C41, {"x0"}),  # cas x0, x1, [x2]
        (0x48227C04, {"x2", "x3"}),  # casp x2, x3, x4, x5, [x0]
        (0x19010440, {"x0", "x1", "x2"}),  # cpyfp [x0]!, [x1]!, x2!
        (0xD4000001, {"x0"}),  # svc
        (0xD503237F, {"x30"}),  # pacibsp
        (0x1E380020, {"x0"}),  # fcvtzs w0, s1
    ],
)
def test_writes_of_what_is_rare_are_all_there(word: int, written: set[str]) -> None:
    assert one(word).writes >= written


def test_call_keeps_what_the_convention_keeps() -> None:
    for word in (0x97FFFFFE, 0xD63F0040):
        assert {"x0", "x8", "x16", "x18", "x30"} <= one(word).writes
        assert not {f"x{number}" for number in range(19, 30)} & one(word).writes


@pytest.mark.parametrize(
    ("word", "before", "after"),
    [
        (0xA9BE7BFD, {"sp": 0}, {"sp": 32}),  # stp x29, x30, [sp, #-32]!
        (0xF81F0FE0, {"sp": 16}, {"sp": 32}),  # str x0, [sp, #-16]!
        (0xF90007FE, {"sp": 16}, {"sp": 16}),  # str x30, [sp, #8]
        (0xA8C27BFD, {"sp": 32, "x29": 32}, {"sp": 0}),  # ldp x29, x30, [sp], #32
        (0xA94153F3, {"sp": 32, "x29": 32}, {"sp": 32, "x29": 32}),  # ldp x19, x20, [sp, #16]
        (0xD10143FF, {"sp": 0}, {"sp": 80}),  # sub sp, sp, #80
        (0xD14007FF, {"sp": 16}, {"sp": 4112}),  # sub sp, sp, #1, lsl #12
        (0x910143FF, {"sp": 80}, {"sp": 0}),  # add sp, sp, #80
        (0x910003FD, {"sp": 32}, {"sp": 32, "x29": 32}),  # mov x29, sp
        (0x9100C3FD, {"sp": 80}, {"sp": 80, "x29": 32}),  # add x29, sp, #48
        (0x910003BF, {"x29": 32}, {"x29": 32, "sp": 32}),  # mov sp, x29
        (0xD10043BF, {"x29": 32}, {"x29": 32, "sp": 48}),  # sub sp, x29, #16
        (0xD28212AC, {"sp": 0}, {"sp": 0, "#x12": 0x1095}),  # mov x12, #0x1095
        (0xF2A0002C, {"sp": 0, "#x12": 16}, {"sp": 0, "#x12": 0x10010}),  # movk x12, #1, lsl #16
        (0xF2A0002C, {"sp": 0}, {"sp": 0}),  # movk of what isn't known
        (0x8B2C63FF, {"sp": 0x1000, "#x12": 0x1000}, {"sp": 0, "#x12": 0x1000}),  # add sp, sp, x12
        (0xCB2C63FF, {"sp": 0, "#x12": 0x1000}, {"sp": 0x1000, "#x12": 0x1000}),  # sub sp, sp, x12
        (0x8B2C63FF, {"sp": 0}, {}),
        (0x927CED3F, {"sp": 16}, {}),  # and sp, x9, #-16
        (0x110043FF, {"sp": 16}, {}),  # add wsp, wsp, #16
        (0x4CDF73E8, {"sp": 16}, {}),  # ld1 {v8.16b}, [sp], #16
        (0x97FFFFFE, {"sp": 16, "x29": 16, "#x12": 5}, {"sp": 16, "x29": 16}),  # bl
        (0xEB01001F, {"sp": 16}, {"sp": 16}),  # cmp x0, x1
    ],
)
def test_frame(word: int, before: dict[str, int], after: dict[str, int]) -> None:
    assert one(word).frame(before) == after


@pytest.mark.parametrize(
    ("word", "moves"),
    [
        (0xD503233F, True),  # paciasp
        (0xA9BE7BFD, True),  # stp x29, x30, [sp, #-32]!
        (0xF90007FE, True),  # str x30, [sp, #8]
        (0xAA1E03E9, True),  # mov x9, x30
        (0x910013C0, True),  # add x0, x30, #4
        (0x97FFFFFE, True),  # bl
        (0xAA0903FE, True),  # mov x30, x9
        (0xD503245F, False),  # bti c
        (0xB4000060, False),  # cbz
        (0xD10143FF, False),  # sub sp, sp, #80
        (0x900007C0, False),  # adrp x0
        (0xA90153F3, False),  # stp x19, x20, [sp, #16]
        (0x14000004, False),  # b
    ],
)
def test_return_address_moves(word: int, moves: bool) -> None:
    assert one(word).moves_return_address is moves


def test_text_is_assembly() -> None:
    assert one(0xA9BE7BFD).text == "stp x29, x30, [sp, #-0x20]!"
    assert one(0xD65F03C0).text == "ret"


def test_padding_and_landing_pads() -> None:
    assert one(0xD503201F).padding
    assert one(0xD503245F).landing_pad
    assert one(0xD503249F).landing_pad
    assert not one(0xD503233F).landing_pad  # paciasp does more than to mark


# Small functions.


@pytest.fixture
def assembled(tmp_path: Path) -> Assembler:
    programs.needed("clang")
    return lambda text: assemble(tmp_path, text)


PUSH = "stp x29, x30, [sp, #-32]!\nmov x29, sp\n"
POP = "ldp x29, x30, [sp], #32\n"
OTHER = function("other", "mov x0, #1\nret")


def sites(code: AssembledAarch64, plan: OperationPlan) -> list[tuple[Role, str, int, Cost]]:
    return [(probe.role, code.label(probe.address), probe.stack_delta, probe.cost) for probe in plan.probes]


def test_enters_at_the_first_simulated_instruction_and_leaves_at_the_ret(assembled: Assembler) -> None:
    code = assembled(OTHER + function("f", f"bti c\npaciasp\n{PUSH}at_b: bl other\n{POP}autiasp\nat_r: ret"))
    plan = code.plan()
    assert sites(code, plan) == [(Role.ENTRY, "at_b", 32, Cost.EMULATED), (Role.EXIT, "at_r", 0, Cost.EMULATED)]
    assert plan.probes[1].return_register == "x0"
    assert plan.probes[0].offset == code.symbols["at_b"]


def test_entry_keeps_the_arguments(assembled: Assembler) -> None:
    code = assembled(OTHER + function("f", f"at_m: mov x0, x1\n{PUSH}at_b: bl other\n{POP}ret"))
    assert code.entry(code.plan()) == "at_b"
    assert code.entry(code.plan(ssl_argument=True)) == "at_m"
    assert code.entry(code.plan(skip_null=1)) == "at_b"


def test_leaf_enters_before_its_ret(assembled: Assembler) -> None:
    code = assembled(function("f", "at_l: ldr w0, [x0]\nat_r: ret"))
    assert sites(code, code.plan()) == [
        (Role.ENTRY, "at_l", 0, Cost.SINGLE_STEPPED),
        (Role.EXIT, "at_r", 0, Cost.EMULATED),
    ]


def test_a_branch_that_all_ways_cross_is_one_exit(assembled: Assembler) -> None:
    body = f"{PUSH}bl other\nmov w19, w0\nat_c: cbz w19, 1f\nmov w0, w19\n{POP}at_r: ret\n1: mov w0, w19\n{POP}at_s: ret"
    code = assembled(OTHER + function("f", body))
    plan = code.plan()
    assert code.exits(plan) == ["at_c"]
    assert [probe.return_register for probe in plan.probes if probe.role is Role.EXIT] == ["x19"]
    assert code.exits(code.plan(convention=Convention.POINTER)) == ["at_r", "at_s"]  # 32 bits are not the pointer


PROTECTED = f"at_a: adrp x8, #0\n{PUSH}ldr x2, [x8]\nbl other\nsubs x2, x2, x8\nat_p: b.ne 1f\n{POP}at_r: ret\n1: brk #1"


def test_stack_protector_is_no_way_out(assembled: Assembler) -> None:
    code = assembled(OTHER + function("f", PROTECTED))
    assert sites(code, code.plan())[0] == (Role.ENTRY, "at_a", 0, Cost.EMULATED)
    assert len(code.exits(code.plan())) == 1


def test_tail_call_is_followed(assembled: Assembler) -> None:
    code = assembled(function("g", "add w0, w0, #1\nat_g: ret") + function("f", "mov w0, w1\nat_j: b g"))
    plan = code.plan()
    assert (code.entry(plan), code.exits(plan)) == ("at_j", ["at_g"])
    assert plan.probes[1].shared


def test_call_through_a_pointer_at_the_end_is_said(assembled: Assembler) -> None:
    code = assembled(function("f", f"cbz x0, 1f\n{PUSH}ldr x1, [x0, #24]\nmov x16, x1\n{POP}at_x: br x16\n1: ret"))
    with pytest.raises(Unplannable, match="call through a pointer"):
        code.plan(return_probes=False)
    graph = code.graph()
    path = [graph.nodes[address] for address in sorted(graph.nodes) if address <= code.symbols["at_x"]]
    assert Aarch64().tail_slot(path) == 24


@pytest.mark.parametrize(
    ("body", "label"),
    [
        (f"at_a: paciasp\nadrp x2, #0\n{PUSH}bl other\n{POP}autiasp\nret", "at_a"),
        (f"bti c\nat_c: cbz x0, 1f\npaciasp\n{PUSH}bl other\n{POP}autiasp\n1: ret", "at_c"),
        (f"at_a: stp x29, x30, [sp, #-32]!\nadrp x2, #0\nbl other\n{POP}ret", "at_a"),
        ("at_a: mov x9, x30\nat_b: bl other\nmov x30, x9\nret", "at_a"),
        (f"mov x9, x1\nat_p: adrp x2, #0\n{PUSH}bl other\n{POP}ret", "at_p"),
    ],
)
def test_return_probe_comes_before_the_link_register_is_used(assembled: Assembler, body: str, label: str) -> None:
    code = assembled(OTHER + function("f", body))
    site = return_probe_site(code.graph(), frozenset(), BASELINE)
    assert (code.label(site.address), site.stack_delta) == (label, 0)


def test_return_probe_where_a_way_out_is_not_known(assembled: Assembler) -> None:
    code = assembled(function("f", f"bti c\nat_c: cbz x0, 1f\n{PUSH}ldr x1, [x0]\n{POP}br x1\n1: ret"))
    (probe,) = code.plan(async_job=False).probes
    assert (probe.role, code.label(probe.address), probe.cost) == (Role.RETURN, "at_c", Cost.EMULATED)


# As GCC and clang write the same table.
TABLES = {
    "bytes": ("ldrb w1, [x1, w0, uxtw]", "add x1, x2, w1, sxtb #2", ".byte"),
    "halves": ("ldrh w1, [x1, w0, uxtw #1]", "add x1, x2, w1, sxth #2", ".hword"),
    "words": ("ldr w1, [x1, w0, uxtw #2]", "add x1, x2, w1, sxtw #2", ".word"),
    "unsigned bytes": ("ldrb w1, [x1, x0]", "add x1, x2, x1, lsl #2", ".byte"),
    "signed words": ("ldrsw x1, [x1, x0, lsl #2]", "add x1, x2, x1, lsl #2", ".word"),
}


def switch(kind: str, check: str = "cmp w0, #2\nb.hi 9f") -> str:
    load, add, directive = TABLES[kind]
    ends = "bti j\nmov w0, #1\nat_0: ret\nat_m: mov w0, #2\nat_1: ret\n9: mov w0, #3\nat_2: ret\n"
    table = f"{directive} 0, (at_m-8b)/4, (9b-8b)/4\n.p2align 2"
    return f"{check}\nadr x1, 7f\n{load}\nadr x2, 8f\n{add}\nbr x1\n8: {ends}7: {table}"


@pytest.mark.parametrize("kind", TABLES)
def test_jump_table(assembled: Assembler, kind: str) -> None:
    code = assembled(function("f", switch(kind)))
    graph = code.graph()
    assert {code.label(address) for address in graph.ways_out()} == {"at_0", "at_1", "at_2"}
    assert not graph.uncovered


@pytest.mark.parametrize(
    "check",
    [
        "cmp w0, #3\nb.hs 9f",
        "cmp w0, #2\nb.ls 6f\nmov w0, #4\nret\n6:",
        "cmp w0, #1\nb.eq 9f\ncmp w0, #2\nb.hi 9f\nmov w3, w0\nmov w0, w3",
        "cmp w0, #2\nb.eq 9f\nb.hi 9f",
        "mov w4, w0\ncmp w4, #2\nb.hi 9f\nmov w0, w4",
    ],
)
def test_comparison_that_bounds_the_index(assembled: Assembler, check: str) -> None:
    assert not assembled(function("f", switch("bytes", check))).graph().uncovered


@pytest.mark.parametrize(
    "check",
    [
        "nop",
        "cmp w0, #2\nb.gt 9f",  # signed: it may be negative
        "cmp w3, #2\nb.hi 9f",
        "cmp w0, w3\nb.hi 9f",
        "cmp w0, #2\nadds w3, w3, #1\nb.hi 9f",
        "cmp w0, #2\nb.hi 9f\nadd w0, w0, #1",
        "cmp w0, #2\nb.hi 9f\nldr w0, [x3]",
    ],
)
def test_table_without_bound_is_not_read(assembled: Assembler, check: str) -> None:
    code = assembled(function("f", switch("bytes", check)))
    assert ["jump table" in reason for reason in code.graph().uncovered.values()] == [True]
    with pytest.raises(Unplannable, match="jump table"):
        code.plan(return_probes=False)


def test_large_frame(assembled: Assembler) -> None:
    body = f"mov x12, #0x1230\nsub sp, sp, x12\n{PUSH}at_b: bl other\n{POP}mov x12, #0x1230\nadd sp, sp, x12\nat_r: ret"
    code = assembled(OTHER + function("f", body))
    assert sites(code, code.plan())[0] == (Role.ENTRY, "at_b", 0x1250, Cost.EMULATED)
    assert code.graph().delta(code.symbols["at_r"]) == 0


def test_stack_that_does_not_balance_is_refused(assembled: Assembler) -> None:
    with pytest.raises(Unplannable, match="balance"):
        assembled(function("f", "sub sp, sp, #16\nret")).plan()


@pytest.mark.parametrize(
    ("word", "register"),
    [
        (0xD2800001, "x1"),  # mov x1, #0
        (0x52800001, "x1"),  # mov w1, #0
        (0xAA1F03E1, "x1"),  # mov x1, xzr
        (0x2A1F03E1, "x1"),  # mov w1, wzr
        (0xD2800021, ""),  # mov x1, #1
        (0xF2800001, ""),  # movk x1, #0
        (0x92800001, ""),  # mov x1, #-1
        (0xAA0003E1, ""),  # mov x1, x0
        (0xD280001F, ""),  # mov xzr, #0
    ],
)
def test_a_register_that_is_zeroed(word: int, register: str) -> None:
    assert one(word).zeroed == register
