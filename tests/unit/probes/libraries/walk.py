# SPDX-License-Identifier: Apache-2.0
"""An independent walk over x86-64 code with the sites of a plan set, for tests.

It shares nothing with the planner: it reads the file and its unwind table with pyelftools, decodes one instruction at a time
from the function's start, follows every jump, and counts on every path the entry and exit sites crossed. Only where the
function has a jump table is it told where that leads. Paths that differ in what they crossed are walked apart, so a site in a
loop is crossed twice.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import capstone
from capstone import x86
from elftools.common.exceptions import DWARFError
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from ssllatency.probes.plan import Leaving, Probe, Role

_NEVER_RETURN = frozenset(
    (
        *("__stack_chk_fail", "__fortify_fail", "__chk_fail", "__assert_fail", "__assert", "OPENSSL_die", "abort"),
        *("exit", "_exit", "_Exit", "quick_exit", "longjmp", "siglongjmp", "_longjmp", "__longjmp_chk"),
        *("__cxa_throw", "__cxa_rethrow", "_Unwind_Resume"),
    )
)
_STOPS = frozenset((x86.X86_INS_UD0, x86.X86_INS_UD1, x86.X86_INS_UD2, x86.X86_INS_HLT, x86.X86_INS_INT1, x86.X86_INS_INT3))
_CALLER_SAVED = frozenset(("rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11"))
_STRINGS = re.compile(r"(rep\w* )?(lods|stos|movs|scas|cmps)[bwdq]$")
_MOST_STATES = 400_000

# The targets of the jump table behind the indirect jump at an address.
Tables = Callable[[int], Sequence[int]]


class Objection(Exception):
    """What is wrong with a plan, in words."""


def wide(register: str) -> str:
    """The 64-bit name of a general register: "rax" for eax, ax, al and ah."""
    if numbered := re.fullmatch(r"(r\d+)[dwb]?", register):
        return numbered[1]
    stem = register[1:] if len(register) == 3 and register[0] in "re" else register
    if stem[-1] in "lh":
        stem = stem[:-1] + ("x" if len(stem) == 2 and stem[0] in "abcd" else "")
    return f"r{stem}"


@dataclass(frozen=True)
class Crossed:
    """What a path has crossed; the registers that hold the return value since the exit site, and that value where the site
    says what it is; those that hold the buffer's address, whose being NULL makes a call one that isn't counted, and whether
    that was just compared with NULL."""

    entries: int = 0
    exits: int = 0
    held: frozenset[str] = frozenset()
    constant: int | None = None
    buffers: frozenset[str] = frozenset()
    compared: bool = False


@dataclass(frozen=True)
class Sites:
    """A plan to be checked. `arguments` must be unchanged when the entry site is reached; `wide_value`: of the return value all
    64 bits count. `buffer` is the register whose being NULL at the entry makes a call one that isn't counted, "" for none."""

    probes: tuple[Probe, ...]
    arguments: frozenset[str] = frozenset()
    wide_value: bool = False
    buffer: str = ""

    @property
    def without_exits(self) -> bool:
        return any(probe.role is Role.RETURN for probe in self.probes)

    @cached_property
    def by_address(self) -> dict[int, Probe]:
        if len({probe.address for probe in self.probes}) != len(self.probes):
            raise Objection("two sites are at one address")
        return {probe.address: probe for probe in self.probes}


def _copied(each: capstone.CsInsn, size: int) -> tuple[str, str] | None:
    """(destination, source) of a copy between registers of at least `size` bytes."""
    operands = each.operands
    if each.id != x86.X86_INS_MOV or any(one.type != x86.X86_OP_REG for one in operands) or operands[0].size < size:
        return None
    destination, source = (each.reg_name(one.reg) for one in operands)
    return wide(destination), wide(source)


def _compared(each: capstone.CsInsn) -> str:
    """The 64-bit register that the instruction compares with zero, "" if it does no such thing."""
    if each.id not in (x86.X86_INS_TEST, x86.X86_INS_CMP) or each.operands[0].type != x86.X86_OP_REG:
        return ""
    one, other = each.operands
    itself = each.id == x86.X86_INS_TEST and other.type == x86.X86_OP_REG and other.reg == one.reg
    zero = each.id == x86.X86_INS_CMP and other.type == x86.X86_OP_IMM and other.imm == 0
    return str(each.reg_name(one.reg)) if one.size == 8 and (itself or zero) else ""


class Program:
    """The code of one file, as the walk needs it."""

    def __init__(self, path: str | Path) -> None:
        with Path(path).open("rb") as file:
            elf = ELFFile(file)
            self._segments = [(each["p_vaddr"], each.data()) for each in elf.iter_segments("PT_LOAD") if each["p_flags"] & 1]
            text, dynamic = elf.get_section_by_name(".text"), elf.get_section_by_name(".dynsym")
            assert text is not None
            assert isinstance(dynamic, SymbolTableSection)
            self._text = range(text["sh_addr"], text["sh_addr"] + text["sh_size"])
            symbols = list(dynamic.iter_symbols())
            self._slots = {
                relocation["r_offset"]: symbols[relocation["r_info_sym"]].name
                for section in elf.iter_sections()
                if isinstance(section, RelocationSection)
                for relocation in section.iter_relocations()
            }
            unwind = (each for each in elf.get_dwarf_info().EH_CFI_entries() if isinstance(each, FDE))
            self._unwind = sorted(unwind, key=lambda each: int(each["initial_location"]))
        self.addresses = {each.name: int(each["st_value"]) for each in symbols if each["st_value"]}
        self._ending = {self.addresses[name] for name in _NEVER_RETURN if name in self.addresses}
        self._starts = [int(each["initial_location"]) for each in self._unwind]
        self._decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        self._decoder.detail = True
        self._decoded: dict[int, capstone.CsInsn] = {}
        self._written: dict[int, frozenset[str]] = {}
        self._ends = [start + int(each["address_range"]) for start, each in zip(self._starts, self._unwind, strict=True)]

    def functions(self) -> list[int]:
        """The starts of the functions in .text that the unwind table knows; not of parts that are entered with a frame made."""
        return [start for start in self._starts if start in self._text and not self.depth(start)]

    def at(self, address: int) -> capstone.CsInsn:
        """The instruction at an address, wherever it may lie."""
        if address not in self._decoded:
            start, data = next(((s, d) for s, d in self._segments if s <= address < s + len(d)), (0, b""))
            found = list(self._decoder.disasm(data[address - start : address - start + 16], address, 1)) if data else []
            if not found:
                raise Objection(f"there is no instruction at {address:#x}")
            self._decoded[address] = found[0]
        return self._decoded[address]

    def writes(self, each: capstone.CsInsn) -> frozenset[str]:
        """The registers that an instruction may change, for a call those that the function called may change."""
        if each.address not in self._written:
            written = frozenset(wide(each.reg_name(register)) for register in each.regs_access()[1])
            written |= _CALLER_SAVED if each.id == x86.X86_INS_CALL else frozenset()
            written |= {"rsi", "rdi", "rcx", "rax"} if _STRINGS.match(each.mnemonic) else frozenset()
            self._written[each.address] = written
        return self._written[each.address]

    def lines(self, start: int, end: int) -> Iterator[capstone.CsInsn]:
        """The instructions in [start, end), one after the other."""
        while start < end:
            yield self.at(start)
            start += self.at(start).size

    def end(self, address: int) -> int:
        """The end of the function that holds an address, 0 if none does."""
        which = bisect_right(self._starts, address) - 1
        return self._ends[which] if self._starts[which] <= address < self._ends[which] else 0

    def depth(self, address: int) -> int | None:
        """The stack pointer at the function's entry minus that before the instruction, as the compiler says; None where it says
        that by another register."""
        try:
            rows = self._unwind[bisect_right(self._starts, address) - 1].get_decoded().table
        except (ValueError, DWARFError):  # an opcode that pyelftools doesn't know
            return None
        rule = rows[bisect_right([row["pc"] for row in rows], address) - 1]["cfa"] if rows else None
        return rule.offset - 8 if rule is not None and rule.expr is None and rule.reg == 7 else None

    def never_returns(self, address: int) -> bool:
        return address in self._ending or self.stub(address) in _NEVER_RETURN

    def stub(self, address: int) -> str:
        """The name of the function that the PLT stub at an address jumps to, "" if it isn't one."""
        each = self.at(address)
        if each.id == x86.X86_INS_ENDBR64:
            each = self.at(each.address + each.size)
        return self.slot(each) if each.id == x86.X86_INS_JMP else ""

    def slot(self, jump: capstone.CsInsn) -> str:
        """The name of the function whose address is in the slot that a jump goes through."""
        operand = jump.operands[0]
        if operand.type != x86.X86_OP_MEM or operand.mem.base != x86.X86_REG_RIP:
            return ""
        return str(self._slots.get(jump.address + jump.size + operand.mem.disp, ""))


class Walk:
    """One walk: from the start of a function over all its paths, with the sites of a plan set."""

    def __init__(self, program: Program, sites: Sites, tables: Tables) -> None:
        self._program, self._sites, self._tables = program, sites, tables
        self.seen: set[int] = set()

    def objection(self, start: int) -> str:
        """What is wrong with the plan, "" if nothing is."""
        try:
            self._run(start)
            reached = self.seen | self._seen_by_all_calls(start) if self._sites.buffer else self.seen
            astray = [site for site in self._sites.by_address if site not in reached]
            if astray:
                raise Objection(f"no path comes to an instruction at the site {astray[0]:#x}")
        except Objection as objection:
            return str(objection)
        return ""

    def _seen_by_all_calls(self, start: int) -> set[int]:
        """Where those come to as well that aren't counted: the planner may not see that only they take a way."""
        entry = replace(self._sites.probes[0], role=Role.RETURN)
        every = Walk(self._program, replace(self._sites, probes=(entry,), buffer=""), self._tables)
        every.objection(start)
        return every.seen

    def _run(self, start: int) -> None:
        work = [(start, Crossed(buffers=frozenset(filter(None, (self._sites.buffer,)))))]
        done = set()
        while work:
            state = work.pop()
            if state in done:
                continue
            done.add(state)
            if len(done) > _MOST_STATES:
                raise Objection("there are too many paths")
            address, crossed = state
            self.seen.add(address)
            each = self._program.at(address)
            crossed = self._cross(each, crossed)
            for target in self._next(each, crossed):
                if not self._is_size_query(each, crossed, target):
                    work.append((target, self._after(each, self._leaves(each, crossed, target))))

    def _is_size_query(self, each: capstone.CsInsn, crossed: Crossed, target: int) -> bool:
        """Whether only calls that aren't counted go on to the target: the branch found the buffer's address to be NULL."""
        falls = target == each.address + each.size
        return crossed.compared and ((each.id == x86.X86_INS_JE and not falls) or (each.id == x86.X86_INS_JNE and falls))

    def _cross(self, each: capstone.CsInsn, crossed: Crossed) -> Crossed:
        """At an exit site of which it doesn't matter where control goes, left."""
        site = self._sites.by_address.get(each.address)
        if site is None:
            return crossed
        if site.role is not Role.EXIT:
            if crossed.entries:
                raise Objection(f"the entry site {each.address:#x} is crossed twice")
            return replace(crossed, entries=1)
        if not crossed.entries or crossed.exits:
            raise Objection(f"the exit site {each.address:#x} is crossed {'twice' if crossed.exits else 'before the entry'}")
        if site.condition and site.condition != each.mnemonic:
            raise Objection(f"the exit site {each.address:#x} is no {site.condition}")
        if not site.condition and (site.leaving is not Leaving.BOTH or site.taken_value != site.other_value):
            raise Objection(f"the exit site {each.address:#x} has no condition")
        return crossed if site.condition else self._left(crossed, site.return_register, site.taken_value)

    def _leaves(self, each: capstone.CsInsn, crossed: Crossed, target: int) -> Crossed:
        """At an exit site that is a branch, left if control goes to the target and that is a way out."""
        site = self._sites.by_address.get(each.address)
        if site is None or not site.condition:
            return crossed
        direction = Leaving.OTHER if target == each.address + each.size else Leaving.TAKEN
        if site.leaving not in (Leaving.BOTH, direction):
            return crossed
        value = site.taken_value if direction is Leaving.TAKEN else site.other_value
        return self._left(crossed, site.return_register, value)

    def _left(self, crossed: Crossed, register: str, value: int | None) -> Crossed:
        held = frozenset((register,)) if value is None else frozenset()
        return replace(crossed, exits=1, held=held, constant=value)

    def _after(self, each: capstone.CsInsn, crossed: Crossed) -> Crossed:
        """With the registers as they are after the instruction."""
        writes = self._program.writes(each)
        if not crossed.entries and self._sites.arguments & writes:
            raise Objection(f"an argument is overwritten before the entry site, at {each.address:#x}")
        crossed = self._after_for_buffer(each, crossed, writes)
        if not crossed.exits:
            return crossed
        held = crossed.held - writes
        copied = _copied(each, 8 if self._sites.wide_value else 4)
        if copied and copied[1] in crossed.held:
            held |= {copied[0]}
        if crossed.constant is not None and self._sets(each, crossed.constant):
            held |= {wide(each.reg_name(each.operands[0].reg))}
        return replace(crossed, held=held)

    def _after_for_buffer(self, each: capstone.CsInsn, crossed: Crossed, writes: frozenset[str]) -> Crossed:
        if not crossed.buffers and not crossed.compared:
            return crossed
        buffers = crossed.buffers - writes
        copied = _copied(each, 8)
        if copied and copied[1] in crossed.buffers:
            buffers |= {copied[0]}
        flags = (
            x86.X86_REG_EFLAGS in each.regs_access()[1] or each.id == x86.X86_INS_CALL or bool(_STRINGS.match(each.mnemonic))
        )
        compared = _compared(each) in crossed.buffers if flags else crossed.compared
        return replace(crossed, buffers=buffers, compared=compared)

    def _sets(self, each: capstone.CsInsn, constant: int) -> bool:
        """Whether the instruction sets a register to the constant, in as many bits as count."""
        operands = each.operands
        if len(operands) != 2 or operands[0].type != x86.X86_OP_REG or operands[0].size < 4:
            return False
        bits = 64 if self._sites.wide_value else 32
        ones = (1 << 8 * operands[0].size) - 1
        if each.id in (x86.X86_INS_XOR, x86.X86_INS_SUB) and operands[1].type == x86.X86_OP_REG:
            value = 0 if operands[0].reg == operands[1].reg else None
        elif each.id in (x86.X86_INS_MOV, x86.X86_INS_MOVABS) and operands[1].type == x86.X86_OP_IMM:
            value = operands[1].imm & ones
        else:
            value = ones if each.id == x86.X86_INS_OR and operands[1].type == x86.X86_OP_IMM and operands[1].imm == -1 else None
        return value is not None and (value - constant) % (1 << bits) == 0

    def _next(self, each: capstone.CsInsn, crossed: Crossed) -> Iterator[int]:
        """Where control goes after the instruction."""
        if each.group(x86.X86_GRP_RET):
            self._leave(each, crossed, "rax" in crossed.held)
        elif each.id in _STOPS:
            return
        elif each.id == x86.X86_INS_CALL:
            yield from self._call(each, crossed)
        elif each.id == x86.X86_INS_JMP:
            yield from self._jump(each, crossed)
        else:
            if each.group(x86.X86_GRP_JUMP):
                yield from self._land(each, int(each.operands[0].imm), crossed)
            yield from self._fall(each, crossed)

    def _leave(self, each: capstone.CsInsn, crossed: Crossed, with_value: bool) -> None:
        where = f"the way out at {each.address:#x}"
        if not crossed.entries:
            raise Objection(f"{where} is reached past no entry site")
        if self._sites.without_exits:
            return
        if not crossed.exits:
            raise Objection(f"{where} is reached past no exit site")
        if not with_value:
            raise Objection(f"{where} has another return value than the exit site")

    def _call(self, each: capstone.CsInsn, crossed: Crossed) -> Iterator[int]:
        operand = each.operands[0]
        if operand.type == x86.X86_OP_IMM and self._program.never_returns(operand.imm):
            return
        following = self._program.lines(each.address + each.size, self._program.end(each.address))
        if all(after.id == x86.X86_INS_NOP for after in following):
            return  # there is nothing to come back to
        if crossed.exits:
            raise Objection(f"a call follows the exit site, at {each.address:#x}")
        yield from self._fall(each, crossed)

    def _fall(self, each: capstone.CsInsn, crossed: Crossed) -> Iterator[int]:
        if each.address + each.size < self._program.end(each.address):
            yield int(each.address + each.size)
        else:
            self._leave(each, crossed, False)

    def _jump(self, each: capstone.CsInsn, crossed: Crossed) -> Iterator[int]:
        operand = each.operands[0]
        if operand.type == x86.X86_OP_IMM:
            yield from self._land(each, int(operand.imm), crossed)
        elif name := self._program.slot(each):
            yield from self._named(each, name, crossed)
        elif targets := self._tables(each.address):
            yield from targets
        else:
            self._leave(each, crossed, False)

    def _land(self, each: capstone.CsInsn, target: int, crossed: Crossed) -> Iterator[int]:
        name = self._program.stub(target)
        if name:
            yield from self._named(each, name, crossed)
        else:
            yield target

    def _named(self, each: capstone.CsInsn, name: str, crossed: Crossed) -> Iterator[int]:
        """Through the PLT, into this file or another."""
        if name in _NEVER_RETURN:
            return
        if name in self._program.addresses:
            yield self._program.addresses[name]
        else:
            self._leave(each, crossed, False)
