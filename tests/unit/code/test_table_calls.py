# SPDX-License-Identifier: Apache-2.0
"""Calls through a table of functions: whose, whatever way its address takes into a register."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import programs
from tests.fixtures import assembled_aarch64
from tests.fixtures.assembled import Assembled, assemble, function

from ssllatency.code.aarch64.machine import Aarch64
from ssllatency.code.bodies import Bodies
from ssllatency.code.table_calls import TableCalls
from ssllatency.code.x86.machine import X86

TABLE = """
.hidden table
.section .data.rel.ro,"aw"
.globl table, other, pointer, moving
.hidden table, other, pointer, moving
.p2align 4
table: .quad f, f, f, f
other: .quad f, f, f, f
pointer: .quad table
.data
moving: .quad table
"""
GETTER = function("getter", "lea table(%rip), %rax\nret", binding=".hidden getter\n.globl")
FORMS = {
    "its address": "lea table(%rip), %rax\nat_1: call *16(%rax)",
    "a pointer to it": "mov pointer(%rip), %rax\nat_1: call *16(%rax)",
    "another function": "call getter\nat_1: call *16(%rax)",
    "a register that calls leave": "lea table(%rip), %rbx\ncall getter\nmov 16(%rbx), %rcx\nmov %rbx, %rdi\nat_1: call *%rcx",
    "two ways": "lea table(%rip), %rax\ntest %edi, %edi\nje 1f\nmov pointer(%rip), %rax\n1: at_1: call *16(%rax)",
}
OTHERS = {
    "another table": "lea other(%rip), %rax\ncall *16(%rax)",
    "another function of it": "lea table(%rip), %rax\ncall *8(%rax)",
    "either table": "lea table(%rip), %rax\ntest %edi, %edi\nje 1f\nlea other(%rip), %rax\n1: call *16(%rax)",
    "a table or an argument": "mov %rdi, %rax\ntest %edi, %edi\nje 1f\nlea table(%rip), %rax\n1: call *16(%rax)",
    "what a call may have changed": "lea table(%rip), %rcx\ncall getter\ncall *16(%rcx)",
    "an argument": "call *16(%rdi)",
    "beside it": "lea table(%rip), %rax\nadd $8, %rax\ncall *16(%rax)",
}


def calls_through(made: Assembled) -> list[int]:
    """Those through the third function of the table, once the way of f to it is known."""
    calls = TableCalls(made.image, X86(), Bodies(made.image, X86()))
    start = made.image.function("f")
    assert start
    calls.of_function(start.address)
    return list(calls.through(made.symbols["table"], [16]))


def program(tmp_path: Path, body: str) -> Assembled:
    return assemble(tmp_path, f"{GETTER}{function('f', f'push %rbx{chr(10)}{body}{chr(10)}pop %rbx{chr(10)}ret')}{TABLE}")


@pytest.mark.parametrize("form", FORMS)
def test_a_call_through_the_table(tmp_path: Path, form: str) -> None:
    made = program(tmp_path, FORMS[form])
    assert calls_through(made) == [made.symbols["at_1"]]


@pytest.mark.parametrize("form", OTHERS)
def test_another_call(tmp_path: Path, form: str) -> None:
    assert calls_through(program(tmp_path, OTHERS[form])) == []


PLACE = 0x1800  # on the page of the code
ADDRESS = ".inst 0x90000013\nadd x19, x19, #0x800"  # adrp x19, to the page that it lies on itself
GET = ".inst 0x90000000\nadd x0, x0, #0x800\nret"
ON_AARCH64 = {
    f"{ADDRESS}\nldr x1, [x19, #16]\nblr x1": [16],
    f"{ADDRESS}\nbl getter\nldr x1, [x19, #24]\nmov x0, x19\nblr x1": [24],
    "bl getter\nldr x1, [x0, #16]\nblr x1": [16],
    "bl getter\nmov x19, x0\nbl getter\nldr x1, [x19, #16]\nblr x1": [16],
    f"{ADDRESS}\ncbz x0, 1f\nmov x19, x0\n1: ldr x1, [x19, #16]\nblr x1": [],
    "mov x2, x0\nbl getter\nldr x1, [x2, #16]\nblr x1": [],
    "ldr x1, [x0, #16]\nblr x1": [],
}


@pytest.mark.parametrize("body", ON_AARCH64)
def test_on_aarch64(tmp_path: Path, body: str) -> None:
    programs.needed("clang")
    frame = "stp x29, x30, [sp, #-32]!\nstr x19, [sp, #16]\n{}\nldr x19, [sp, #16]\nldp x29, x30, [sp], #32\nret"
    text = assembled_aarch64.function("getter", GET) + assembled_aarch64.function("f", frame.format(body))
    made = assembled_aarch64.assemble(tmp_path, text)
    calls = TableCalls(made.image, Aarch64(), Bodies(made.image, Aarch64()))
    assert list(calls.of_function(made.symbols["f"]).values()) == [(PLACE, offset) for offset in ON_AARCH64[body]]
    assert list(calls.through(PLACE, [16, 24]).values()) == ON_AARCH64[body]
