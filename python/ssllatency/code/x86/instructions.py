# SPDX-License-Identifier: Apache-2.0
"""x86-64 instructions as the planner sees them (machine.py). Control flow, stack effect and what the kernel does with a probe
are read from the bytes; registers written, from Capstone.

What the kernel emulates, single-steps and refuses: arch/x86/kernel/uprobes.c, branch_setup_xol_ops(), push_setup_xol_ops(),
is_prefix_bad(), insn_masking_exception(). The planner doesn't use what that file allows beyond this list.
"""

from __future__ import annotations

from functools import cache, cached_property

from capstone import x86

from ssllatency.code.decode import Line
from ssllatency.code.machine import CALLS, Cost, Emulation, Flow, Frame

REGISTERS = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", *(f"r{number}" for number in range(8, 16)))
_CALLEE_SAVED = frozenset(("rbx", "rbp", "r12", "r13", "r14", "r15"))
_CALLER_SAVED = frozenset(REGISTERS) - _CALLEE_SAVED - {"rsp"}
_ALL = frozenset(REGISTERS) - {"rsp"}
_NONE: frozenset[str] = frozenset()
_ONE = tuple(frozenset((name,)) - {"rsp"} for name in REGISTERS)

_PREFIXES = frozenset(b"\x66\x67\xf2\xf3\x2e\x36\x3e\x26\x64\x65\xf0")
_REFUSED_PREFIXES = frozenset(b"\x2e\x36\x3e\x26\xf0")  # CS, SS, DS, ES, LOCK: is_prefix_bad()
_FLOWS = {
    0xE8: Flow.CALL, 0xE9: Flow.JUMP, 0xEB: Flow.JUMP, 0xC2: Flow.RETURN, 0xC3: Flow.RETURN,
    0xCC: Flow.STOP, 0xF1: Flow.STOP, 0xF4: Flow.STOP, 0x0F0B: Flow.STOP, 0x0FB9: Flow.STOP, 0x0FFF: Flow.STOP,
}  # fmt: skip
_SHORT = frozenset((0xEB, *range(0x70, 0x80), *range(0xE0, 0xE4)))
_FLOWS.update(dict.fromkeys((*range(0x70, 0x80), *range(0xE0, 0xE4), *range(0x0F80, 0x0F90)), Flow.BRANCH))
_JCC = frozenset((*range(0x70, 0x80), *range(0x0F80, 0x0F90)))
_DIRECT = _JCC | {0xE8, 0xE9, 0xEB}
_INDIRECT = {2: Flow.INDIRECT_CALL, 3: Flow.INDIRECT_CALL, 4: Flow.INDIRECT_JUMP, 5: Flow.INDIRECT_JUMP}

# x86_nops[3] to [9]; the longer ones carry a CS prefix.
_CANONICAL_NOPS = frozenset(
    bytes.fromhex(nop)
    for nop in ("0f1f00", "0f1f4000", "0f1f440000", "660f1f440000", "0f1f8000000000", "0f1f840000000000", "660f1f840000000000")
)


def _ranges(*pairs: tuple[int, int]) -> frozenset[int]:
    return frozenset(opcode for low, high in pairs for opcode in range(low, high + 1))


# Opcodes that are safe to single-step: those of good_insns_64 and good_2byte_insns that compilers begin functions with.
_ALU = frozenset(row | column for row in range(0, 0x40, 8) for column in range(6))
_SINGLE_STEPPED = (
    _ALU
    | _ranges((0x50, 0x5F), (0x63, 0x63), (0x68, 0x6B), (0x80, 0x81), (0x83, 0x8B), (0x8D, 0x8D), (0x98, 0x99), (0xA8, 0xA9))
    | _ranges((0xB0, 0xC3), (0xC6, 0xC7), (0xC9, 0xC9), (0xD0, 0xD3), (0xF6, 0xF7), (0xFE, 0xFF))
    | _ranges((0x0F10, 0x0F17), (0x0F1E, 0x0F1F), (0x0F28, 0x0F2F), (0x0F40, 0x0F7F), (0x0F90, 0x0F9F), (0x0FA3, 0x0FA5))
    | _ranges((0x0FAC, 0x0FAD), (0x0FAF, 0x0FAF), (0x0FB6, 0x0FB7), (0x0FBC, 0x0FBF))
)
# Opcodes without prefix or operands of a byte, by what they write of the general registers: nothing; the register in ModRM.reg;
# that in ModRM.rm, unless it is memory; the one in the opcode. Capstone, which tells it of all others, takes many times longer.
_WRITE_NONE = {0x39, 0x3B, 0x3D, 0x68, 0x6A, 0x85, 0xC2, 0xC3, 0xE9, 0xEB}
_WRITE_NONE |= _ranges((0x50, 0x57), (0x70, 0x7F), (0x0F80, 0x0F8F))
_WRITE_REG = {0x63, 0x8B, 0x8D, 0x0FAF, *range(0x03, 0x3B, 8)} | _ranges((0x0F40, 0x0F4F), (0x0FB6, 0x0FB7), (0x0FBE, 0x0FBF))
_WRITE_RM = {0x81, 0x83, 0x89, 0xC1, 0xC7, 0xD1, 0xD3, *range(0x01, 0x39, 8)}
_WRITE_OPCODE = _ranges((0x58, 0x5F), (0xB8, 0xBF))
# Instructions whose writes Capstone doesn't list in full: string instructions, with a repeat prefix or without, and a few more.
_UNLISTED = frozenset(f"{name}{size}" for name in ("lods", "stos", "movs", "scas", "cmps", "ins", "outs") for size in "bwdq")
_UNLISTED |= {"cmpxchg", "cmpxchg8b", "cmpxchg16b", "syscall", "sysenter", "int", "enter", "xbegin", "loop", "loope", "loopne"}
_PUSHES = frozenset(("push", "pushf", "pushfq"))
_POPS = frozenset(("pop", "popf", "popfq"))
_PUSHES_AND_POPS = _PUSHES | _POPS | {"leave", "enter"}
_FRAME_ALIASES = ("rbp", "r10")


@cache
def wide_names() -> dict[int, str]:
    """Capstone's register numbers to 64-bit names: eax, ax, al and ah are rax."""
    names = {}
    for wide in REGISTERS:
        narrow = wide[1:]
        if wide[1:].isdigit():
            family = [wide, f"{wide}d", f"{wide}w", f"{wide}b"]
        elif wide.endswith("x"):
            family = [wide, f"e{narrow}", narrow, f"{narrow[0]}l", f"{narrow[0]}h"]
        else:
            family = [wide, f"e{narrow}", narrow, f"{narrow}l"]
        names.update({getattr(x86, f"X86_REG_{name.upper()}"): wide for name in family})
    return names


def _signed(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


class X86Instruction:
    """One instruction, decoded by Capstone; properties that take time are computed when first used."""

    moves_return_address = False  # it stays on the stack

    def __init__(self, raw: Line) -> None:
        self.raw = raw
        self.code = code = raw.code
        self.address = raw.address
        self.end = self.address + len(code)
        start, last = 0, len(code) - 1
        while code[start] in _PREFIXES and start < last:
            start += 1
        self.prefixes = code[:start]
        self.rex = code[start] if 0x40 <= code[start] <= 0x4F and start < last else 0
        start += bool(self.rex)
        self.opcode = code[start] if code[start] != 0x0F or start == last else 0x0F00 | code[start + 1]
        start += 1 + (self.opcode > 0xFF)
        self.modrm = code[start] if start <= last else 0
        self.flow = self._flow()

    def _flow(self) -> Flow:
        if self.opcode == 0xFF:
            return _INDIRECT.get(self.modrm >> 3 & 7, Flow.NEXT)
        if self.opcode == 0xC7 and self.modrm == 0xF8:  # xbegin
            return Flow.BRANCH
        return _FLOWS.get(self.opcode, Flow.NEXT)

    @property
    def text(self) -> str:
        return f"{self.raw.mnemonic} {self.raw.op_str}".strip()

    @property
    def _name(self) -> str:
        """The mnemonic without prefixes."""
        return self.raw.mnemonic.rsplit(" ", 1)[-1]

    @cached_property
    def target(self) -> int | None:
        if self.flow not in (Flow.BRANCH, Flow.JUMP, Flow.CALL):
            return None
        return self.end + _signed(self.code[-1:] if self.opcode in _SHORT else self.code[-4:])

    @property
    def padding(self) -> bool:
        return self.opcode == 0x0F1F or (self.opcode == 0x90 and not self.rex & 1) or (self.code in (b"\x66\x90", b"\x87\xc0"))

    @property
    def landing_pad(self) -> bool:
        return self.code == b"\xf3\x0f\x1e\xfa"

    @cached_property
    def writes(self) -> frozenset[str]:
        if self.flow in CALLS:
            return _CALLER_SAVED
        if self._name in _UNLISTED:
            return _ALL
        known = None if self.prefixes else self._written_by_opcode()
        if known is not None:
            return known
        names = wide_names()
        return frozenset(names[register] for register in self.raw.written if register in names) - {"rsp"}

    def _written_by_opcode(self) -> frozenset[str] | None:
        """The registers that it writes where its opcode says so, else None."""
        opcode, operation = self.opcode, self.modrm >> 3 & 7
        if opcode in _WRITE_REG:
            return _ONE[operation | (self.rex & 4) << 1]
        if opcode in _WRITE_NONE:
            return _NONE
        if opcode in _WRITE_RM:
            if self.modrm < 0xC0 or (opcode in (0x81, 0x83) and operation == 7):  # cmp
                return _NONE if self.modrm != 0xF8 or opcode != 0xC7 else None  # xbegin
            return _ONE[self.modrm & 7 | (self.rex & 1) << 3]
        return _ONE[opcode & 7 | (self.rex & 1) << 3] if opcode in _WRITE_OPCODE else None

    @cached_property
    def copy(self) -> tuple[str, str, int] | None:
        if self.opcode not in (0x89, 0x8B) or self.modrm < 0xC0 or 0x66 in self.prefixes:
            return None
        register = REGISTERS[(self.modrm >> 3 & 7) | (self.rex & 4) << 1]
        other = REGISTERS[(self.modrm & 7) | (self.rex & 1) << 3]
        destination, source = (other, register) if self.opcode == 0x89 else (register, other)
        return destination, source, 64 if self.rex & 8 else 32

    @cached_property
    def constant(self) -> tuple[str, int] | None:
        if self.prefixes:
            return None
        ones = (1 << (64 if self.rex & 8 else 32)) - 1
        register = REGISTERS[(self.modrm & 7) | (self.rex & 1) << 3]
        source = REGISTERS[(self.modrm >> 3 & 7) | (self.rex & 4) << 1]
        if 0xB8 <= self.opcode <= 0xBF:  # mov of an immediate
            size = 8 if self.rex & 8 else 4
            number = REGISTERS[(self.opcode & 7) | (self.rex & 1) << 3]
            return number, int.from_bytes(self.code[-size:], "little")
        if self.modrm < 0xC0:
            return None
        if self.opcode == 0xC7 and self.modrm >> 3 & 7 == 0:
            return register, _signed(self.code[-4:]) & ones
        if self.opcode in (0x31, 0x33, 0x29, 0x2B) and register == source:  # xor or sub of itself
            return register, 0
        return (register, ones) if self.opcode == 0x83 and self.modrm >> 3 & 7 == 1 and self.code[-1] == 0xFF else None

    @property
    def zeroed(self) -> str:
        return self.constant[0] if self.constant and self.constant[1] == 0 else ""

    @property
    def condition(self) -> str:
        return self.raw.mnemonic if self.opcode in _JCC and not self.prefixes and not self.rex else ""

    @property
    def tests_null(self) -> str:
        """The register that it compares with NULL: by test with itself, or cmp with 0."""
        if not self.rex & 8 or self.modrm < 0xC0 or self.prefixes:
            return ""
        register = REGISTERS[(self.modrm & 7) | (self.rex & 1) << 3]
        if self.opcode == 0x85:
            return register if register == REGISTERS[(self.modrm >> 3 & 7) | (self.rex & 4) << 1] else ""
        return register if self.opcode == 0x83 and self.modrm >> 3 & 7 == 7 and self.code[-1] == 0 else ""

    @property
    def sets_flags(self) -> bool:
        """Whether it may change the flags."""
        return self._name in _UNLISTED or x86.X86_REG_EFLAGS in self.raw.written

    def frame(self, before: Frame) -> Frame:
        after = before
        if len(before) > 1 and any(register in self.writes for register in before):
            after = {register: delta for register, delta in before.items() if register not in self.writes}
        if self._name in _PUSHES_AND_POPS:
            return self._pushed(before, after)
        operands = self.raw.op_str
        if operands.startswith(("rsp", "esp", "sp")) and self.raw.mnemonic not in ("cmp", "test", "call", "jmp"):
            return self._moved(before, after)
        if operands.endswith(("rsp", "esp", ", sp")) and self.raw.mnemonic in ("xchg", "xadd"):
            return _without_stack_pointer(after)
        if operands.startswith(_FRAME_ALIASES) and self.raw.mnemonic in ("mov", "lea"):
            return self._aliased(before, after)
        return after

    def _pushed(self, before: Frame, after: Frame) -> Frame:
        """After a push, a pop or leave; the stack pointer is unknown after their rarer forms."""
        stack = before.get("rsp")
        if self._name == "leave":
            stack = before["rbp"] - 8 if "rbp" in before else None
        elif stack is None or 0x66 in self.prefixes or self._name == "enter" or self.raw.op_str == "rsp":
            stack = stack + 8 if stack is not None and self.code == b"\x54" else None
        else:
            stack += 8 if self._name in _PUSHES else -8
        return _without_stack_pointer(after) if stack is None else {**after, "rsp": stack}

    def _moved(self, before: Frame, after: Frame) -> Frame:
        """After an instruction whose destination is the stack pointer."""
        wide = self.raw.mnemonic in ("add", "sub", "mov", "lea") and self.rex & 8
        value = self._sum(before) if wide else None
        return _without_stack_pointer(after) if value is None else {**after, "rsp": value}

    def _sum(self, before: Frame) -> int | None:
        """The delta of a destination that is another register of the frame plus a constant. Capstone's operands, which take
        long to make, are only asked for where the bytes don't tell."""
        if self.raw.mnemonic in ("add", "sub"):
            if self.opcode not in (0x81, 0x83) or "rsp" not in before:  # no immediate
                return None
            constant = _signed(self.code[-1:] if self.opcode == 0x83 else self.code[-4:])
            return before["rsp"] + (constant if self.raw.mnemonic == "sub" else -constant)
        if self.raw.mnemonic == "mov":
            return before.get(self.copy[1]) if self.copy else None
        source = self.raw.operands[1].mem
        base = before.get(wide_names().get(source.base, ""))
        return None if base is None or source.index else base - int(source.disp)

    def _aliased(self, before: Frame, after: Frame) -> Frame:
        value = self._sum(before) if self.rex & 8 else None
        if value is None:
            return after
        destination = wide_names().get(self.raw.operands[0].reg, "")
        return {**after, destination: value} if destination in _FRAME_ALIASES else after

    def cost(self, emulation: Emulation) -> Cost | None:
        if _REFUSED_PREFIXES.intersection(self.prefixes):
            return None
        if self.flow in CALLS and not emulation.calls:
            return None
        if self.opcode in _DIRECT or self.opcode == 0x90:
            return self._emulated()
        if 0x50 <= self.opcode <= 0x57 and not self.prefixes and self.rex in (0, 0x41):
            return Cost.EMULATED
        if self.code in _CANONICAL_NOPS:
            if emulation.optimised_nop5 and len(self.code) == 5:
                return Cost.OPTIMISED
            return Cost.EMULATED if emulation.multibyte_nops else Cost.SINGLE_STEPPED
        transaction = self.opcode == 0xC7 and self.modrm == 0xF8
        return Cost.SINGLE_STEPPED if self.opcode in _SINGLE_STEPPED and not transaction else None

    def _emulated(self) -> Cost | None:
        # 0x90 with REX.B is xchg %r8,%rax, which the kernel would take for a nop; with 0xf3 it is pause. A jump with any prefix
        # is refused or means different things on different processors.
        if self.opcode == 0x90:
            return None if self.rex or set(self.prefixes) - {0x66} else Cost.EMULATED
        return None if self.prefixes or self.rex else Cost.EMULATED


def _without_stack_pointer(frame: Frame) -> Frame:
    return {register: delta for register, delta in frame.items() if register != "rsp"}
