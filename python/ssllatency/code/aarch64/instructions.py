# SPDX-License-Identifier: Apache-2.0
"""aarch64 instructions as the planner sees them (machine.py), read from their 32-bit words. Capstone only writes them out.

What the kernel simulates, single-steps and refuses: arch/arm64/kernel/probes/decode-insn.c, arm_probe_decode_insn() and
aarch64_insn_is_steppable(), since uprobes came to arm64 (Linux 4.10). All direct branches, br, blr, ret, adr and adrp are
simulated; so `ret` is as cheap as any other site. The planner doesn't use what that file allows beyond this list. Encodings:
Arm Architecture Reference Manual for A-profile, C4.1, "A64 instruction set encoding".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property

from ssllatency.code.aarch64.memory import Access, access
from ssllatency.code.decode import instructions
from ssllatency.code.machine import CALLS, Cost, Emulation, Flow, Frame
from ssllatency.code.values import signed

SP = "sp"
FRAME_POINTER = 29
LINK = 30
_SIZES = frozenset((12, 13, 16, 17))  # where compilers put the size of a large frame
NAMES = tuple(f"x{number}" for number in range(31))
_CALLER_SAVED = frozenset((*NAMES[:19], NAMES[LINK]))
_ALL = frozenset(NAMES)

NOP = 0xD503201F
_XPACLRI = 0xD50320FF
_SIGNS_LINK = frozenset((0xD503231F, 0xD503233F, 0xD503235F, 0xD503237F))  # paciaz, paciasp, pacibz, pacibsp
# With pacia1716 and pacib1716. The kernel takes bti and pac* since Linux 5.8, and refuses aut* since 5.10.
_STEPPED_HINTS = _SIGNS_LINK | {NOP, _XPACLRI, 0xD503211F, 0xD503215F}

# The encoding group, bits 28 to 25.
_IMMEDIATE = frozenset((0b1000, 0b1001))
_BRANCH_OR_SYSTEM = frozenset((0b1010, 0b1011))
_MEMORY = frozenset((0b0100, 0b0110, 0b1100, 0b1110))
_REGISTER = frozenset((0b0101, 0b1101))
_VECTOR = frozenset((0b0111, 0b1111))
_GROUPS = _IMMEDIATE | _BRANCH_OR_SYSTEM | _MEMORY | _REGISTER | _VECTOR
_LONGEST_EXCLUSIVE = 32  # MAX_ATOMIC_CONTEXT_SIZE of the kernel's kprobes; the architecture asks for fewer
_ALWAYS = 14  # the conditions al and nv


def _registers(*numbers: int) -> frozenset[str]:
    """The general registers with these numbers; 31 is the zero register or the stack pointer, and none of them."""
    return frozenset(NAMES[number] for number in numbers if number < 31)


def _flow(word: int) -> Flow:
    if word & 0x7C000000 == 0x14000000:
        return Flow.CALL if word >> 31 else Flow.JUMP
    if word & 0x7C000000 == 0x34000000:  # cbz, cbnz, tbz, tbnz
        return Flow.BRANCH
    if word & 0xFF000000 == 0x54000000:
        return Flow.JUMP if word & 0xF >= _ALWAYS else Flow.BRANCH
    if word & 0xFE000000 == 0xD6000000:
        return _register_flow(word)
    if word & 0xFF000000 == 0xD4000000:  # svc goes on; brk, hlt and the calls of a higher exception level don't
        return Flow.NEXT if word & 0xFFE0001F == 0xD4000001 else Flow.STOP
    return Flow.STOP if word >> 16 == 0 else Flow.NEXT  # udf


def _register_flow(word: int) -> Flow:
    """br, blr, ret and their forms that authenticate the address; eret and drps have no place in a program."""
    operation = word >> 21 & 7
    if operation == 0:
        return Flow.INDIRECT_JUMP
    if operation == 1:
        return Flow.INDIRECT_CALL
    returns = operation == 2 and (word >> 10 & 2 or word >> 5 & 31 == LINK)
    return Flow.RETURN if returns else Flow.INDIRECT_JUMP if operation == 2 else Flow.STOP


class Aarch64Instruction:
    """One instruction. `exclusive`: it lies between a load-exclusive and the store-exclusive that would fail after a trap."""

    def __init__(self, word: int, address: int, exclusive: bool) -> None:
        self.word = word
        self.address = address
        self.end = address + 4
        self.flow = _flow(word)
        self._group = word >> 25 & 15
        self._exclusive = exclusive

    @property
    def text(self) -> str:
        decoded = next(instructions(struct.pack("<I", self.word), self.address, "aarch64"), None)
        return f"{decoded.mnemonic} {decoded.op_str}".strip() if decoded else f".inst {self.word:#010x}"

    @cached_property
    def target(self) -> int | None:
        if self.flow not in (Flow.BRANCH, Flow.JUMP, Flow.CALL):
            return None
        if self.word & 0x7C000000 == 0x14000000:
            distance = signed(self.word, 26)
        elif self.word & 0x7E000000 == 0x36000000:
            distance = signed(self.word >> 5, 14)
        else:
            distance = signed(self.word >> 5, 19)
        return self.address + 4 * distance

    @property
    def padding(self) -> bool:
        return self.word == NOP

    @property
    def landing_pad(self) -> bool:
        return self.word & 0xFFFFFF3F == 0xD503241F

    @cached_property
    def memory(self) -> Access | None:
        """Its access to memory, as a load or store."""
        return access(self.word) if self._group in _MEMORY else None

    @cached_property
    def writes(self) -> frozenset[str]:
        if self.flow in CALLS:
            return _CALLER_SAVED
        if self.memory:
            return _registers(*self.memory.loaded, *((self.memory.base,) if self.memory.moves_base else ()))
        destination = _registers(self.word & 31)
        if self._group in _IMMEDIATE:
            return destination
        if self._group in _REGISTER:  # ccmp and ccmn have no destination
            return frozenset() if self.word & 0x1FE00000 == 0x1A400000 else destination
        if self._group in _VECTOR:
            return destination if _vector_to_general(self.word) else frozenset()
        return self._system_writes()

    def _system_writes(self) -> frozenset[str]:
        if self.word & 0xFF000000 == 0xD4000000:
            return _ALL
        if self.word & 0xFFFFF01F == 0xD503201F:  # hints: pac* and aut* change x30 or x17, which are never the value
            return _registers(17, LINK) if self.word & 0xFE0 not in (0, 0x400, 0x440, 0x480, 0x4C0) else frozenset()
        return _registers(self.word & 31) if self.word & 0xFFC00000 == 0xD5000000 else frozenset()

    @cached_property
    def copy(self) -> tuple[str, str, int] | None:
        if self.word & 0x7FE0FFE0 == 0x2A0003E0:  # orr of the zero register: mov
            source, bits = self.word >> 16 & 31, 64 if self.word >> 31 else 32
        elif self.word & 0xFFFFFC00 == 0x93407C00:  # sxtw
            source, bits = self.word >> 5 & 31, 32
        else:
            return None
        return None if 31 in (source, self.word & 31) else (NAMES[self.word & 31], NAMES[source], bits)

    @property
    def zeroed(self) -> str:
        is_zero = self.word & 0x7F9FFFE0 == 0x52800000 or self.word & 0x7FFFFFE0 == 0x2A1F03E0  # movz of 0; mov of xzr, wzr
        return NAMES[self.word & 31] if is_zero and self.word & 31 != 31 else ""

    constant = None  # the kernel emulates `ret`: there is nothing to be gained
    condition = ""

    @property
    def null_branch(self) -> tuple[str, bool] | None:
        """Of cbz and cbnz on a 64-bit register: the register, and whether the branch is taken for NULL."""
        tests_register = self.word & 0xFE000000 == 0xB4000000 and self.word & 31 != 31
        return (NAMES[self.word & 31], not self.word >> 24 & 1) if tests_register else None

    @property
    def moves_return_address(self) -> bool:
        if self.word in _SIGNS_LINK or NAMES[LINK] in self.writes:
            return True
        if self.memory:
            return LINK in self.memory.stored
        sources = [self.word >> 5 & 31] if self._group in _REGISTER or self._immediate_of_register() else []
        if self._group in _REGISTER:
            sources += [self.word >> 16 & 31, self.word >> 10 & 31]
        return LINK in sources

    def _immediate_of_register(self) -> bool:
        """Whether it computes with a register and an immediate; adr, adrp and mov have the immediate alone."""
        return self._group in _IMMEDIATE and self.word & 0x1F000000 != 0x10000000 and self.word & 0x1F800000 != 0x12800000

    # The frame.

    def frame(self, before: Frame) -> Frame:
        after = before
        if len(before) > 1 and any(name.removeprefix("#") in self.writes for name in before):
            after = {name: value for name, value in before.items() if name.removeprefix("#") not in self.writes}
        if self.memory:
            return self._pushed(before, after) if self.memory.base == 31 and self.memory.moves_base else after
        if self.word & 31 == 31:
            return self._moved(before, after) if self._writes_stack_pointer() else after
        if self.word & 31 == FRAME_POINTER and self.word & 0xBF800000 == 0x91000000:
            value = self._sum(before)
            return after if value is None else {**after, NAMES[FRAME_POINTER]: value}
        return self._sized(before, after) if self.word & 0x1F800000 == 0x12800000 else after

    def _sized(self, before: Frame, after: Frame) -> Frame:
        """After movz or movk. The number that it leaves in one of _SIZES is kept as "#x12": a large frame's size."""
        name, shift = f"#x{self.word & 31}", 16 * (self.word >> 21 & 3)
        part, operation = (self.word >> 5 & 0xFFFF) << shift, self.word >> 29 & 3
        if self.word & 31 not in _SIZES or operation == 0 or (operation == 3 and name not in before):
            return after
        value = part if operation == 2 else before[name] & ~(0xFFFF << shift) | part
        return {**after, name: value} if value else after

    def _writes_stack_pointer(self) -> bool:
        """Whether the destination 31 is the stack pointer: of add, sub and the logical ones that set no flags."""
        word = self.word
        arithmetic = word & 0x3F000000 == 0x11000000 or word & 0x3FE00000 == 0x0B200000
        logical = word & 0x1F800000 == 0x12000000 and word & 0x60000000 != 0x60000000
        return arithmetic or logical

    def _pushed(self, before: Frame, after: Frame) -> Frame:
        """After a load or store that moves the stack pointer."""
        step = self.memory.step if self.memory else None
        return _without_stack_pointer(after) if step is None or SP not in before else {**after, SP: before[SP] - step}

    def _moved(self, before: Frame, after: Frame) -> Frame:
        """After an instruction whose destination is the stack pointer."""
        value = None
        if self.word & 0xBF800000 == 0x91000000:
            value = self._sum(before)
        elif self.word & 0xBFE0FFFF == 0x8B2063FF and SP in before:  # add or sub sp, sp, a register
            amount = before.get(f"#x{self.word >> 16 & 31}")
            value = None if amount is None else before[SP] + (amount if self.word >> 30 & 1 else -amount)
        return _without_stack_pointer(after) if value is None else {**after, SP: value}

    def _sum(self, before: Frame) -> int | None:
        """The delta of a register of the frame plus or minus the immediate, in the 64-bit add or sub that this is."""
        source = self.word >> 5 & 31
        base = before.get(SP if source == 31 else NAMES[source])
        amount = (self.word >> 10 & 0xFFF) << (12 if self.word >> 22 & 1 else 0)
        return None if base is None else base + (amount if self.word >> 30 & 1 else -amount)

    # The probe.

    def cost(self, emulation: Emulation) -> Cost | None:
        if self._exclusive or self._group not in _GROUPS:
            return None
        if self.flow in CALLS and not emulation.calls:
            return None
        if self._group in _BRANCH_OR_SYSTEM:
            return self._branch_cost(emulation)
        if self.memory:
            return Cost.SINGLE_STEPPED if self.memory.steppable else None
        return Cost.EMULATED if self.word & 0x1F000000 == 0x10000000 else Cost.SINGLE_STEPPED  # adr and adrp

    def _branch_cost(self, emulation: Emulation) -> Cost | None:
        word = self.word
        if self.flow in (Flow.BRANCH, Flow.JUMP, Flow.CALL):
            # The kernel doesn't know bc.cond and would step it elsewhere; compilers never emit b.al and b.nv.
            conditional = word & 0xFF000000 == 0x54000000
            return None if conditional and (word & 0x10 or word & 0xF >= _ALWAYS) else Cost.EMULATED
        if word & 0xFE000000 == 0xD6000000:  # not those that authenticate
            return Cost.EMULATED if word & 0xFF9FFC1F == 0xD61F0000 and word >> 21 & 3 < 3 else None
        # Since Linux 6.13 (commit ac4ad5c09b34) nop is simulated; Emulation is about 6.16, which includes that.
        if word == NOP and emulation.multibyte_nops:
            return Cost.EMULATED
        return Cost.SINGLE_STEPPED if word in _STEPPED_HINTS or self.landing_pad else None


def _without_stack_pointer(frame: Frame) -> Frame:
    return {register: delta for register, delta in frame.items() if register != SP}


def _vector_to_general(word: int) -> bool:
    """Whether a vector or floating-point instruction may write a general register: conversions, fmov, umov and smov."""
    if word & 0x7F000000 == 0x1E000000:
        return not word >> 21 & 1 or word >> 10 & 63 == 0
    return word & 0xBFE0E400 == 0x0E002400


def decoded(code: bytes, address: int) -> Iterator[Aarch64Instruction]:
    exclusive, words = 0, len(code) // 4  # so many instructions may still lie between an exclusive load and its store
    for place, (word,) in enumerate(struct.iter_unpack("<I", code[: words * 4])):
        if word >> 25 & 15 not in _GROUPS and word >> 16:
            return
        pairs = word & 0x3FA00000 == 0x08000000 or word & 0xBFA00000 == 0x88200000  # ldxr, stxr and their like; for pairs
        loads = pairs and word & 0x00400000
        if loads and 0 < place >= words - _LONGEST_EXCLUSIVE:
            return  # its store may lie past this code: decode again from here to see both
        yield Aarch64Instruction(word, address + 4 * place, exclusive > 0)
        exclusive = (_LONGEST_EXCLUSIVE if loads else 0) if pairs else exclusive - 1
