# SPDX-License-Identifier: Apache-2.0
"""Whether the verifier passes every program of every object for every way of attaching, with room to spare, and that none has a
private stack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ssllatency import abi
from ssllatency.engines.bpf.libbpf import BpfObject
from ssllatency.engines.bpf.objects import open_object
from ssllatency.engines.trial import OBJECTS, attach_types
from ssllatency.errors import SsllatencyError
from tests.bpf import instructions, stepping
from tests.bpf.native import has_private_stack, native_code
from tests.kernels.guest.ways import ways

ASKS_WHO = ("handshakes", "snoop")  # the objects that tell who shook hands where that is asked for
MOST_INSTRUCTIONS = 500_000  # that the verifier goes through in a program: half of what it does before it refuses one
_WENT_THROUGH = "verified_insns:"  # in a descriptor's fdinfo, since Linux 5.16


def every_program_loads() -> dict[str, Any]:
    """Each object as a whole, as it is loaded in use; where that fails, its programs one by one, so that they are named."""
    refused, number, most = [], 0, dict.fromkeys(OBJECTS, 0)
    for name in OBJECTS:
        for method in ways():
            with open_object(name) as opened:
                types = attach_types(opened, method)
            number += len(types)
            try:
                most[name] = max(most[name], _load(name, types))
            except SsllatencyError:
                refused += [f"{name} {program} ({method}): {why}" for program, why in _one_by_one(name, types)]
    assert not refused, "; ".join(refused)
    assert max(most.values()) <= MOST_INSTRUCTIONS, f"the verifier goes through {most} instructions in one program"
    return {"programs": number, "ways": [str(method) for method in ways()], "instructions": most}


def every_kind_of_site() -> dict[str, Any]:
    """Each kind of instruction that the planner may probe runs as it expects. What it takes no site on is named."""
    expected = {each: stepping.expected(stepping.instruction(each)) for each in instructions.OWN}
    wrong = []
    for snippet, cost in expected.items():
        try:
            if cost is not None:
                stepping.check(snippet, cost, Path("/tmp"))
        except (AssertionError, EOFError, OSError) as error:
            wrong.append(f"{snippet.name} ({cost}): {error}")
    assert not wrong, "; ".join(wrong)
    return {
        "checked": sum(cost is not None for cost in expected.values()),
        "none": [s.name for s, c in expected.items() if not c],
    }


def _load(name: str, types: dict[str, int]) -> int:
    """As it is loaded by default, then with all that can be asked for: the verifier leaves out what isn't. Return how many
    instructions it goes through in the program that takes most; 0 where the kernel doesn't say."""
    most = 0
    for everything in (False, True):
        with open_object(name) as opened:
            _choose(opened, types)
            if everything and name in ASKS_WHO:
                opened.section(".rodata.who_config", abi.WhoConfig).labels = 0xFFFFFFFF
            _check_loading(opened, name, types)
            most = max(most, *(_instructions(opened.program_fd(program)) for program in types))
    return most


def _check_loading(opened: BpfObject, name: str, types: dict[str, int]) -> None:
    opened.load()
    codes = {program: native_code(opened.program_fd(program)) for program in types}
    assert all(codes.values()), f"{name} isn't compiled by the JIT"
    private = [program for program, code in codes.items() if has_private_stack(code)]
    assert not private, f"{name} has private stacks: {private}"


def _instructions(program_fd: int) -> int:
    lines = Path(f"/proc/self/fdinfo/{program_fd}").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(_WENT_THROUGH)), 0)


def _one_by_one(name: str, types: dict[str, int]) -> list[tuple[str, str]]:
    refused = []
    for program, attach_type in types.items():
        try:
            _load(name, {program: attach_type})
        except SsllatencyError as error:
            refused.append((program, str(error)))
    return refused


def _choose(opened: BpfObject, types: dict[str, int]) -> None:
    for program in opened.program_names():
        opened.choose_program(program, load=program in types, attach_type=types.get(program, 0))
