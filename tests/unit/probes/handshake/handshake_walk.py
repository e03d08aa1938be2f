# SPDX-License-Identifier: Apache-2.0
"""A second look at a phase's sites: capstone decodes the function from its start, without the planner, and the way from the
begin to the call and on to the end is walked as the processor would take it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from ssllatency.code.decode import instructions
from ssllatency.elf.image import Image
from ssllatency.probes.plan import PhaseCall

_CALLS = ("call", "bl", "blr")
_JUMPS = ("jmp", "b")
_MOST = 200


@dataclass(frozen=True)
class Walk:
    """The call that lies between the sites; `clean` if nothing between begin and call, or call and end, can lead elsewhere."""

    call: Any
    clean: bool


@cache
def function(image: Image, address: int) -> dict[int, Any]:
    """The instructions of the function that holds `address`, decoded from its start."""
    bounds = image.function_bounds(address)
    assert bounds is not None
    return {each.address: each for each in instructions(image.code(bounds[0], bounds[1] - bounds[0]), bounds[0], image.machine)}


def walk(image: Image, call: PhaseCall) -> Walk:
    """From the begin, past exactly one call, to the end; a session's reference may be taken before. AssertionError where there
    is no such way."""
    nodes = function(image, call.begin.address)
    address, taken = call.begin.address, call.taken
    passed: Any = None
    clean = True
    for _ in range(_MOST):
        each = nodes[address]
        if passed and address in [end.address for end in call.ends]:
            return Walk(passed, clean)
        name = each.mnemonic.split()[-1]
        following = address + each.size
        if name in _CALLS and not calls(image, each, "SSL_SESSION_up_ref"):
            assert passed is None, f"two calls lie between the sites of {call.callee}"
            passed = each
        elif name in _JUMPS or (name.startswith("j") and address == call.begin.address and taken):
            following = _target(each)
        elif _parts(name):
            clean = clean and address == call.begin.address and name == call.condition
        assert name != "ret"
        address = following
    raise AssertionError(f"no end of {call.callee} is reached from {call.begin.address:#x}")


def calls(image: Image, each: Any, name: str) -> bool:
    """Whether the call is one of this function by its address."""
    operand = each.op_str.lstrip("#")
    if not operand.startswith("0x"):
        return False
    function, target = image.function(name), int(operand, 16)
    return image.plt_target(target) == name or (function is not None and function.address == target)


def _parts(name: str) -> bool:
    return name.startswith(("j", "b.", "cb", "tb"))


def _target(each: Any) -> int:
    return int(each.op_str.lstrip("#"), 16)
