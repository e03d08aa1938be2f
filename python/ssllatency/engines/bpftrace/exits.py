# SPDX-License-Identifier: Apache-2.0
"""The return value that an exit site shows, in bpftrace's language: what bpf/common/registers.bpf.h does in C."""

from __future__ import annotations

from ssllatency.probes.plan import CONDITIONS, Leaving, Probe

_FLAGS = 'reg("flags")'
_LESS = f"((({_FLAGS} >> 7) ^ ({_FLAGS} >> 11)) & 1) != 0"
# By the mnemonic of x86-64's jcc, of each pair the one that isn't negated: carry 1, parity 4, zero 64, sign 128, overflow 2048.
_CONDITIONS = {
    "jo": f"({_FLAGS} & 2048) != 0",
    "jb": f"({_FLAGS} & 1) != 0",
    "je": f"({_FLAGS} & 64) != 0",
    "jbe": f"({_FLAGS} & 65) != 0",
    "js": f"({_FLAGS} & 128) != 0",
    "jp": f"({_FLAGS} & 4) != 0",
    "jl": _LESS,
    "jle": f"(({_FLAGS} & 64) != 0 || {_LESS})",
}
_NEGATED = dict(zip(CONDITIONS[1::2], CONDITIONS[::2], strict=True))


def taken(condition: str) -> str:
    """The expression for a branch with this mnemonic being taken."""
    return f"!({_CONDITIONS[_NEGATED[condition]]})" if condition in _NEGATED else f"({_CONDITIONS[condition]})"


def leaves(probe: Probe) -> str:
    """The condition under which the call is left at the exit site, "" where it always is."""
    if not probe.condition or probe.leaving is Leaving.BOTH:
        return ""
    return taken(probe.condition) if probe.leaving is Leaving.TAKEN else f"!({taken(probe.condition)})"


def returned(probe: Probe) -> str:
    """The expression for what is returned, as 64 bits."""
    values = [_value(value) for value in probe.values()]
    return values[0] if len(values) == 1 else f"{taken(probe.condition)} ? {values[0]} : {values[1]}"


def _value(value: str | int) -> str:
    if isinstance(value, int):
        return f"(uint64)({value})" if value >= 0 else f"(uint64)(0 - {-value})"
    return f'reg("{_register(value)}")'


def _register(name: str) -> str:
    """Return bpftrace's name of the register: rax is ax, r8 is r8, aarch64's x0 is r0."""
    if name.startswith("x"):
        return f"r{name[1:]}"
    return name if name[1:].isdigit() else name.removeprefix("r")
