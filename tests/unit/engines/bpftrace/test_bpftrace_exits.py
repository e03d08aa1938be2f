# SPDX-License-Identifier: Apache-2.0
"""The conditions of branches in bpftrace's language, evaluated here for all flags against what the processor's manual says."""

from __future__ import annotations

import pytest
from tests.parameters import slow_except

from ssllatency.code.machine import Cost
from ssllatency.engines.bpftrace import exits as bpftrace_exits
from ssllatency.probes.plan import CONDITIONS, Leaving, Probe, Role

CARRY, PARITY, ZERO, SIGN, OVERFLOW = 1, 4, 64, 128, 2048
MANUAL = {
    "jo": lambda f: f & OVERFLOW,
    "jb": lambda f: f & CARRY,
    "je": lambda f: f & ZERO,
    "jbe": lambda f: f & CARRY or f & ZERO,
    "js": lambda f: f & SIGN,
    "jp": lambda f: f & PARITY,
    "jl": lambda f: bool(f & SIGN) != bool(f & OVERFLOW),
    "jle": lambda f: f & ZERO or bool(f & SIGN) != bool(f & OVERFLOW),
}


def exit_site(**more: object) -> Probe:
    return Probe(0, 0, Role.EXIT, "jne 0x0", Cost.EMULATED, **more)  # type: ignore[arg-type]


def python(expression: str, flags: int) -> bool:
    words = expression.replace('reg("flags")', str(flags)).replace("||", " or ").replace("!=", "≠").replace("!", " not ")
    return bool(eval(words.replace("≠", "!=")))


@pytest.mark.parametrize("condition", slow_except(CONDITIONS, "je", "jne", "jbe"))
def test_every_condition_with_all_flags(condition: str) -> None:
    number = CONDITIONS.index(condition)
    manual = MANUAL[CONDITIONS[number & ~1]]
    for flags in range(4096):
        expected = bool(manual(flags)) != bool(number & 1)
        assert python(bpftrace_exits.taken(condition), flags) == expected
        assert python(bpftrace_exits.leaves(exit_site(condition=condition, leaving=Leaving.TAKEN)), flags) == expected
        assert python(bpftrace_exits.leaves(exit_site(condition=condition, leaving=Leaving.OTHER)), flags) != expected


@pytest.mark.parametrize(
    ("more", "expression"),
    [
        ({"return_register": "rax"}, 'reg("ax")'),
        ({"return_register": "r8"}, 'reg("r8")'),
        ({"taken_value": 1, "other_value": 1}, "(uint64)(1)"),
        ({"taken_value": -2, "other_value": -2}, "(uint64)(0 - 2)"),
        ({"condition": "je", "leaving": Leaving.TAKEN, "taken_value": 1}, "(uint64)(1)"),
        ({"condition": "je", "leaving": Leaving.OTHER, "return_register": "rbx"}, 'reg("bx")'),
        (
            {"condition": "je", "taken_value": 0, "return_register": "rbx"},
            '((reg("flags") & 64) != 0) ? (uint64)(0) : reg("bx")',
        ),
    ],
)
def test_what_is_returned(more: dict[str, object], expression: str) -> None:
    assert bpftrace_exits.returned(exit_site(**more)) == expression


def test_most_sites_are_left_whatever_comes() -> None:
    assert bpftrace_exits.leaves(exit_site(return_register="rax")) == ""
    assert bpftrace_exits.leaves(exit_site(condition="je", taken_value=0, other_value=1)) == ""
