# SPDX-License-Identifier: Apache-2.0
"""The programs call nothing that the oldest Linux lacks. No such kernel is there to load them; their instructions tell."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from ssllatency.engines import trial
from ssllatency.engines.bpf.objects import object_path
from ssllatency.engines.doctor import OLDEST_KERNEL

# enum bpf_func_id: helpers are numbered in the order in which they came. The last one of each Linux.
_LAST_HELPER = {(5, 15): 175}  # bpf_task_pt_regs
_TASK_PT_REGS = 175
_CALL, _LOAD_WIDE = 0x85, 0x18  # BPF_JMP|BPF_CALL; BPF_LD|BPF_IMM|BPF_DW, which takes two slots


def helpers(name: str) -> Iterator[int]:
    """The numbers of the helpers that an object's programs call."""
    with object_path(name).open("rb") as file:
        sections = [each for each in ELFFile(file).iter_sections() if each["sh_flags"] & SH_FLAGS.SHF_EXECINSTR]
        codes = [each.data() for each in sections]
    for code in codes:
        at = 0
        while at < len(code):
            operation, registers, _, number = struct.unpack_from("<BBhi", code, at)
            if operation == _CALL and registers >> 4 == 0:  # 1: one's own function; 2: a function of the kernel
                yield number
            at += 16 if operation == _LOAD_WIDE else 8


def functions_of_the_kernel(name: str) -> int:
    """How many calls there are of functions that aren't helpers, which kernels may change or lack."""
    with object_path(name).open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        return sum(each["st_shndx"] == "SHN_UNDEF" and each.name != "" for each in table.iter_symbols())


@pytest.mark.parametrize("name", trial.OBJECTS)
def test_every_helper_is_in_the_oldest_kernel(name: str) -> None:
    called = set(helpers(name))
    assert called
    assert max(called) <= _LAST_HELPER[OLDEST_KERNEL]
    assert functions_of_the_kernel(name) == 0


def test_the_newest_helper_is_what_makes_it_the_oldest() -> None:
    assert max(number for name in trial.OBJECTS for number in helpers(name)) == _TASK_PT_REGS
