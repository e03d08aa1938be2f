# SPDX-License-Identifier: Apache-2.0
"""Vector registers of x86-64, as far as compilers move pointers by them: two at once, or with a zero beside. Their halves are
kept by names of their own beside the general registers; of what is loaded, only whole ones are followed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from ssllatency.code.evaluation import PathState
from ssllatency.code.values import Value

_REGISTER, _MEMORY = 1, 3  # capstone.CS_OP_REG, CS_OP_MEM


class Operands(Protocol):
    """The evaluation, as far as it reads and writes an instruction's other operands."""

    def read(self, state: PathState, instruction: Any, operand: Any) -> Value:
        """The value of an operand."""

    def write(self, state: PathState, instruction: Any, operand: Any, value: Value) -> None:
        """Stores `value` where an operand says."""

    def load_at(self, state: PathState, instruction: Any, operand: Any) -> tuple[Value, Value]:
        """The two values of 64 bits where a memory operand leads."""

    def store_at(self, state: PathState, instruction: Any, operand: Any, values: Iterable[Value]) -> None:
        """Stores values of 64 bits one behind the other where a memory operand leads."""


def forget(state: PathState, name: str) -> None:
    """Makes a vector register unknown, of which `name` is that or of its wider form; nothing for other registers."""
    if name[1:3] == "mm":
        for half in _halves(f"x{name[1:]}"):
            state.registers.pop(half, None)


def forget_all(state: PathState) -> None:
    """Makes all of them unknown, as a call does."""
    for number in range(16):
        forget(state, f"xmm{number}")


def _halves(name: str) -> tuple[str, str]:
    return f"{name} low", f"{name} high"


def _name(instruction: Any, operand: Any) -> str:
    """The vector register of an operand, "" for another."""
    name = str(instruction.reg_name(operand.reg)) if operand.type == _REGISTER else ""
    return name if name.startswith("xmm") else ""


def _get(state: PathState, name: str) -> tuple[Value, Value]:
    low, high = _halves(name)
    return state.registers.get(low), state.registers.get(high)


def _set(state: PathState, name: str, low: Value, high: Value) -> None:
    state.registers.update(zip(_halves(name), (low, high), strict=True))


def _move_whole(evaluation: Operands, state: PathState, instruction: Any) -> None:
    """movups and its like."""
    target, source = instruction.operands
    register = source.type == _REGISTER
    values = _get(state, _name(instruction, source)) if register else evaluation.load_at(state, instruction, source)
    if target.type == _MEMORY:
        evaluation.store_at(state, instruction, target, values)
    else:
        _set(state, _name(instruction, target), *values)


def _move_low(evaluation: Operands, state: PathState, instruction: Any) -> None:
    """movq, which leaves zero in the other half."""
    target, source = instruction.operands
    name = _name(instruction, source)
    value = _get(state, name)[0] if name else evaluation.read(state, instruction, source) if source.type != _MEMORY else None
    if target.type == _MEMORY:
        evaluation.store_at(state, instruction, target, (value,))
    elif _name(instruction, target):
        _set(state, _name(instruction, target), value, 0)
    else:
        evaluation.write(state, instruction, target, value)


def _clear(_: Operands, state: PathState, instruction: Any) -> None:
    """pxor and its like: zero of a register with itself."""
    target, source = (_name(instruction, operand) for operand in instruction.operands)
    _set(state, target, *((0, 0) if target == source else (None, None)))


def _join(_: Operands, state: PathState, instruction: Any) -> None:
    """punpcklqdq: the low half of the source becomes the high one."""
    target, source = (_name(instruction, operand) for operand in instruction.operands)
    _set(state, target, _get(state, target)[0], _get(state, source)[0] if source else None)


def _store_high(evaluation: Operands, state: PathState, instruction: Any) -> None:
    """movhps."""
    target, source = instruction.operands
    if target.type == _MEMORY:
        evaluation.store_at(state, instruction, target, _get(state, _name(instruction, source))[1:])
    else:
        forget(state, _name(instruction, target))


HANDLERS = {
    **dict.fromkeys(("movups", "movaps", "movupd", "movapd", "movdqu", "movdqa"), _move_whole),
    "movq": _move_low,
    **dict.fromkeys(("pxor", "xorps", "xorpd"), _clear),
    **dict.fromkeys(("punpcklqdq", "unpcklpd"), _join),
    **dict.fromkeys(("movhps", "movhpd"), _store_high),
}
