# SPDX-License-Identifier: Apache-2.0
"""What the planner reads out of x86-64 instructions, one by one, against what the kernel's uprobes.c says of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

import capstone
import pytest
from tests.fixtures.functions import function_ranges

from ssllatency.code.decode import instructions, lines
from ssllatency.code.machine import BASELINE, Cost, Emulation, Flow
from ssllatency.code.x86.instructions import REGISTERS, X86Instruction, wide_names
from ssllatency.code.x86.machine import X86
from ssllatency.elf.image import Image

ADDRESS = 0x1000
EVERYTHING = Emulation(multibyte_nops=True, optimised_nop5=True)
NOPS = Emulation(multibyte_nops=True)


def one(code: str) -> X86Instruction:
    """The instruction that the hexadecimal bytes are."""
    (decoded,) = X86().decode(bytes.fromhex(code), ADDRESS)
    return decoded


@pytest.mark.parametrize(
    ("code", "cost"),
    [
        ("55", Cost.EMULATED),  # push %rbp
        ("4157", Cost.EMULATED),  # push %r15
        ("e800000000", Cost.EMULATED),  # call
        ("eb00", Cost.EMULATED),  # jmp, short
        ("e900000000", Cost.EMULATED),  # jmp
        ("7500", Cost.EMULATED),  # jne, short
        ("0f8500000000", Cost.EMULATED),  # jne
        ("90", Cost.EMULATED),  # nop
        ("6690", Cost.EMULATED),  # xchg %ax,%ax
        ("f30f1efa", Cost.SINGLE_STEPPED),  # endbr64
        ("4883ec18", Cost.SINGLE_STEPPED),  # sub $0x18,%rsp
        ("c3", Cost.SINGLE_STEPPED),  # ret
        ("f3c3", Cost.SINGLE_STEPPED),  # repz ret
        ("64488b042528000000", Cost.SINGLE_STEPPED),  # mov %fs:0x28,%rax
        ("6a00", Cost.SINGLE_STEPPED),  # push $0
        ("ffe0", Cost.SINGLE_STEPPED),  # jmp *%rax
        ("4055", Cost.SINGLE_STEPPED),  # push %rbp with an empty REX prefix
        ("0f1f440000", Cost.SINGLE_STEPPED),  # nop of 5 bytes
    ],
)
def test_cost_of_a_probe_on_any_kernel(code: str, cost: Cost) -> None:
    assert one(code).cost(BASELINE) is cost


@pytest.mark.parametrize(
    "code",
    [
        "3effe0",  # notrack jmp *%rax: DS prefix
        "2e0f1f840000000000",  # cs nopw 0(%rax,%rax,1)
        "f0480fb10b",  # lock cmpxchg %rcx,(%rbx)
        "2e7500",  # jne with a branch hint
        "66e900000000",  # jmp with an operand-size prefix, whose length processors disagree on
        "f2e900000000",  # bnd jmp
        "4190",  # xchg %r8d,%eax, which uprobes.c would take for a nop
        "f390",  # pause
        "8ed0",  # mov %eax,%ss
        "c5f877",  # vzeroupper
        "0f05",  # syscall
        "0fa2",  # cpuid
        "e300",  # jrcxz
    ],
)
def test_is_never_probed(code: str) -> None:
    assert one(code).cost(EVERYTHING) is None


@pytest.mark.parametrize(
    ("code", "cost"),
    [
        ("0f1f00", Cost.EMULATED),
        ("0f1f440000", Cost.EMULATED),
        ("660f1f440000", Cost.EMULATED),
        ("0f1f840000000000", Cost.EMULATED),
        ("0f1f440810", Cost.SINGLE_STEPPED),  # not the canonical form
    ],
)
def test_nops_of_several_bytes_since_linux_6_16(code: str, cost: Cost) -> None:
    assert one(code).cost(NOPS) is cost


def test_5_byte_nop_since_linux_6_18() -> None:
    assert one("0f1f440000").cost(EVERYTHING) is Cost.OPTIMISED
    assert one("0f1f00").cost(EVERYTHING) is Cost.EMULATED


@pytest.mark.parametrize(
    ("code", "flow", "target"),
    [
        ("e8fbffffff", Flow.CALL, ADDRESS),
        ("ebfe", Flow.JUMP, ADDRESS),
        ("e910000000", Flow.JUMP, ADDRESS + 21),
        ("7510", Flow.BRANCH, ADDRESS + 18),
        ("0f84faffffff", Flow.BRANCH, ADDRESS),
        ("e310", Flow.BRANCH, ADDRESS + 18),  # jrcxz
        ("c7f810000000", Flow.BRANCH, ADDRESS + 22),  # xbegin
        ("ffd0", Flow.INDIRECT_CALL, None),
        ("ff6030", Flow.INDIRECT_JUMP, None),
        ("3effe0", Flow.INDIRECT_JUMP, None),
        ("c3", Flow.RETURN, None),
        ("c20800", Flow.RETURN, None),
        ("0f0b", Flow.STOP, None),  # ud2
        ("f4", Flow.STOP, None),  # hlt
        ("ff30", Flow.NEXT, None),  # push (%rax)
        ("0f05", Flow.NEXT, None),  # syscall
    ],
)
def test_flow(code: str, flow: Flow, target: int | None) -> None:
    each = one(code)
    assert each.flow is flow
    assert each.target == target


@pytest.mark.parametrize(
    ("code", "copy"),
    [
        ("89e8", ("rax", "rbp", 32)),  # mov %ebp,%eax
        ("4889d8", ("rax", "rbx", 64)),  # mov %rbx,%rax
        ("4489e0", ("rax", "r12", 32)),  # mov %r12d,%eax
        ("4d8bc1", ("r8", "r9", 64)),  # mov %r9,%r8 in its other form
        ("6689e8", None),  # mov %bp,%ax
        ("88e8", None),  # mov %ch,%al
        ("488b03", None),  # mov (%rbx),%rax
        ("480f44c3", None),  # cmove %rbx,%rax
    ],
)
def test_copy(code: str, copy: tuple[str, str, int] | None) -> None:
    assert one(code).copy == copy


@pytest.mark.parametrize(
    ("code", "written"),
    [
        ("88c3", {"rbx"}),  # mov %al,%bl
        ("0f9fc5", {"rcx"}),  # setg %ch
        ("480f44c3", {"rax"}),  # cmove
        ("48f7e1", {"rax", "rdx"}),  # mul %rcx
        ("5b", {"rbx"}),  # pop %rbx
        ("4839c8", set()),  # cmp
        ("55", set()),  # push
        ("4863048a", {"rax"}),  # movslq (%rdx,%rcx,4),%rax
    ],
)
def test_writes(code: str, written: set[str]) -> None:
    assert one(code).writes == written


@pytest.mark.parametrize("code", ["f0480fb10b", "0f05", "f348ab", "a4"])
def test_writes_of_what_capstone_lists_in_part_are_all_registers(code: str) -> None:
    assert {"rax", "rcx", "rdi", "rbx"} <= one(code).writes


def test_call_keeps_what_the_convention_keeps() -> None:
    assert {"rax", "rdi", "r11"} <= one("e800000000").writes
    assert not {"rbx", "rbp", "r12", "r15"} & one("ffd0").writes


@pytest.mark.parametrize(
    ("code", "before", "after"),
    [
        ("55", {"rsp": 8}, {"rsp": 16}),  # push %rbp
        ("6a00", {"rsp": 8}, {"rsp": 16}),  # push $0
        ("ff30", {"rsp": 8}, {"rsp": 16}),  # push (%rax)
        ("5b", {"rsp": 16}, {"rsp": 8}),  # pop %rbx
        ("5d", {"rsp": 16, "rbp": 16}, {"rsp": 8}),  # pop %rbp
        ("4883ec18", {"rsp": 8}, {"rsp": 32}),  # sub $0x18,%rsp
        ("4881c400010000", {"rsp": 264}, {"rsp": 8}),  # add $0x100,%rsp
        ("488d642420", {"rsp": 40}, {"rsp": 8}),  # lea 0x20(%rsp),%rsp
        ("4889e5", {"rsp": 16}, {"rsp": 16, "rbp": 16}),  # mov %rsp,%rbp
        ("488d6c2410", {"rsp": 32}, {"rsp": 32, "rbp": 16}),  # lea 0x10(%rsp),%rbp
        ("c9", {"rsp": 200, "rbp": 16}, {"rsp": 8}),  # leave
        ("488d65e8", {"rbp": 16}, {"rbp": 16, "rsp": 40}),  # lea -0x18(%rbp),%rsp
        ("4883e4c0", {"rsp": 16, "rbp": 16}, {"rbp": 16}),  # and $-64,%rsp
        ("4889c4", {"rsp": 16}, {}),  # mov %rax,%rsp
        ("5c", {"rsp": 16}, {}),  # pop %rsp
        ("4894", {"rsp": 16}, {}),  # xchg %rax,%rsp
        ("4889c5", {"rsp": 16, "rbp": 16}, {"rsp": 16}),  # mov %rax,%rbp
        ("e800000000", {"rsp": 16, "rbp": 16, "r10": 0}, {"rsp": 16, "rbp": 16}),  # call
        ("4839c4", {"rsp": 16}, {"rsp": 16}),  # cmp %rax,%rsp
        ("48890424", {"rsp": 16}, {"rsp": 16}),  # mov %rax,(%rsp)
    ],
)
def test_frame(code: str, before: dict[str, int], after: dict[str, int]) -> None:
    assert one(code).frame(before) == after


def test_padding_and_landing_pad() -> None:
    assert one("6690").padding
    assert one("0f1f8000000000").padding
    assert not one("4190").padding
    assert one("f30f1efa").landing_pad
    assert not one("90").landing_pad


def any_code() -> Iterator[bytes]:
    """Bytes that begin with each of the opcodes, with REX prefixes and without, and any operands."""
    random = Random(1)
    for opcode in [bytes([low]) for low in range(256)] + [bytes([0x0F, low]) for low in range(256)]:
        for _ in range(30):
            prefix = bytes([random.randrange(0x40, 0x50)]) if random.random() < 0.6 else b""
            yield prefix + opcode + random.randbytes(13)


def test_what_an_instruction_writes_is_what_capstone_says() -> None:
    names, decoded = wide_names(), 0
    for code in any_code():
        raw = next(instructions(code, ADDRESS, "x86-64"), None)
        instruction = next(X86().decode(code, ADDRESS), None)
        if raw is None or instruction is None or instruction.flow in (Flow.CALL, Flow.INDIRECT_CALL):
            continue
        written = {names[register] for register in raw.regs_access()[1] if register in names} - {"rsp"}
        everything = set(REGISTERS) - {"rsp"}
        assert instruction.writes == written or instruction.writes == everything > written, (instruction.text, code.hex())
        decoded += 1
    assert decoded > 10_000


def test_the_lines_are_the_instructions() -> None:
    for code in any_code():
        detailed = [(raw.address, raw.size, raw.mnemonic, raw.op_str) for raw in instructions(code, ADDRESS, "x86-64")]
        written = [(line.address, len(line.code), line.mnemonic, line.op_str) for line in lines(code, ADDRESS, "x86-64")]
        assert written == detailed


@pytest.mark.parametrize(
    ("code", "register"),
    [
        ("31f6", "rsi"),  # xor %esi,%esi
        ("4531c0", "r8"),  # xor %r8d,%r8d
        ("be00000000", "rsi"),  # mov $0,%esi
        ("48c7c600000000", "rsi"),  # mov $0,%rsi
        ("be01000000", ""),  # mov $1,%esi
        ("31fe", ""),  # xor %edi,%esi
        ("4889fe", ""),  # mov %rdi,%rsi
        ("83ceff", ""),  # or $-1,%esi
    ],
)
def test_a_register_that_is_zeroed(code: str, register: str) -> None:
    assert one(code).zeroed == register


@pytest.mark.slow
def test_the_text_of_the_first_operand_shows_whether_it_is_memory() -> None:
    """By that the planner tells what stores nothing, without having the operands made."""
    path = Path("/usr/lib/x86_64-linux-gnu/libssl.so.3")
    if not path.exists():
        pytest.skip(f"needs {path}")
    image, unlike = Image.open(path, debug_roots=()), []
    for start, end in islice(function_ranges(image), 0, None, 10):
        for line in lines(image.code(start, end - start), start, "x86-64"):
            first = line.operands[0].type if line.operands else None
            if (first == capstone.CS_OP_MEM) != ("[" in line.op_str.partition(",")[0]):
                unlike.append(f"{line.mnemonic} {line.op_str}")
    assert unlike == []
