# SPDX-License-Identifier: Apache-2.0
"""A debug file is a hint: it may name a function that the mapped file confirms, and never choose where a probe goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import pytest
from tests.fixtures import build, hostile
from tests.fixtures.assembled import Assembled, function
from tests.fixtures.functions import function_ranges

from ssllatency.elf.image import Image
from ssllatency.probes.catalogue import CATALOGUE
from ssllatency.probes.handshake.phases import plan_handshake
from ssllatency.probes.plan import FilePlan, HandshakeSites
from ssllatency.probes.planner import plan_image

# Functions of libcrypto by which the file is known for one, and a region of hand-written code that has no unwind data. `inside`
# lies in the middle of an instruction; what follows there reads as a function: push, pop, ret.
SIGN = function("EVP_DigestSign", "push %rbx\ncall other@PLT\npop %rbx\nret\n")
REGION = """
.p2align 4
.globl region
region:
    xor %eax, %eax
    .byte 0x48, 0xb8            # movabs $…, %rax
inside:
    .byte 0x53, 0x90, 0x5b, 0xc3, 0x90, 0x90, 0x90, 0x90
    ret
region_end:
"""
CONFIRMED = function("hidden_function", "push %rbx\ncall other@PLT\npop %rbx\nret\n", binding=".local")


def stripped(made: Assembled) -> Path:
    return build.stripped(made.path, "libcrypto-stripped.so")


def with_debug_file(path: Path, root: Path, *functions: tuple[str, int, int]) -> Image:
    """The image at `path`, for which a root has a debug file that names these functions."""
    build_id = Image.open(path).build_id
    hostile.debug_file(hostile.build_id_place(root, build_id), build_id, functions)
    return Image.open(path, debug_roots=[str(root)])


def offsets(plan: FilePlan | HandshakeSites) -> set[int]:
    """Where its probes would be set."""
    if isinstance(plan, FilePlan):
        return {probe.address for planned in plan.operations for probe in planned.probes}
    sites = {probe.address for call in plan.calls for probe in (call.begin, *call.ends)}
    return sites | {each.probe.address for each in plan.errors} | ({plan.wake.address} if plan.wake else set())


@pytest.mark.parametrize("size", [4, 8, 9, 1 << 20])
def test_no_site_where_only_a_debug_file_sees_a_function(
    assembled: Callable[[str], Assembled], tmp_path: Path, size: int
) -> None:
    made = assembled(SIGN + REGION.replace(".globl region\n", ""))
    inside, region, end = (made.symbols[name] for name in ("inside", "region", "region_end"))
    names = ("ecx_derive", "ERR_vset_error", "ASYNC_WAIT_CTX_set_wait_fd", "ERR_set_error")
    image = with_debug_file(stripped(made), tmp_path / "root", *((name, inside, size) for name in names))
    plan = plan_image(image)
    assert not {at for each in (plan, plan_handshake(image)) for at in offsets(each) if region <= at < end}
    assert "ecx_derive" in {one.operation for one in plan.missing if "only a debug file" in one.reason}


def test_a_function_that_the_unwind_tables_confirm_is_planned_as_the_file_has_it(
    assembled: Callable[[str], Assembled], tmp_path: Path
) -> None:
    """Its size in the debug file says nothing."""
    made = assembled(SIGN + CONFIRMED)
    real = made.image.own_function("hidden_function")
    assert real is not None
    for size in (0, 1, real.size, 1 << 30):
        image = with_debug_file(stripped(made), tmp_path / "root", ("ecx_derive", real.address, size))
        (planned,) = (one for one in plan_image(image).operations if one.operation == "ecx_derive")
        assert (planned.address, planned.size) == (real.address, real.size)
        assert (planned.found, planned.debug_file) == ("debug file", image.debug_file)


def test_neither_the_middle_of_a_function_nor_a_part_of_one_is_one(
    assembled: Callable[[str], Assembled], tmp_path: Path
) -> None:
    part = ".cfi_startproc\n.cfi_def_cfa_offset 16\npart: pop %rbx\n.cfi_def_cfa_offset 8\nret\n.cfi_endproc\n"
    made = assembled(SIGN + function("whole", "push %rbx\nat_middle: jmp part\n", binding=".local") + part)
    for name in ("at_middle", "part"):
        image = with_debug_file(stripped(made), tmp_path / "root", ("ecx_derive", made.symbols[name], 3))
        assert image.function("ecx_derive") is None
        assert image.unconfirmed("ecx_derive")


def test_a_name_that_a_debug_file_gives_to_what_never_returns_is_not_believed(
    assembled: Callable[[str], Assembled], tmp_path: Path
) -> None:
    """Else the code behind a call of it would not be followed, and ways out be missed."""
    made = assembled(SIGN + CONFIRMED + function("caller", "call hidden_function\nret\n"))
    path, address = stripped(made), made.symbols["hidden_function"]
    image = with_debug_file(path, tmp_path / "root", ("abort", address, 8), ("ecx_derive", made.symbols["caller"], 6))
    (planned,) = (one for one in plan_image(image).operations if one.operation == "ecx_derive")
    assert len(planned.probes) == 2


LIBCRYPTO = Path("/usr/lib/x86_64-linux-gnu/libcrypto.so.3")
PLANNED = 4  # plans of all of it, in each of which the functions are in other regions


def regions_without_unwind_data(image: Image) -> Iterator[tuple[int, int]]:
    """[start, end) of what lies in code between two functions that the unwind tables know."""
    ranges = sorted(function_ranges(image))
    last = ranges[0][1]
    for start, end in ranges:
        if start - last > 16:
            yield last, start
        last = max(last, end)


@pytest.mark.skipif(not LIBCRYPTO.exists(), reason=f"needs {LIBCRYPTO} (Debian: apt-get install libssl3)")
@pytest.mark.slow
def test_no_region_of_the_systems_libcrypto_without_unwind_data_can_be_chosen(tmp_path: Path) -> None:
    """Each byte of each region's head is tried, and bytes throughout; and plans have each region as several functions."""
    honest = Image.open(LIBCRYPTO, debug_roots=())
    regions = [(start, end) for start, end in regions_without_unwind_data(honest) if honest.executable(start)]
    assert len(regions) >= 20
    names = sorted(name for operation in CATALOGUE if operation.library == "libcrypto" for name in operation.symbols)
    tried = 0
    for start, end in regions:
        places = sorted({*range(start, min(end, start + 48)), *range(start, end, max(1, (end - start) // 48))})
        for at in range(0, len(places), len(names)):
            lies = [(name, place, end - place) for name, place in zip(names, places[at:], strict=False)]
            image = with_debug_file(LIBCRYPTO, tmp_path / "root", *lies)
            for name, _, _ in lies:
                found = image.function(name)
                assert found is None or not start <= found.address < end, name
            tried += len(lies)
    assert tried > 1000
    for turn in range(PLANNED):
        chosen = cycle(regions[turn:] + regions[:turn])
        lies = [(name, start, end - start) for name, (start, end) in zip(names, chosen, strict=False)]
        image = with_debug_file(LIBCRYPTO, tmp_path / "root", *lies)
        assert not {site for site in offsets(plan_image(image)) for start, end in regions if start <= site < end}
