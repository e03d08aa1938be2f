# SPDX-License-Identifier: Apache-2.0
"""Constants in the registers of an x86-64 function that hold its calls' first arguments, for evaluate.py. Only texts of
instructions are read."""

from __future__ import annotations

from ssllatency.code.constant_blocks import CodeBlock
from ssllatency.code.decode import lines

_ARGUMENTS = ("rdi", "rsi", "rdx", "rcx", "r8")
FOLLOWED = len(_ARGUMENTS)
"""Those whose constants are followed: the first arguments, in their order."""
_ENDS = ("ret", "jmp", "ud2", "hlt", "int3")
_ONLY_READ = ("cmp", "test", "push", "bt", "nop", "ucomisd", "ucomiss", "comisd", "comiss")
# Those that write registers which their text doesn't name.
_OTHERS_TOO = ("mul", "imul", "div", "idiv", "cdq", "cqo", "cpuid", "rdtsc", "syscall", "xchg", "xadd", "loop", "rep", "mulx")


def _names(number: int, register: str) -> dict[str, tuple[int, bool]]:
    """Every name of a register's parts: its number, and whether writing it sets the whole register."""
    if register.startswith("r8"):
        return {"r8": (number, True), "r8d": (number, True), "r8w": (number, False), "r8b": (number, False)}
    stem = register[1:]
    low = {f"{stem[0]}l": (number, False), f"{stem[0]}h": (number, False)} if stem[1] == "x" else {f"{stem}l": (number, False)}
    return {register: (number, True), f"e{stem}": (number, True), stem: (number, False), **low}


_PARTS = {name: part for number, register in enumerate(_ARGUMENTS) for name, part in _names(number, register).items()}


def blocks(code: bytes, start: int) -> dict[int, CodeBlock]:
    """The blocks of the function that begins at `start`, by their first addresses."""
    listed = [(line.address, len(line.code), line.mnemonic, line.op_str) for line in lines(code, start, "x86-64")]
    own = {address for address, *_ in listed}
    starts = {
        target for _, _, name, text in listed if name[0] == "j" and (target := _number(text)) is not None and target in own
    }
    found: dict[int, CodeBlock] = {}
    block: CodeBlock | None = None
    for address, size, name, text in listed:
        if block is None or address in starts:
            if block is not None:
                block.next.append(address)
            block = found[address] = CodeBlock.begin(FOLLOWED)
        after = address + size
        if name == "call":
            target = _number(text)
            if target is not None:
                block.call(address, target)
            block.held = [None] * FOLLOWED
        elif name[0] == "j" or name in _ENDS or name.endswith("ret"):
            target = _number(text)
            if target in own and target is not None:
                block.next.append(target)
            elif name == "jmp" and target is not None:
                block.call(address, target)
            if name not in _ENDS and not name.endswith("ret"):
                block.next.append(after)
            block = None
        else:
            _step(block.held, after, name, text)
    return found


def _step(held: list[int | None], after: int, name: str, text: str) -> None:
    """Follow one instruction; `after` is the address of the next."""
    if name.startswith(_OTHERS_TOO):
        held[:] = [None] * FOLLOWED
        return
    to, _, origin = text.partition(", ")
    part = _PARTS.get(to)
    if part is None or name in _ONLY_READ:
        return
    number, whole = part
    value: int | None = None
    if whole and name in ("mov", "movabs"):
        other = _PARTS.get(origin)
        constant = _number(origin)
        value = constant & 0xFFFFFFFF if constant is not None else held[other[0]] if other and other[1] else None
    elif whole and name == "lea" and origin.startswith("[rip "):
        value = _relative(origin, after)
    elif whole and name == "xor" and to == origin:
        value = 0
    held[number] = value


def _number(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None


def _relative(place: str, after: int) -> int | None:
    """The address that "[rip + 0x10]" names."""
    distance = _number(place[5:-1].replace(" ", "")) if place.endswith("]") else None
    return after + distance if distance is not None and after + distance >= 0 else None
