# SPDX-License-Identifier: Apache-2.0
"""The targets of an indirect jump in x86-64 code: through a jump table of the function itself, or through one slot of a
structure.

Works backwards along a path, one way from the function's entry to the jump: from the jump to what defined its register, to the
load from the table, to the table's address and to the comparison that bounds the index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import capstone
from capstone import x86

from ssllatency.code.machine import CALLS, Flow, ReadBytes, ReadPointer
from ssllatency.code.x86.instructions import X86Instruction
from ssllatency.data_class import dataclass

Path = Sequence[X86Instruction]

Names = Mapping[int, str]
MAX_ENTRIES = 4096
MAX_STEPS = 200
# Branches after `cmp index, limit` that bound the index: (mnemonic, taken) -> limit + this is the highest index.
_BOUNDS = {("ja", False): 0, ("jae", False): -1, ("jbe", True): 0, ("jb", True): -1}
_STORE, _ON_STACK = 0x89, ("[rsp", "[rbp")  # mov register, memory; how a place in the frame begins
_MOVES = ("mov", "movzx", "movsxd", "movsx", "movabs")


@dataclass(frozen=True)
class _Load:
    """A load from [base + index * width]; `base` "" for an absolute or rip-relative place, whose address is `displacement`."""

    position: int
    base: str
    index: str
    displacement: int
    width: int


def _definition(path: Path, position: int, register: str) -> int | None:
    """The position of the last instruction before `position` that writes `register`."""
    for step in range(position - 1, max(-1, position - MAX_STEPS), -1):
        if register in path[step].writes:
            return step
    return None


def _jump_load(path: Path, names: Names) -> tuple[int, x86.X86Op] | None:
    """The load that defines where the last instruction goes: (its position, its memory operand)."""
    last = len(path) - 1
    operand = path[last].raw.operands[0]
    while operand.type == x86.X86_OP_REG:
        step = _definition(path, last, names.get(operand.reg, ""))
        if step is None or path[step].raw.mnemonic != "mov" or not path[step].rex & 8:
            return None
        last, operand = step, path[step].raw.operands[1]
    return (last, operand) if operand.type == x86.X86_OP_MEM else None


def tail_slot(path: Path, names: Names) -> int | None:
    """The displacement in `mov slot(%reg), %rax; jmp *%rax` or `jmp *slot(%reg)`; None for anything else."""
    load = _jump_load(path, names)
    if load is None or load[1].mem.index or load[1].mem.base not in names or names[load[1].mem.base] == "rsp":
        return None
    return int(load[1].mem.disp)


def _offset_load(path: Path, names: Names) -> tuple[_Load, str, int] | None:
    """For `movslq (base,index,4),%x; add %base,%x; jmp *%x`: the load, the register added to it and where it is added."""
    last = len(path) - 1
    operand = path[last].raw.operands[0]
    if operand.type != x86.X86_OP_REG:
        return None
    target = names.get(operand.reg, "")
    step = _definition(path, last, target)
    if step is None or path[step].raw.mnemonic != "add" or path[step].raw.operands[1].type != x86.X86_OP_REG:
        return None
    other = names.get(path[step].raw.operands[1].reg, "")
    for loaded, base in ((target, other), (other, target)):
        definition = _definition(path, step, loaded)
        if definition is not None and path[definition].raw.mnemonic == "movsxd":
            load = _indexed(definition, path[definition].raw.operands[1], names, 4)
            return (load, base, step) if load else None
    return None


def _indexed(position: int, operand: x86.X86Op, names: Names, width: int) -> _Load | None:
    memory = operand.mem
    if operand.type != x86.X86_OP_MEM or memory.index not in names or memory.scale != width:
        return None
    base = names.get(memory.base, "")
    return None if memory.base and not base else _Load(position, base, names[memory.index], memory.disp, width)


def looks_like_table(path: Path, names: Names) -> bool:
    """Whether the jump is marked notrack, or computed from an indexed load, as only jump tables are."""
    if 0x3E in path[-1].prefixes or _offset_load(path, names):
        return True
    load = _jump_load(path, names)
    return load is not None and bool(load[1].mem.index)


def _address(path: Path, position: int, register: str) -> int | None:
    """The constant address that `register` holds before `position`."""
    step = _definition(path, position, register)
    while step is not None and (copied := path[step].copy) and copied[2] == 64:
        step = _definition(path, step, copied[1])
    if step is None or len(path[step].raw.operands) < 2:
        return None
    operand = path[step].raw.operands[1]
    if path[step].raw.mnemonic == "lea" and operand.mem.base == x86.X86_REG_RIP and not operand.mem.index:
        return int(path[step].end + operand.mem.disp)
    if path[step].raw.mnemonic in ("mov", "movabs") and operand.type == x86.X86_OP_IMM:
        return int(operand.imm)
    return None


def _changes(instruction: X86Instruction, place: str) -> bool:
    """Whether the instruction may change what is in a register, or in a memory operand."""
    if not place.startswith("["):
        return place in instruction.writes
    stores = any(
        operand.type == x86.X86_OP_MEM and operand.access & capstone.CS_AC_WRITE for operand in instruction.raw.operands
    )
    moves = "rsp" in place and instruction.frame({"rsp": 0}).get("rsp") != 0
    return stores or moves or instruction.flow in CALLS or any(register in place for register in instruction.writes)


class _IndexSearch:
    """Looks backwards for the comparison that bounds the index of a jump table.

    `place` is where the index comes from at the point reached: a register's name, or the memory operand that it was loaded
    from; "" once that is lost. `highest` is the highest value that it can have, once known.
    """

    def __init__(self, register: str, names: Names) -> None:
        self.place = register
        self.highest: int | None = None
        self._names = names
        self._bounded: dict[str, int] = {}  # places to their highest values, by the comparisons passed
        self._limit: int | None = None  # what the branch passed last says of a comparison right before it

    def step_over(self, instruction: X86Instruction, *, taken: bool) -> None:
        if instruction.flow is Flow.BRANCH:
            self._limit = _BOUNDS.get((instruction.raw.mnemonic, taken))
        elif instruction.raw.mnemonic == "cmp":
            self._compared(instruction)
        elif x86.X86_REG_EFLAGS in instruction.raw.written:
            self._limit = None
        if self.place in instruction.writes:
            self._defined(instruction)
        elif kept := self._kept(instruction):
            self.place = kept
        elif _changes(instruction, self.place):
            self.place = ""
        self._bounded = {place: highest for place, highest in self._bounded.items() if not _changes(instruction, place)}
        self.highest = self._bounded.get(self.place) if self.highest is None else self.highest

    def _compared(self, instruction: X86Instruction) -> None:
        left, right = instruction.raw.operands
        place = self._source(left, instruction)
        if self._limit is not None and place and right.type == x86.X86_OP_IMM and right.imm >= 0:
            self._bounded.setdefault(place, int(right.imm) + self._limit)
        self._limit = None

    def _defined(self, instruction: X86Instruction) -> None:
        source = instruction.raw.operands[1] if len(instruction.raw.operands) == 2 else None
        if source and instruction.raw.mnemonic == "and" and source.type == x86.X86_OP_IMM and source.imm >= 0:
            self.highest = int(source.imm)
        self.place = self._source(source, instruction) if source and instruction.raw.mnemonic in _MOVES else ""

    def _kept(self, instruction: X86Instruction) -> str:
        """The whole register that the instruction stores where the index comes from, on the stack; "" for any other."""
        if instruction.opcode != _STORE or not instruction.rex & 8 or not self.place.startswith(_ON_STACK):
            return ""
        place, register = instruction.raw.operands
        return self._names.get(register.reg, "") if self._source(place, instruction) == self.place else ""

    def _source(self, operand: x86.X86Op, instruction: X86Instruction) -> str:
        if operand.type == x86.X86_OP_REG:
            return self._names.get(operand.reg, "")
        text = instruction.raw.op_str
        return text[text.index("[") : text.index("]") + 1] if operand.type == x86.X86_OP_MEM else ""


def _highest_index(path: Path, position: int, register: str, names: Names) -> int | None:
    """The highest value that `register` can have before `position`, by the branch that it passed on the path."""
    search = _IndexSearch(register, names)
    for step in range(position - 1, max(-1, position - MAX_STEPS), -1):
        search.step_over(path[step], taken=path[step + 1].address == path[step].target)
        if search.highest is not None or not search.place:
            break
    return search.highest


def table_targets(path: Path, names: Names, read: ReadBytes, pointer: ReadPointer) -> Sequence[int] | None:
    """The targets of the jump table that the last instruction jumps through; None where its place or size isn't certain."""
    load_and_sum = _offset_load(path, names)
    if load_and_sum is None:
        return _absolute_targets(path, names, pointer)
    load, added, step = load_and_sum
    base = _address(path, step, added)
    table = _address(path, load.position, load.base) if load.base else 0
    highest = _highest_index(path, load.position, load.index, names)
    if base is None or table is None or highest is None or not 0 <= highest < MAX_ENTRIES:
        return None
    data = read(table + load.displacement, 4 * (highest + 1))
    if len(data) != 4 * (highest + 1):
        return None
    return [base + int.from_bytes(data[at : at + 4], "little", signed=True) for at in range(0, len(data), 4)]


def _table_load(path: Path, names: Names) -> tuple[_Load, int] | None:
    """For `jmp *table(,%index,8)`, or such a load before the jump: the load, and the table's address."""
    jump_load = _jump_load(path, names)
    load = _indexed(*jump_load, names, 8) if jump_load else None
    if load is None:
        return None
    base = _address(path, load.position, load.base) if load.base else 0
    return None if base is None else (load, base + load.displacement)


def table_base(path: Path, names: Names) -> int | None:
    """The address of the table of addresses through which the last instruction jumps; None if there is none."""
    load = _table_load(path, names)
    return load[1] if load else None


def _absolute_targets(path: Path, names: Names, pointer: ReadPointer) -> Sequence[int] | None:
    """The targets of `jmp *table(,%index,8)`, whose entries are addresses."""
    load_and_table = _table_load(path, names)
    if load_and_table is None:
        return None
    load, table = load_and_table
    highest = _highest_index(path, load.position, load.index, names)
    if highest is None or not 0 <= highest < MAX_ENTRIES:
        return None
    targets = [pointer(table + 8 * index) for index in range(highest + 1)]
    return None if None in targets else [target for target in targets if target is not None]
