# SPDX-License-Identifier: Apache-2.0
"""What must hold of what is read of a Go executable, whatever its bytes: an ElfError, or else

- functions follow one another within the file's code;
- a struct's fields lie within it, and an itab holds the type that it is kept by;
- of a planned function each site lies within it, and an instruction begins there;
- the whole plan, of calls and of handshakes, comes back from its JSON values as it was, and numbers for the kernel side fit it.

No other exception may leave the reader. That it takes no more than some time and memory is the runner's to see to.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice, pairwise

from ssllatency.abi import GoField, GoType
from ssllatency.code.boundaries import boundaries
from ssllatency.elf.image import ElfError, Image
from ssllatency.stacks.go.handshake.connection import known_types, label_paths
from ssllatency.stacks.go.plan import FunctionPlan, plan
from ssllatency.stacks.go.program import Program
from ssllatency.stacks.go.run_time_types import Types
from ssllatency.stacks.go.stack import Go
from ssllatency.stacks.implementations import tls_inside
from ssllatency.stacks.registry import stack_of
from tests.fixtures import go_samples
from tests.fuzz.invariants import check_names, image_of, kept_handshake_plan, kept_plan

_MOST = 64


def programs() -> list[bytes]:
    """Programs in all layouts, for both machines."""
    made = [(layout, machine) for layout in go_samples.LAYOUTS for machine in go_samples.MACHINES]
    return [go_samples.program(layout, machine, pie=pie).data() for layout, machine in made for pie in (False, True)]


def check_program(data: bytes) -> None:
    """Of what is read and planned of a program with this content."""
    try:
        image = image_of(data)
    except ElfError:
        return
    program = Program(image)
    with suppress(ElfError):
        assert program.build_info.minor is None or program.build_info.minor >= 0
    with suppress(ElfError):
        _check_functions(program)
    with suppress(ElfError):
        _check_types(image, program.types)
    with suppress(ElfError):
        for found in plan(program):
            _check_plan(image, found)
    with suppress(ElfError):
        _check_stack(image)
    for keep in (kept_plan, kept_handshake_plan):
        with suppress(ElfError):
            if stack_of(image).name == Go.name:
                keep(image, data)
    check_names(data)


def _check_stack(image: Image) -> None:
    """Of what the program is asked for beside its functions: each answer has a place on the kernel side."""
    stack = Go()
    tls_inside(image)
    assert "\n" not in stack.obstacle(image)
    assert stack.recognises(image) <= stack.is_inside(image)
    assert len(stack.known_types(image)) in (0, GoType.GO_TYPES)
    assert len(stack.runtime_fields(image)) in (0, GoField.GO_FIELDS)
    assert stack.connection(image).keys() <= {"client", "sent", "deadline"}


def _check_functions(program: Program) -> None:
    functions = list(islice(program.functions, _MOST))
    assert all(one.address + one.size == other.address for one, other in pairwise(functions))
    for function in functions:
        assert all(other.name.endswith(function.name[24:]) for other in program.functions.named(function.name))
        record = program.functions.record(function)
        assert isinstance(program.functions.pc_values(record.stack_depths), list)
    assert isinstance(program.inlining.hosts("crypto/tls.(*Conn).Handshake"), list)


def _check_types(image: Image, types: Types) -> None:
    for name, itab in islice(types.errors.items(), _MOST):
        assert types.name(image.pointer(itab + 8) or 0) == name
    conn = types.find("crypto/tls", "Conn")
    if conn is not None:
        fields = types.fields(conn).values()
        assert all(0 <= field.offset <= types.size(conn) for field in fields)
        pointer = types.pointer_to(conn)
        assert pointer is None or image.pointer(pointer + 48) == conn
    for path in label_paths(types).values():
        assert all(offset >= 0 for offset in path.offsets)
    assert all(0 <= type_hash < 1 << 32 for type_hash in (*known_types(types), *types.error_hashes))


def _check_plan(image: Image, found: FunctionPlan) -> None:
    sites = [*([found.entry.address] if found.entry else ()), *found.exits]
    sites += [site for call in found.calls for site in (call.call, call.behind)]
    assert not (sites and found.obstacle)
    assert len(set(sites)) == len(sites)
    begins = boundaries(image.machine, image.code(found.address, found.size)) if sites else frozenset()
    for site in sites:
        assert image.executable(site)
        assert site - found.address in begins
