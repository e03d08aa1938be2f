# SPDX-License-Identifier: Apache-2.0
"""Calls through a pointer that lies in a structure: `connection->callback(…)`, or `connection->structure->callback(…)`.

Where the offsets of the pointers are known, the code shows the calls: the called register is loaded from the last offset, past
a base that is loaded from the one before it, on every way to the call. Meanwhile it may have been in other registers and on the
stack.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol, cast

from ssllatency.code.bodies import Bodies
from ssllatency.code.flow import Code, Graph, Unplannable
from ssllatency.code.machine import Flow, Instruction, Machine
from ssllatency.data_class import dataclass
from ssllatency.elf.image import Image, Range

if TYPE_CHECKING:
    from ssllatency.code.aarch64.instructions import Aarch64Instruction
    from ssllatency.code.x86.instructions import X86Instruction

_NEAR = 128  # bytes of code past a load in which the call is looked for
_MAX_CANDIDATES = 4096
_LONGEST = 16


@dataclass(frozen=True)
class Load:
    """64 bits loaded by the instruction at `address` into `register`, "" for a call that goes there itself."""

    address: int
    register: str
    base: str
    offset: int


@dataclass(frozen=True)
class _Store:
    """`size` bytes that are stored; of the whole of `register`, "" for what isn't one."""

    register: str
    base: str
    offset: int
    size: int


class CodePart(Protocol):
    """A part of an image's code."""

    @property
    def within(self) -> Range | None:
        """The range that it lies in; None: anywhere."""

    def holds(self, start: int) -> bool:
        """Whether the function that begins at `start` is in it."""


def calls_through(image: Image, machine: Machine, bodies: Bodies, path: tuple[int, int], part: CodePart) -> list[int]:
    """The addresses of the calls through the second offset of `path`, in the structure that the pointer at the first leads to.

    A function of `part` that has one such call may have others through the same field of another structure of the kind: they
    count as well.
    """
    starts = functions_loading(image, machine, bodies, path[1], part, lambda start: _may_load(image, start, path[0]))
    return calls_in(bodies, sorted(starts), path)


def calls_through_field(image: Image, machine: Machine, bodies: Bodies, offset: int, part: CodePart) -> list[int]:
    """The addresses of the calls through the pointer at `offset` of any structure. An offset that many structures have says
    little: it should be large."""
    starts = sorted(functions_loading(image, machine, bodies, offset, part))
    return [call for start in starts for call in _calls_by_field(bodies, start, (offset,))]


def _calls_by_field(bodies: Bodies, start: int, fields: Collection[int]) -> dict[int, list[Load]]:
    """The calls through these fields in the function that begins at `start`, each with its loads."""
    try:
        graph = bodies.graph(start)
    except Unplannable:
        return {}
    calls = sorted(graph.nodes.items())
    return {call: loads for call, instruction in calls if (loads := _through(graph, instruction, fields))}


def calls_in(bodies: Bodies, starts: Iterable[int], path: tuple[int, ...]) -> list[int]:
    """The calls through these fields in the functions that begin at `starts`, each through any offset after the first."""
    pointer, fields = path[0], path[1:]
    sites: list[int] = []
    for start in starts:
        calls = _calls_by_field(bodies, start, fields)
        if any(_leads(bodies.graph(start), load, pointer) for loads in calls.values() for load in loads):
            sites += calls
    return sites


def functions_loading(
    image: Image,
    machine: Machine,
    bodies: Bodies,
    offset: int,
    part: CodePart,
    may_be: Callable[[int], bool] | None = None,
) -> set[int]:
    """Functions in which there may be a load from `offset`; with `may_be` those of them that it takes, in which a call of the
    loaded pointer soon follows."""
    scan = _x86_loads if image.machine == "x86-64" else _aarch64_loads
    code = Code(image, machine)
    starts: set[int] = set()
    for place, _ in zip(scan(image, offset, part.within), range(_MAX_CANDIDATES), strict=False):
        start = bodies.function(place)
        if start is None or start in starts or not part.holds(start):
            continue
        if may_be is None or (may_be(start) and _called_soon(machine.decode(code.read(place, _NEAR), place), offset)):
            starts.add(start)
    return starts


def _may_load(image: Image, start: int, pointer: int) -> bool:
    """Whether the function that begins at `start` has the bytes of a load from the offset `pointer`, which saves decoding."""
    bounds = image.function_bounds(start)
    if bounds is None or image.machine != "x86-64" or pointer < 0x80:
        return True
    return struct.pack("<i", pointer) in image.code(start, bounds[1] - start)


def _x86_loads(image: Image, field: int, within: Range | None) -> Iterator[int]:
    """mov field(base), register and call *field(base). The field's bytes are searched for first, as they are rarer than what
    stands before them."""
    short = field < 0x80
    number = re.escape(struct.pack("<B" if short else "<i", field))
    mod, call = (rb"[\x40-\x7f]", rb"[\x50-\x57]") if short else (rb"[\x80-\xbf]", rb"[\x90-\x97]")
    moving, calling = rb"[\x48-\x4f]\x8b" + mod, rb"\xff" + call
    before = ((moving, 3), (moving + rb"\x24", 4), (calling, 2), (calling + rb"\x24", 3))  # with a SIB byte, and how long
    behind = b"|".join(rb"(?<=" + opcode + number + rb")()" for opcode, _ in before)
    pattern = re.compile(number + rb"(?:" + behind + rb")", re.DOTALL)
    for start, code in image.code_pieces(_LONGEST, within):
        for match in pattern.finditer(code):
            yield start + match.start() - before[(match.lastindex or 0) - 1][1]


def _aarch64_loads(image: Image, field: int, within: Range | None) -> Iterator[int]:
    """ldr and ldp of 64 bits from [base, field], or from a pair that begins before."""
    single = 0xF9400000 | (field >> 3 & 0xFFF) << 10
    pairs = {0xA9400000 | (place >> 3 & 0x7F) << 15 for place in (field, field - 8) if 0 <= place < 512}
    for start, code in image.code_pieces(_LONGEST, within):
        for number, (word,) in enumerate(struct.iter_unpack("<I", code[: len(code) & ~3])):
            if word & 0xFFFFFC00 == single or word & 0xFFFF8000 in pairs:
                yield start + 4 * number


def _called_soon(path: Iterable[Instruction], field: int) -> bool:
    """Whether the first instruction, or one that follows, calls what the first one loads."""
    instructions = iter(path)
    first = next(instructions, None)
    registers = {load.register for load in loads(first) if load.offset == field} if first else set()
    kept: set[tuple[str, int]] = set()  # where in memory it is as well, by register and offset
    if "" in registers:
        return True
    if not registers:
        return False
    for instruction in instructions:
        again = {load.register for load in loads(instruction) if (load.base, load.offset) in kept} if kept else set()
        if "" in again or (instruction.flow is Flow.INDIRECT_CALL and callee(instruction) in registers):
            return True
        kept |= {(store.base, store.offset) for store in _stores(instruction) if store.register in registers}
        if instruction.copy and instruction.copy[1] in registers:
            registers.add(instruction.copy[0])
        else:
            registers -= instruction.writes
        registers |= again
    return False


def _through(graph: Graph, call: Instruction, fields: Collection[int]) -> list[Load]:
    """The loads that tell where an indirect call goes; none if there is a way to it that has another."""
    if call.flow is not Flow.INDIRECT_CALL:
        return []
    found = called_loads(graph, call)
    return found if all(load.offset in fields for load in found) else []


def called_loads(graph: Graph, call: Instruction) -> list[Load]:
    """The loads that what an indirect call goes to may come from: the call's own, unless that is of a pointer that was kept on
    the stack."""
    own = next(iter(loads(call)), None)
    if own is None:
        return origins(graph, call.address, callee(call))
    place = _on_stack(graph, call.address, own.base, own.offset)
    return [own] if place is None else origins(graph, call.address, place)


def _leads(graph: Graph, load: Load, pointer: int) -> bool:
    """Whether the base of `load` was itself loaded from the offset `pointer`."""
    bases = origins(graph, load.address, load.base)
    return bool(bases) and all(base.offset == pointer for base in bases)


# Where a value is: in the register of that name, or on the stack, as far from the stack pointer at the function's entry.
_Location = str | int


def origins(graph: Graph, address: int, location: _Location) -> list[Load]:
    """The loads that what is at `location` (in the register of that name, or so far from the stack pointer at the function's
    entry) before the instruction at `address` may come from; none if it may have been made elsewhere."""
    found = []
    start: tuple[int, _Location] = address, location
    seen, work = {start}, [start]
    while work:
        at, place = work.pop()
        if at == graph.entry:
            return []
        for before in graph.predecessors[at]:
            origin = _before(graph, graph.nodes[before], place)
            if origin is None:
                return []
            if isinstance(origin, Load):
                found.append(origin)
            elif (before, origin) not in seen:
                seen.add((before, origin))
                work.append((before, origin))
    return found


def _before(graph: Graph, instruction: Instruction, location: _Location) -> _Location | Load | None:
    """The place before the instruction of the value that is at `location` after it, or what loaded it; None if it may have been
    made there."""
    if isinstance(location, int):
        return _before_on_stack(graph, instruction, location)
    for load in loads(instruction):
        if load.register == location:
            place = _on_stack(graph, instruction.address, load.base, load.offset)
            return load if place is None else place
    if instruction.copy is not None and _copies(instruction, location):
        return instruction.copy[1]
    return None if location in instruction.writes else location


def _before_on_stack(graph: Graph, instruction: Instruction, location: int) -> _Location | None:
    for store in _stores(instruction):
        place = _on_stack(graph, instruction.address, store.base, store.offset)
        if place == location and store.size == 8 and store.register:
            return store.register
        if place is not None and place < location + 8 and location < place + store.size:
            return None
    return location


def _on_stack(graph: Graph, address: int, base: str, offset: int) -> int | None:
    """The place on the stack of `base` plus `offset`; None if the base isn't known to point there."""
    delta = graph.frames.get(address, {}).get(base)
    return None if delta is None else offset - delta


def _copies(instruction: Instruction, name: str) -> bool:
    return instruction.copy is not None and instruction.copy[0] == name and instruction.copy[2] == 64


# What the two machines call, load and store.


def callee(call: Instruction) -> str:
    """The register that an indirect call goes to, "" if it goes to what memory holds."""
    if hasattr(call, "word"):
        return f"x{cast('Aarch64Instruction', call).word >> 5 & 31}"
    x86_call = cast("X86Instruction", call)
    operand = x86_call.raw.operands[0]
    return _x86_name(operand.reg) if operand.type == _REGISTER else ""


def loads(instruction: Instruction) -> tuple[Load, ...]:
    """The loads of an instruction, 64 bits each, from memory past a register; and where an indirect call through memory
    goes."""
    if hasattr(instruction, "word"):
        return tuple(_aarch64_loaded(cast("Aarch64Instruction", instruction)))
    x86_instruction = cast("X86Instruction", instruction)
    calls = x86_instruction.flow is Flow.INDIRECT_CALL
    if not calls and (x86_instruction.opcode != 0x8B or not x86_instruction.rex & 8):
        return ()
    operand = x86_instruction.raw.operands[0 if calls else 1]
    base = _x86_name(operand.mem.base) if operand.type == _MEMORY else ""
    if not base or operand.mem.index or operand.mem.segment:
        return ()
    return (
        Load(x86_instruction.address, "" if calls else _x86_name(x86_instruction.raw.operands[0].reg), base, operand.mem.disp),
    )


def _stores(instruction: Instruction) -> tuple[_Store, ...]:
    """The stores that an instruction may make in memory past a register; too much rather than too little."""
    if hasattr(instruction, "word"):
        return tuple(_aarch64_stored(cast("Aarch64Instruction", instruction)))
    x86_instruction = cast("X86Instruction", instruction)
    if "[" not in x86_instruction.raw.op_str.partition(",")[0]:  # most don't, and their operands take long to make
        return ()
    operands = x86_instruction.raw.operands
    if operands[0].type != _MEMORY:
        return ()
    memory, whole = operands[0].mem, x86_instruction.opcode == 0x89 and x86_instruction.rex & 8
    register = _x86_name(operands[1].reg) if whole else ""
    return (_Store(register, _x86_name(memory.base), memory.disp, operands[0].size),)


_REGISTER, _MEMORY = 1, 3  # capstone.CS_OP_REG, CS_OP_MEM


def _x86_name(number: int) -> str:
    from ssllatency.code.x86.instructions import wide_names

    return wide_names().get(number, "")


def _aarch64_loaded(instruction: Aarch64Instruction) -> Iterator[Load]:
    memory = instruction.memory
    if memory is None or memory.offset is None or memory.size != 8 or memory.moves_base:
        return
    for position, number in enumerate(memory.loaded):
        base = "sp" if memory.base == 31 else f"x{memory.base}"
        yield Load(instruction.address, f"x{number}", base, memory.offset + 8 * position)


def _aarch64_stored(instruction: Aarch64Instruction) -> Iterator[_Store]:
    memory = instruction.memory
    if memory is None or memory.offset is None:
        return
    base = "sp" if memory.base == 31 else f"x{memory.base}"
    for position, number in enumerate(memory.stored):
        register = f"x{number}" if memory.size == 8 and not memory.moves_base else ""
        yield _Store(register, base, memory.offset + memory.size * position, memory.size)
